// An emulated device as text, in what a supervisor tells an executor:
//
//   emulated:EMULATED-0
//   emulated:EMULATED-0;memory=268435456;cores=8;faults=slow@5:4,sticky@10
//
//   clock=paced|exact   times of the model on the monotonic clock (what is assumed), or none
//   memory=BYTES        of the device
//   cores=X             a grid runs like on so many CPU cores
//   launch=SECONDS      what each grid costs besides
//   copy=BYTES          a second, each way
//   seed=N              of everything that is left open
//   faults=SCRIPT       worker/device/emulated/fault_script.h
//
// The environment's TANDEM_EMULATED has the same settings, for tests: of every device, or, in
// entries that begin with a name, of that one: "cores=8 EMULATED-1;faults=lost@5".
//
// What no device could be is refused: no memory, a million cores, a launch of an hour.
//
// Thread-safety: pure functions.
#ifndef TANDEM_WORKER_DEVICE_EMULATED_EMULATED_SPEC_H_
#define TANDEM_WORKER_DEVICE_EMULATED_EMULATED_SPEC_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "worker/device/emulated/emulated_gpu.h"

namespace tandem::worker {

inline constexpr char kEmulatedVariable[] = "TANDEM_EMULATED";

// "EMULATED-0": of the first.
std::string EmulatedName(uint32_t index);

// Does `device` name an emulated one?
bool IsEmulated(std::string_view device);

// `environment`: the variable's text. What the device's own text says counts more.
// Errors: INVALID_ARGUMENT (BAD_ARGUMENT), naming the setting. REQUIRES: IsEmulated(device).
absl::StatusOr<EmulatedOptions> ParseEmulated(std::string_view device,
                                              std::string_view environment = "");

// Can the variable's text be that of `count` devices? Errors: INVALID_ARGUMENT (BAD_ARGUMENT),
// naming the variable and the setting, or the name that is none of theirs.
absl::Status CheckEmulated(std::string_view environment, uint32_t count);

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_DEVICE_EMULATED_EMULATED_SPEC_H_
