#include "client/cli/exit_code.h"

#include "client/cli/table.h"
#include "common/base/error.h"

namespace tandem::cli {

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

nlohmann::ordered_json ErrorFields(const absl::Status& error) {
  const absl::Status status = WithReason(error);
  return {{"code", absl::StatusCodeToString(status.code())},
          {"reason", ReasonOf(status)},
          {"field", FieldOf(status)},
          {"message", std::string(status.message())}};
}

std::string ErrorJson(const absl::Status& status) {
  return RenderObject("error", {{"error", ErrorFields(status)}}, true);
}

}  // namespace tandem::cli
