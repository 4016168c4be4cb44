// A library that answers as NVML does, for tests: what it says is set by the entries below, which a
// test finds in it by dlsym.
//
// Thread-safety: any thread.
#ifndef TANDEM_TESTS_WORKER_DEVICE_FAKE_NVML_H_
#define TANDEM_TESTS_WORKER_DEVICE_FAKE_NVML_H_

#include <cstdint>

extern "C" {

struct FakeNvml {
  // Two devices, all well: GPU-fake-0 and GPU-fake-1.
  void (*reset)();
  void (*push_xid)(int device, uint64_t xid);
  void (*set_uncorrected)(int device, uint64_t errors);
  void (*lose)(int device);
  void (*fail_remapping)(int device);
  void (*fail_init)(int code);
  void (*take_events_away)();
  // Readings do not come back until it is called with false.
  void (*hang)(bool hangs);
};
// The library's entry: "fake_nvml".
typedef const FakeNvml* (*FakeNvmlFunction)();

}  // extern "C"

#endif  // TANDEM_TESTS_WORKER_DEVICE_FAKE_NVML_H_
