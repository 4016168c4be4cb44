// CheckCommit: does what a worker reports fit its job? Judged before the core sees it, for the core
// never looks at outputs.
//
// Thread-safety: a pure function.
#ifndef TANDEM_MASTER_SERVER_COMMIT_CHECK_H_
#define TANDEM_MASTER_SERVER_COMMIT_CHECK_H_

#include "absl/status/status.h"
#include "common/model/bound_job.h"
#include "common/model/lease_messages.h"

namespace tandem::master {

// Leaves and tasks lie in the job; every output is there once, with as many bytes as its tasks (or
// its partial) have; a ragged piece's table of offsets is whole. Outputs may be missing when every
// task failed. Errors: INVALID_ARGUMENT PROTOCOL_ERROR with the field's path.
absl::Status CheckCommit(const BoundJob& job, const Commit& commit);
absl::Status CheckMerge(const BoundJob& job, const MergeCommit& merge);

}  // namespace tandem::master

#endif  // TANDEM_MASTER_SERVER_COMMIT_CHECK_H_
