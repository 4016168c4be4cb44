// What the command's exit code says of a job, and an error as JSON. The exit code and the line of
// an error: common/cli/exit_code.h.
//
// Thread-safety: pure functions.
#ifndef TANDEM_CLIENT_CLI_EXIT_CODE_H_
#define TANDEM_CLIENT_CLI_EXIT_CODE_H_

#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/status.h"
#include "client/lib/client.h"
#include "common/cli/exit_code.h"

namespace tandem::cli {

// Of a job that has ended.
ExitCode ExitCodeOf(client::JobState state);

// {"code":…,"reason":…,"field":…,"message":…}
nlohmann::ordered_json ErrorFields(const absl::Status& status);
// {"api_version":…,"kind":"error","error":{"code":…,"reason":…,"field":…,"message":…}}, one line.
std::string ErrorJson(const absl::Status& status);

}  // namespace tandem::cli

#endif  // TANDEM_CLIENT_CLI_EXIT_CODE_H_
