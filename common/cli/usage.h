// What CLI11 found wrong with a command line, as one of our errors: the word at fault, a stable
// reason, the nearest name, and where to read on.
//
// A program without subcommands:
//
//   if (const auto code = ParseCommandLine(&app, argc, argv)) return *code;
//
// Thread-safety: pure functions.
#ifndef TANDEM_COMMON_CLI_USAGE_H_
#define TANDEM_COMMON_CLI_USAGE_H_

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace tandem::cli {

// UNKNOWN_COMMAND, UNKNOWN_OPTION, MISSING_ARGUMENT, UNEXPECTED_ARGUMENT or BAD_ARGUMENT, of code
// INVALID_ARGUMENT. `app` is the one whose parse() threw `error`.
absl::Status UsageError(const CLI::App& app, const CLI::ParseError& error);

// "tandem job ls"
std::string CommandPath(const CLI::App& command);
// All but those that are for scripts only.
std::vector<const CLI::App*> VisibleSubcommands(const CLI::App& command);
// What an option takes, as its help and completion call it: "FILE", "auto|cpu|gpu"; "" for a flag.
std::string TypeOf(const CLI::Option& option);

// Parses what a program was started with, and says what there is to say: its help, its version, an
// error. Returns the exit code where the program ends with that.
std::optional<int> ParseCommandLine(CLI::App* app, int argc, char** argv);

// Help with examples before usage, and one line a subcommand.
std::shared_ptr<CLI::FormatterBase> HelpFormatter();

}  // namespace tandem::cli

#endif  // TANDEM_COMMON_CLI_USAGE_H_
