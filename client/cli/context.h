// What every subcommand shares: settings, the connection, how to print.
//
// Thread-safety: one thread. Ownership: lives as long as the program.
#ifndef TANDEM_CLIENT_CLI_CONTEXT_H_
#define TANDEM_CLIENT_CLI_CONTEXT_H_

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/table.h"
#include "client/lib/client.h"

namespace tandem::cli {

extern const char kVersion[];

struct Context {
  std::string address = "127.0.0.1:7460";
  std::string format_name = "table";
  int exit_code = 0;

  Format format() const { return FormatFromName(format_name).value_or(Format::kTable); }
  bool json() const { return format() == Format::kJson || format() == Format::kJsonl; }
  // Connects on the first call.
  absl::StatusOr<client::Client*> client();
  // Shows the error and sets the exit code.
  void Fail(const absl::Status& status);
  // The directory of this program: where its companions are.
  static std::string BinaryDirectory();

 private:
  std::unique_ptr<client::Client> client_;
};

// Adds a subcommand whose work is a function that returns a status. `examples` come first in its
// help.
CLI::App* AddCommand(CLI::App* parent, Context* context, const std::string& name,
                     const std::string& summary, const std::string& examples,
                     std::function<absl::Status()> work);
// -o table|wide|json|jsonl|name
void AddFormat(CLI::App* command, Context* context);

// Each adds its subcommands.
void AddRunCommands(CLI::App* app, Context* context);  // run, submit
void AddJobCommands(CLI::App* app, Context* context);  // job …
void AddClusterCommands(CLI::App* app, Context* context);  // worker …, master …, kernel …, version
void AddUpCommand(CLI::App* app, Context* context);        // up

}  // namespace tandem::cli

#endif  // TANDEM_CLIENT_CLI_CONTEXT_H_
