// Asking workers for merges; see merging.cc. Thread-safety: as turn.h.
#ifndef TANDEM_MASTER_CORE_MERGING_H_
#define TANDEM_MASTER_CORE_MERGING_H_

#include "master/core/turn.h"

namespace tandem::master {

// Gives the worker the job's next merge, if there is one. REQUIRES: the worker can run the job.
bool GrantMerge(Turn& turn, Job& job, Worker& worker);

}  // namespace tandem::master

#endif  // TANDEM_MASTER_CORE_MERGING_H_
