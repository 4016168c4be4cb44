#include "common/cli/error_file.h"

#include <fstream>
#include <iostream>
#include <iterator>

#include "common/base/error.h"
#include "common/base/strings.h"

namespace tandem::cli {

absl::Status AsStartError(const absl::Status& error) {
  const absl::Status status = WithReason(error);
  switch (ExitCodeOf(status)) {
    case kExitJobFailed:
    case kExitNotFound:
    case kExitCancelled:
      return Error(absl::StatusCode::kUnavailable, ReasonOf(status), ToStd(status.message()));
    default:
      return status;
  }
}

int FailToStart(std::string_view program, const absl::Status& error,
                const std::string& error_file) {
  const absl::Status status = AsStartError(error);
  std::cerr << ErrorLine(status, program) << std::endl;
  if (!error_file.empty()) {
    std::ofstream(error_file) << static_cast<int>(status.code()) << ' ' << ReasonOf(status) << '\n'
                              << ToStd(status.message());
  }
  return ExitCodeOf(status);
}

absl::Status ReadErrorFile(const std::string& path) {
  std::ifstream file(path);
  int code = 0;
  std::string token;
  if (!(file >> code >> token) || file.get() != '\n') return absl::OkStatus();
  const std::string message(std::istreambuf_iterator<char>(file), {});
  return Error(static_cast<absl::StatusCode>(code), token, message);
}

}  // namespace tandem::cli
