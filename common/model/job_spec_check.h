// The part of ValidateAndBind that needs no kernel: policy, resources, names, and what is not
// honoured yet. Thread-safety: pure functions.
#ifndef TANDEM_COMMON_MODEL_JOB_SPEC_CHECK_H_
#define TANDEM_COMMON_MODEL_JOB_SPEC_CHECK_H_

#include "absl/status/status.h"
#include "common/model/bound_job.h"
#include "common/model/job_spec.h"

namespace tandem {

// That owner, name, request id, kernel and labels are short UTF-8 without control characters: what
// a client asks before it sends them. Errors: BAD_SPEC, LIMIT_EXCEEDED, with the field's path.
absl::Status CheckJobTexts(const JobSpec& spec, const JobLimits& limits);

// CheckJobTexts and all the rest. Errors: as ValidateAndBind().
absl::Status CheckJobPolicy(const JobSpec& spec, const Capabilities& capabilities,
                            const JobLimits& limits);

}  // namespace tandem

#endif  // TANDEM_COMMON_MODEL_JOB_SPEC_CHECK_H_
