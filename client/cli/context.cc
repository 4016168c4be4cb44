#include "client/cli/context.h"

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <system_error>
#include <utility>

#include "client/cli/exit_code.h"
#include "common/base/status_macros.h"
#include "common/cli/option_types.h"

namespace tandem::cli {

const char kVersion[] = TANDEM_VERSION;

absl::Status Context::Ready() {
  ASSIGN_OR_RETURN(settings, Settings::Load(SettingPaths::OfProcess(),
                                            [](const char* name) { return std::getenv(name); }));
  if (!address_flag.empty()) {
    RETURN_IF_ERROR(settings.SetFlag("address", "--address", address_flag));
  }
  if (!format_flag.empty()) RETURN_IF_ERROR(settings.SetFlag("output", "--output", format_flag));
  address = settings.Get("address").text;
  return absl::OkStatus();
}

Format Context::format() const {
  const std::string& name = format_flag.empty() ? settings.Get("output").text : format_flag;
  return FormatFromName(name).value_or(Format::kTable);
}

Progress::Style Context::progress_style(bool quiet) const {
  const std::string& asked = settings.Get("progress").text;
  if (quiet || asked == "none") return Progress::Style::kNone;
  if (asked == "bar") return Progress::Style::kBar;
  if (asked == "lines") return Progress::Style::kLines;
  return Progress::StyleFor(stderr);
}

absl::StatusOr<client::Client*> Context::client() {
  if (client_ == nullptr) {
    ASSIGN_OR_RETURN(
        client_, client::Client::Connect({.address = address,
                                          .patience = settings.GetDuration("patience"),
                                          .watch_patience = settings.GetDuration("watch_patience"),
                                          .on_away = [this] { SayAway(); }}));
  }
  return client_.get();
}

void Context::SayAway() const {
  std::cerr << "the master at " << address << " is away; waiting up to "
            << settings.Get("watch_patience").text << " for it to come back\n";
}

void Context::Print(const Record& record) {
  if (list_.has_value()) {
    list_->items.push_back(record.fields());
  } else {
    std::cout << record.Render(format());
  }
}

void Context::PrintJson(std::string_view kind, const nlohmann::ordered_json& fields) {
  if (list_.has_value()) {
    list_->items.push_back(fields);
  } else {
    std::cout << RenderObject(kind, fields, format() == Format::kJsonl);
  }
}

void Context::Print(const Table& table) {
  if (list_.has_value()) {
    for (const auto& item : table.items()) list_->items.push_back(item);
  } else {
    std::cout << table.Render(format());
  }
}

void Context::BeginList(std::string_view kind) {
  if (format() == Format::kJson) list_.emplace().kind = std::string(kind);
}

void Context::EndList() {
  if (!list_.has_value()) return;
  nlohmann::ordered_json fields = {{"items", std::move(list_->items)}};
  if (!list_->errors.empty()) fields["errors"] = std::move(list_->errors);
  std::cout << RenderObject(list_->kind, fields);
  list_.reset();
}

void Context::Fail(const absl::Status& status) {
  std::cout.flush();
  std::cerr << ErrorLine(status) << '\n';
  if (list_.has_value()) {
    list_->errors.push_back(ErrorFields(status));
  } else if (json()) {
    std::cout << ErrorJson(status);
  }
  exit_code = ExitCodeOf(status);
}

std::string Context::BinaryDirectory() {
  std::error_code failed;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", failed);
  return failed ? "." : self.parent_path().string();
}

namespace {

CLI::App* AddSubcommand(CLI::App* parent, Context* context, const std::string& name,
                        const std::string& summary, const std::string& examples) {
  CLI::App* command = parent->add_subcommand(name, summary);
  if (!examples.empty()) command->description(summary + "\n\nExamples:\n" + examples);
  command->add_option("--address", context->address_flag, "The master's address")
      ->type_name("ADDRESS");
  return command;
}

}  // namespace

CLI::App* AddPlainCommand(CLI::App* parent, Context* context, const std::string& name,
                          const std::string& summary, const std::string& examples,
                          std::function<absl::Status()> work) {
  CLI::App* command = AddSubcommand(parent, context, name, summary, examples);
  command->callback([context, work = std::move(work)] {
    const absl::Status status = work();
    if (!status.ok()) context->Fail(status);
  });
  return command;
}

CLI::App* AddCommand(CLI::App* parent, Context* context, const std::string& name,
                     const std::string& summary, const std::string& examples,
                     std::function<absl::Status()> work) {
  return AddPlainCommand(parent, context, name, summary, examples,
                         [context, work = std::move(work)]() -> absl::Status {
                           RETURN_IF_ERROR(context->Ready());
                           return work();
                         });
}

CLI::App* AddGroup(CLI::App* parent, Context* context, const std::string& name,
                   const std::string& summary, const std::string& examples) {
  CLI::App* group = AddSubcommand(parent, context, name, summary, examples);
  group->require_subcommand(1);
  AddFormat(group, context);
  return group;
}

void AddFormat(CLI::App* command, Context* context) {
  command->add_option("-o,--output", context->format_flag, "How to print")
      ->check(OneOf({"table", "wide", "json", "jsonl", "name"}));
}

}  // namespace tandem::cli
