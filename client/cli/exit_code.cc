#include "client/cli/exit_code.h"

#include <nlohmann/json.hpp>

#include "common/base/error.h"
#include "common/base/strings.h"

namespace tandem::cli {

ExitCode ExitCodeOf(const absl::Status& status) {
  if (ReasonOf(status) == reason::kVersionSkew) return kExitVersionSkew;
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kExitOk;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kAlreadyExists:
      return kExitUsage;
    case absl::StatusCode::kNotFound:
      return kExitNotFound;
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
      return kExitNotAllowed;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
      return kExitUnavailable;
    case absl::StatusCode::kResourceExhausted:
      return kExitLimit;
    case absl::StatusCode::kCancelled:
      return kExitCancelled;
    default:
      return kExitJobFailed;
  }
}

ExitCode ExitCodeOf(client::JobState state) {
  switch (state) {
    case client::JobState::kSucceeded:
      return kExitOk;
    case client::JobState::kCancelled:
      return kExitCancelled;
    default:
      return kExitJobFailed;
  }
}

std::string ErrorLine(const absl::Status& status) {
  const std::string reason = ReasonOf(status);
  return StrCat("tandem: ", ToStd(status.message()),
                reason.empty() ? "" : StrCat(" (", reason, ")"));
}

std::string ErrorJson(const absl::Status& status) {
  nlohmann::json error = {{"code", absl::StatusCodeToString(status.code())},
                          {"reason", ReasonOf(status)},
                          {"field", FieldOf(status)},
                          {"message", std::string(status.message())}};
  return nlohmann::json{{"version", 1}, {"error", error}}.dump(
      -1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace tandem::cli
