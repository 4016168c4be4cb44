// The parts of handling a report, one file each: failures and crashes (blame.cc), merges
// (merging.cc).
//
// Thread-safety: as turn.h.
#ifndef TANDEM_MASTER_CORE_REPORTS_H_
#define TANDEM_MASTER_CORE_REPORTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "master/core/turn.h"

namespace tandem::master {

void OnMerged(Turn& turn, Worker& worker, const MergeCommit& merge);
void OnCrash(Turn& turn, Worker& worker, const Crash& crash);

// Sorts a commit's task failures: leaves whose tasks may run again leave `done->leaves` for
// `retried`; the failures of those that stay go into the record.
void SortFailures(Turn& turn, const Job& job, const std::vector<TaskFailure>& failures,
                  LeavesDone* done, LeafIntervals* retried);
// The leaves end without having run to their end: all their tasks fail. They are in no other set.
void FailLeaves(Turn& turn, Job& job, LeafRange leaves, uint32_t attempt,
                absl::FunctionRef<std::string(uint64_t task)> why);
// A leaf runs again because of a task's own failure.
void RetryAfterFailure(Turn& turn, Job& job, LeafRange leaf, uint32_t attempt);
// A partial that is not taken: `retried` leaves run again alone, so that their failures spoil no
// neighbour's partial, the others of `all` as before.
void VoidPartial(Turn& turn, Job& job, const LeafIntervals& all, const LeafIntervals& retried,
                 uint32_t attempt);

}  // namespace tandem::master

#endif  // TANDEM_MASTER_CORE_REPORTS_H_
