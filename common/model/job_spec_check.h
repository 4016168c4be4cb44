// The part of ValidateAndBind that needs no kernel: policy, resources, names, and what is not
// honoured yet. Thread-safety: a pure function.
#ifndef TANDEM_COMMON_MODEL_JOB_SPEC_CHECK_H_
#define TANDEM_COMMON_MODEL_JOB_SPEC_CHECK_H_

#include "absl/status/status.h"
#include "common/model/bound_job.h"
#include "common/model/job_spec.h"

namespace tandem {

// Errors: as ValidateAndBind().
absl::Status CheckJobPolicy(const JobSpec& spec, const Capabilities& capabilities,
                            const JobLimits& limits);

}  // namespace tandem

#endif  // TANDEM_COMMON_MODEL_JOB_SPEC_CHECK_H_
