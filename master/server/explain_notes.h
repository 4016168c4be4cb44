// What workers say of themselves (WorkerNotes), as findings: what runs late, and where.
//
// Thread-safety: pure functions.
#ifndef TANDEM_MASTER_SERVER_EXPLAIN_NOTES_H_
#define TANDEM_MASTER_SERVER_EXPLAIN_NOTES_H_

#include <cstdint>
#include <string_view>

#include "tandem/v1/cluster.pb.h"
#include "tandem/worker/v1/worker.pb.h"

namespace tandem::master {

// To who asks about the job: which tasks, where, and for how long.
v1::Finding ExplainLateTasks(const worker::v1::LateRun& late, std::string_view worker,
                             uint64_t grain, uint64_t task_count);
// To who asks about the worker: which leaves of which job.
v1::Finding ExplainLateLeaves(const worker::v1::LateRun& late);

}  // namespace tandem::master

#endif  // TANDEM_MASTER_SERVER_EXPLAIN_NOTES_H_
