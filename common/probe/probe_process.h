// Runs a program that probes something which may hang (a driver), and has its stdout within a
// limit.
//
//   auto text = RunProbe({"/usr/libexec/tandem/tandem-executor-cuda", "--probe"},
//   absl::Seconds(20));
//
// Thread-safety: any thread; waits.
// Ownership: the program is killed with its group when time is up; one that cannot die then (a
// driver holds it) is left behind, so that nobody waits for it.
#ifndef TANDEM_COMMON_PROBE_PROBE_PROCESS_H_
#define TANDEM_COMMON_PROBE_PROBE_PROCESS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace tandem {

// What it wrote, whatever its exit status. NOT_FOUND (PATH_UNREADABLE) where the program cannot be
// started, DEADLINE_EXCEEDED (TIME_LIMIT) when time is up, UNAVAILABLE (DEVICE_FAULT) when a signal
// ended it. At most kProbeBytesMax are read.
inline constexpr size_t kProbeBytesMax = size_t{1} << 20;
absl::StatusOr<std::string> RunProbe(const std::vector<std::string>& argv, absl::Duration limit);

}  // namespace tandem

#endif  // TANDEM_COMMON_PROBE_PROBE_PROCESS_H_
