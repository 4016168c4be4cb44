// What every subcommand shares: settings, the connection, how to print.
//
// A command is a function that returns a status:
//
//   CLI::App* show = AddCommand(worker, context, "show", "Show a worker.",
//                               "  tandem worker show w1\n", [=] { return Show(context, *name); });
//   AddFormat(show, context);
//
// It writes data to stdout with Table or Record (table.h), talk to stderr, and returns what went
// wrong: Fail() shows it and sets the exit code. A job's own end sets `exit_code`.
//
// Thread-safety: one thread. Ownership: lives as long as the program.
#ifndef TANDEM_CLIENT_CLI_CONTEXT_H_
#define TANDEM_CLIENT_CLI_CONTEXT_H_

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/progress.h"
#include "client/cli/settings.h"
#include "client/cli/table.h"
#include "client/lib/client.h"

namespace tandem::cli {

extern const char kVersion[];

// What a command lists, as one JSON document.
struct JsonList {
  std::string kind;
  nlohmann::ordered_json items = nlohmann::ordered_json::array();
  nlohmann::ordered_json errors = nlohmann::ordered_json::array();
};

struct Context {
  // What the flags said; "": not given. Settings hold what is in force.
  std::string address_flag, format_flag;
  // Known once Ready() was called, which AddCommand sees to.
  Settings settings;
  std::string address;
  int exit_code = 0;

  // Reads the settings. Errors: those of Settings.
  absl::Status Ready();
  Format format() const;
  bool json() const { return format() == Format::kJson || format() == Format::kJsonl; }
  Progress::Style progress_style(bool quiet) const;
  // Connects on the first call.
  absl::StatusOr<client::Client*> client();
  // One thing on stdout; within a list as JSON, one of its items.
  void Print(const Record& record);
  void PrintJson(std::string_view kind, const nlohmann::ordered_json& fields);
  void Print(const Table& table);
  // From here to EndList() everything that is printed with `-o json` becomes one document:
  // {…, "kind": KIND, "items": […]}, and "errors" where there are any. Does nothing for others.
  void BeginList(std::string_view kind);
  void EndList();
  // Shows the error and sets the exit code.
  void Fail(const absl::Status& status);
  // The directory of this program: where its companions are.
  static std::string BinaryDirectory();

 private:
  void SayAway() const;

  std::optional<JsonList> list_;
  std::unique_ptr<client::Client> client_;
};

// Adds a subcommand; `examples` (lines, each indented by two) come first in its help.
CLI::App* AddCommand(CLI::App* parent, Context* context, const std::string& name,
                     const std::string& summary, const std::string& examples,
                     std::function<absl::Status()> work);
// The same for one that must work with whatever the settings are: they are not read for it.
CLI::App* AddPlainCommand(CLI::App* parent, Context* context, const std::string& name,
                          const std::string& summary, const std::string& examples,
                          std::function<absl::Status()> work);
// Adds a subcommand that has subcommands.
CLI::App* AddGroup(CLI::App* parent, Context* context, const std::string& name,
                   const std::string& summary, const std::string& examples);
// -o table|wide|json|jsonl|name
void AddFormat(CLI::App* command, Context* context);

// Each adds its subcommands.
void AddRunCommands(CLI::App* app, Context* context);      // run, submit
void AddJobCommands(CLI::App* app, Context* context);      // job …
void AddClusterCommands(CLI::App* app, Context* context);  // worker …, master …, kernel …
void AddWorkerSubcommands(CLI::App* worker, Context* context);  // worker ls, show, drain, …
void AddDataCommands(CLI::App* app, Context* context);          // data …
void AddUpCommand(CLI::App* app, Context* context);             // up
void AddConfigCommands(CLI::App* app, Context* context);        // config …
void AddVersionCommand(CLI::App* app, Context* context);        // version
void AddCompletionCommands(CLI::App* app, Context* context);    // completion
void AddDoctorCommand(CLI::App* app, Context* context);         // doctor

}  // namespace tandem::cli

#endif  // TANDEM_CLIENT_CLI_CONTEXT_H_
