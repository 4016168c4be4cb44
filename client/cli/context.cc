#include "client/cli/context.h"

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <system_error>
#include <utility>

#include "client/cli/exit_code.h"
#include "common/base/status_macros.h"

namespace tandem::cli {

const char kVersion[] = TANDEM_VERSION;

absl::StatusOr<client::Client*> Context::client() {
  if (client_ == nullptr) {
    ASSIGN_OR_RETURN(client_, client::Client::Connect({.address = address}));
  }
  return client_.get();
}

void Context::Fail(const absl::Status& status) {
  std::cerr << ErrorLine(status) << '\n';
  if (json()) std::cout << ErrorJson(status) << '\n';
  exit_code = ExitCodeOf(status);
}

std::string Context::BinaryDirectory() {
  std::error_code failed;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", failed);
  return failed ? "." : self.parent_path().string();
}

CLI::App* AddCommand(CLI::App* parent, Context* context, const std::string& name,
                     const std::string& summary, const std::string& examples,
                     std::function<absl::Status()> work) {
  CLI::App* command = parent->add_subcommand(name, summary);
  if (!examples.empty()) command->description(summary + "\n\nExamples:\n" + examples);
  command->fallthrough();
  command->callback([context, work = std::move(work)] {
    const absl::Status status = work();
    if (!status.ok()) context->Fail(status);
  });
  return command;
}

void AddFormat(CLI::App* command, Context* context) {
  command->add_option("-o,--output", context->format_name, "table, wide, json, jsonl or name")
      ->check(CLI::IsMember({"table", "wide", "json", "jsonl", "name"}))
      ->type_name("FORMAT");
}

}  // namespace tandem::cli
