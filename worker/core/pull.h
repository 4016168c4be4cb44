// How many tasks a core group pulls next (architecture.md §3.4, "pull, don't cut").
//
// Thread-safety: pure functions.
#ifndef TANDEM_WORKER_CORE_PULL_H_
#define TANDEM_WORKER_CORE_PULL_H_

#include <cstdint>

#include "worker/core/options.h"

namespace tandem::worker {

// What is known about a job on one core group.
struct PullEstimate {
  double seconds_per_task = 0;  // 0: nothing is known, not even a hint
  double fixed_seconds = 0;     // a piece
  enum class Source { kHint, kKernel, kJob } source = Source::kHint;
  double hinted_seconds_per_task = 0;  // 0: there is no hint
  double proven_tasks = 0;             // kJob: of its largest finished piece; 0: not known

  bool proven() const { return source == Source::kJob; }
  // While the job is not measured, the larger of what hint and kernel say; 0: no hint, so that a
  // task may take any time.
  double careful_seconds_per_task() const;
};

// The tasks that fit the next piece, at least 1.
//   target = min(max(8 × fixed, 2 % of the rest), half of a group's share of the rest), but never
//   so small that the fixed cost outweighs the work, nor so large that the job's measurements say
//   nothing of it; a probe until there are any.
// `remaining_tasks`: in the pool and still to come; `groups`: that share them.
uint64_t PullTasks(const PullOptions& options, const PullEstimate& estimate, double remaining_tasks,
                   uint32_t groups);

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_CORE_PULL_H_
