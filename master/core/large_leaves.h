// Leaves for which a worker had not the memory on any device that may run them.
//
// They wait for a worker with a larger budget, while one is known that may run the job: attached,
// away for a moment, drained, or expected back. When there is none, or no more, their tasks fail
// with GPU_OOM, the need and the budget; other leaves go on.
//
// Thread-safety: as turn.h.
#ifndef TANDEM_MASTER_CORE_LARGE_LEAVES_H_
#define TANDEM_MASTER_CORE_LARGE_LEAVES_H_

#include <cstdint>

#include "master/core/turn.h"

namespace tandem::master {

// Of leaves that a worker gave back, which are in no set now: a device must have `need` bytes, and
// has at most `budget` there.
void OnTooLarge(Turn& turn, Job& job, LeafRange leaves, uint64_t need, uint64_t budget);
// Workers came or went: fails what none of those that are left could run.
void FailWhatFitsNowhere(Turn& turn);
// Has one of the job's large leaves a place at this worker?
inline bool HasLarge(const Job& job, const Worker& worker) {
  return !job.free_large.empty() && job.free_large.begin()->first <= worker.gpu_budget_bytes;
}

}  // namespace tandem::master

#endif  // TANDEM_MASTER_CORE_LARGE_LEAVES_H_
