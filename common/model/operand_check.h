// The part of ValidateAndBind that looks at one operand's locators: limits, and what is not
// honoured yet. Thread-safety: a pure function.
#ifndef TANDEM_COMMON_MODEL_OPERAND_CHECK_H_
#define TANDEM_COMMON_MODEL_OPERAND_CHECK_H_

#include "absl/status/status.h"
#include "common/model/bound_job.h"
#include "common/model/locator.h"
#include "common/model/signature.h"

namespace tandem {

// That the operand can be what the signature says, before any axis is known.
// Errors: as ValidateAndBind(), without a field path.
absl::Status CheckOperand(const OperandSig& sig, const OperandSpec& operand,
                          const Capabilities& capabilities, const JobLimits& limits);

}  // namespace tandem

#endif  // TANDEM_COMMON_MODEL_OPERAND_CHECK_H_
