// What is said of tasks that have no bytes: not yet, failed, or never to be.
//
// Zeros may stand for a task that failed, and only when the reader asked for that. A task that
// never ran, because its job was cancelled or gave up, is never read as zeros.
//
// Thread-safety: pure functions and policies of one reader each. Ownership: the store outlives the
// policy.
#ifndef TANDEM_MASTER_SERVER_OUTPUT_GAPS_H_
#define TANDEM_MASTER_SERVER_OUTPUT_GAPS_H_

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "master/server/job_view.h"
#include "master/server/output_source.h"
#include "master/store/store.h"

namespace tandem::master {

// FAILED_PRECONDITION (RESULT_NOT_READY).
absl::Status NotReady(JobId job, std::string_view what);

// FAILED_PRECONDITION (RESULT_NOT_READY) of a job that runs, (JOB_CANCELLED, JOB_FAILED) of one
// that ended without a result; OK of one that succeeded.
absl::Status CheckReducible(const JobView& view);

// For one of its outputs. `failed_as_zero`: gaps that are failed tasks all through are OK. Else
// TASK_FAILED; JOB_CANCELLED or JOB_FAILED for what never ran, with the tasks that can be read.
GapPolicy GapsOf(Store* store, const JobView& view, uint32_t output, bool failed_as_zero);

}  // namespace tandem::master

#endif  // TANDEM_MASTER_SERVER_OUTPUT_GAPS_H_
