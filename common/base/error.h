// Errors with a stable reason token and the path of the field at fault, as absl::Status.
//
//   return WithField(InvalidError(reason::kShapeMismatch, "operand spot has 5 …"),
//                    "operands.spot.shape");
//   ReasonOf(status) == "SHAPE_MISMATCH"
//
// Token and field ride as payloads, so they survive StatusOr, and common/rpc turns them into
// ErrorInfo and BadRequest. A message says what happened, why, and what to do.
// Thread-safety: pure functions.
#ifndef TANDEM_COMMON_BASE_ERROR_H_
#define TANDEM_COMMON_BASE_ERROR_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "common/base/reason.h"

namespace tandem {

// Payload keys, for whoever carries a status over a wire.
inline constexpr char kReasonPayload[] = "tandem/reason";
inline constexpr char kFieldPayload[] = "tandem/field";

// REQUIRES: code is not kOk.
absl::Status Error(absl::StatusCode code, std::string_view reason, std::string_view message);
// The usual code for a bad request.
absl::Status InvalidError(std::string_view reason, std::string_view message);

// The token, or "" when the status is OK or carries none.
std::string ReasonOf(const absl::Status& status);
// The path of the field at fault ("operands.spot.shape"), or "".
std::string FieldOf(const absl::Status& status);

// The same error with a field path; a path that is there already becomes `field.path`. OK stays OK.
absl::Status WithField(absl::Status status, std::string_view field);
// The same error (code and payloads) with "context: " before its message. OK stays OK.
absl::Status WithContext(const absl::Status& status, std::string_view context);

}  // namespace tandem

#endif  // TANDEM_COMMON_BASE_ERROR_H_
