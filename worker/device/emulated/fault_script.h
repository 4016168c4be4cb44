// FaultScript: what goes wrong on an emulated device, and when.
//
//   "oom@2,slow@5:4,sticky@10"    the second allocation fails; from the fifth launch on everything
//                                 takes four times as long; the tenth launch is a sticky error
//
//   oom@N      the N-th allocation fails: RESOURCE_EXHAUSTED, and harms nothing
//   sticky@N   the N-th launch ends in an error that stays
//   hang@N     the N-th launch never ends
//   lost@N     with the N-th launch the device is gone
//   slow@N:F   from the N-th launch on operations take F times as long
//
// Counts begin at 1. Thread-safety: plain data.
#ifndef TANDEM_WORKER_DEVICE_EMULATED_FAULT_SCRIPT_H_
#define TANDEM_WORKER_DEVICE_EMULATED_FAULT_SCRIPT_H_

#include <cstdint>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace tandem::worker {

enum class LaunchFault { kNone, kSticky, kHang, kLost };

struct FaultScript {
  std::set<uint64_t> failing_allocations;
  std::vector<std::pair<uint64_t, LaunchFault>> launches;
  std::vector<std::pair<uint64_t, double>> slowdowns;  // in order of launches

  // Errors: INVALID_ARGUMENT (BAD_ARGUMENT), naming the part that is no fault.
  static absl::StatusOr<FaultScript> Parse(std::string_view text);

  LaunchFault OfLaunch(uint64_t number) const;
  // How many times as long operations take once so many launches were made.
  double SlowdownAt(uint64_t launches_made) const;
};

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_DEVICE_EMULATED_FAULT_SCRIPT_H_
