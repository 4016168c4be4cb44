// Checks for CLI11 options, whose refusals say what would do.
//
//   command->add_option("--grain", flags->grain, "Tasks a leaf")->check(Count(1));
//   command->add_option("--device", flags->device, "Where to run")->check(OneOf({"auto", "cpu"}));
//
// A refusal becomes an error of reason BAD_ARGUMENT that names the option (usage.h). Durations and
// sizes are not checked here but read by common/base/strings.h, whose errors have reasons of their
// own.
//
// Thread-safety: pure functions.
#ifndef TANDEM_COMMON_CLI_OPTION_TYPES_H_
#define TANDEM_COMMON_CLI_OPTION_TYPES_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace tandem::cli {

// A whole number within [least, most]; plain digits only (CLI11 itself would take -1 for 2^64 - 1).
CLI::Validator Count(uint64_t least, uint64_t most = ~uint64_t{0});
// A whole number within [least, most], with a sign where it has one.
CLI::Validator Integer(int64_t least, int64_t most);
// One of the words; also shown as the option's type and offered by completion.
CLI::Validator OneOf(std::vector<std::string> words);
// The same for a text that is no option's.
absl::Status CheckOneOf(std::string_view what, std::string_view text,
                        const std::vector<std::string>& words);

// "; did you mean NEAR?" or "".
std::string DidYouMean(std::string_view typed, const std::vector<std::string>& names);

}  // namespace tandem::cli

#endif  // TANDEM_COMMON_CLI_OPTION_TYPES_H_
