// What the command's exit code says, and how an error is shown.
//
// Thread-safety: pure functions.
#ifndef TANDEM_CLIENT_CLI_EXIT_CODE_H_
#define TANDEM_CLIENT_CLI_EXIT_CODE_H_

#include <string>

#include "absl/status/status.h"
#include "client/lib/client.h"

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
// Of a job that has ended.
ExitCode ExitCodeOf(client::JobState state);

// "tandem: what happened (REASON)"
std::string ErrorLine(const absl::Status& status);
// {"api_version":…,"kind":"error","error":{"code":…,"reason":…,"field":…,"message":…}}, one line.
std::string ErrorJson(const absl::Status& status);

}  // namespace tandem::cli

#endif  // TANDEM_CLIENT_CLI_EXIT_CODE_H_
