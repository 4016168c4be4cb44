// How a server tells the program that started it why it could not start: a small file, so that
// `tandem up` ends with the same sentence, reason and exit code.
//
// Thread-safety: pure functions.
#ifndef TANDEM_COMMON_CLI_ERROR_FILE_H_
#define TANDEM_COMMON_CLI_ERROR_FILE_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "common/cli/exit_code.h"

namespace tandem::cli {

// Why a server could not start, as its exit code shall say it: what is neither the caller's fault
// nor a limit makes it unavailable.
absl::Status AsStartError(const absl::Status& status);

// Says it on stderr and, where `error_file` is not empty, there. Returns the exit code.
int FailToStart(std::string_view program, const absl::Status& status,
                const std::string& error_file);

// What a server that was started with this file has written; OK where there is nothing (it ended
// in another way).
absl::Status ReadErrorFile(const std::string& path);

}  // namespace tandem::cli

#endif  // TANDEM_COMMON_CLI_ERROR_FILE_H_
