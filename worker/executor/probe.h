// Looks at a library of kernels in a process of its own, so that whatever the library does while it
// is loaded harms nobody else.
//
//   tandem-executor --probe=/opt/kernels/wave.so --result-fd=3
//
// The result is a serialized executor.v1.Ready with the library's kernels and exit code 0, or a
// sentence and kRefusedExit.
//
// Thread-safety: called once, from main.
#ifndef TANDEM_WORKER_EXECUTOR_PROBE_H_
#define TANDEM_WORKER_EXECUTOR_PROBE_H_

#include <optional>
#include <string>
#include <vector>

namespace tandem::worker {

inline constexpr int kRefusedExit = 65;  // EX_DATAERR

// The exit code of a program that was started to probe; nothing when the arguments ask for no
// probe.
std::optional<int> ProbeIfAsked(const std::vector<std::string>& arguments);

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_EXECUTOR_PROBE_H_
