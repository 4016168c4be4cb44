// What a program's exit code says, and how an error is shown.
//
// Thread-safety: pure functions.
#ifndef TANDEM_COMMON_CLI_EXIT_CODE_H_
#define TANDEM_COMMON_CLI_EXIT_CODE_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace tandem::cli {

enum ExitCode {
  kExitOk = 0,
  kExitJobFailed = 1,
  kExitUsage = 2,
  kExitNotFound = 3,
  kExitNotAllowed = 4,
  kExitUnavailable = 5,
  kExitLimit = 6,
  kExitCancelled = 7,
  kExitVersionSkew = 8,
  kExitInterrupted = 130,
};

// The error with a reason also where it came without one, from a library or another version's
// master: every error that is shown has one.
absl::Status WithReason(const absl::Status& status);
ExitCode ExitCodeOf(const absl::Status& status);

// "PROGRAM: what happened (REASON)"
std::string ErrorLine(const absl::Status& status, std::string_view program = "tandem");

}  // namespace tandem::cli

#endif  // TANDEM_COMMON_CLI_EXIT_CODE_H_
