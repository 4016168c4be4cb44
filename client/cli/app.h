// The whole command: its tree of subcommands, and one run of it.
//
// Thread-safety: one thread; RunCommand once a process.
#ifndef TANDEM_CLIENT_CLI_APP_H_
#define TANDEM_CLIENT_CLI_APP_H_

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "client/cli/context.h"

namespace tandem::cli {

// Ownership: the app uses the context as long as it lives.
std::unique_ptr<CLI::App> MakeApp(Context* context);

// Runs the words behind the program's name; returns the exit code (exit_code.h).
int RunCommand(const std::vector<std::string>& words);

}  // namespace tandem::cli

#endif  // TANDEM_CLIENT_CLI_APP_H_
