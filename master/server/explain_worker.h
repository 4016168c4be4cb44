// Why a worker gets, or does not get, work: in words.
//
// Thread-safety: pure functions.
#ifndef TANDEM_MASTER_SERVER_EXPLAIN_WORKER_H_
#define TANDEM_MASTER_SERVER_EXPLAIN_WORKER_H_

#include <vector>

#include "master/core/core.h"
#include "tandem/v1/cluster.pb.h"

namespace tandem::master {

// `jobs`: unfinished ones, as the worker sees them. At least one finding.
std::vector<v1::Finding> ExplainWorkerState(const WorkerView& worker,
                                            const std::vector<JobAtWorkerView>& jobs);

}  // namespace tandem::master

#endif  // TANDEM_MASTER_SERVER_EXPLAIN_WORKER_H_
