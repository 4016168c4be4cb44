// NvmlMonitor: reads every GPU's state now and then and listens for its Xids, on a thread of its
// own, so that a library that is missing, fails or hangs costs nobody more than a sentence.
//
//   NvmlMonitor monitor({}, [](const GpuEvent& event) {
//     if (event.out_of_service) …   // stop giving work to event.uuid
//   });
//   monitor.status();     // OK, or why there are no readings
//
// Thread-safety: any thread; the listener is called on the monitor's, must not block, and may not
// destroy the monitor.
// Ownership: the destructor ends the thread, or leaves it behind if NVML does not come back within
// the limit; the listener is not called after it.
#ifndef TANDEM_WORKER_DEVICE_NVML_NVML_MONITOR_H_
#define TANDEM_WORKER_DEVICE_NVML_NVML_MONITOR_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "worker/device/nvml/nvml_library.h"

namespace tandem::worker {

struct GpuEvent {
  std::string uuid;
  bool out_of_service = false;  // the device is to get no more work
  uint64_t xid = 0;             // 0: found by reading, not reported
  std::string text;             // what happened, and what mends it
};

struct NvmlOptions {
  std::string library = kNvmlPath;
  absl::Duration read_every = absl::Seconds(1);
  absl::Duration limit = absl::Seconds(5);  // a call that takes longer hangs
};

class NvmlMonitor {
 public:
  using Listener = std::function<void(const GpuEvent&)>;

  NvmlMonitor(NvmlOptions options, Listener listener);
  ~NvmlMonitor();
  NvmlMonitor(const NvmlMonitor&) = delete;
  NvmlMonitor& operator=(const NvmlMonitor&) = delete;

  // UNKNOWN until NVML has answered for the first time. Then OK; or UNAVAILABLE where it does not
  // start or reports no Xids, and while it hangs: the worker goes on without it.
  absl::Status status() const;
  // The last ones; empty where there are none.
  std::vector<GpuReading> readings() const;

 private:
  struct State;
  static void Run(const std::shared_ptr<State>& state);

  const std::shared_ptr<State> state_;
  std::thread thread_;
};

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_DEVICE_NVML_NVML_MONITOR_H_
