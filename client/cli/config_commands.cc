// `tandem config …`: what is set, by whom, and setting it.
#include <filesystem>
#include <iostream>
#include <memory>
#include <system_error>

#include "client/cli/context.h"
#include "client/cli/settings_file.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace tandem::cli {
namespace {

struct ConfigFlags {
  std::string key, value;
  bool origin = false, system = false;
};

absl::Status Show(Context* context, bool origin) {
  Table table("settings", {{"KEY"},
                           {"VALUE"},
                           {"ORIGIN", origin ? Column::kAlways : Column::kWide},
                           {"WHERE", origin ? Column::kAlways : Column::kWide},
                           {"VARIABLE", Column::kWide},
                           {"WHAT", Column::kWide}});
  for (const SettingInfo& setting : KnownSettings()) {
    const Settings::Value& value = context->settings.Get(setting.key);
    const std::string from(OriginName(value.origin));
    table.Add({setting.key, value.text, from, value.where, setting.environment, setting.summary},
              {{"key", setting.key},
               {"value", value.text},
               {"origin", from},
               {"where", value.where},
               {"default", setting.fallback},
               {"variable", setting.environment},
               {"what", setting.summary}});
  }
  std::cout << table.Render(context->format());
  return absl::OkStatus();
}

absl::Status Get(Context* context, const std::string& key) {
  ASSIGN_OR_RETURN(const SettingInfo* setting, FindSetting(key));
  const Settings::Value& value = context->settings.Get(setting->key);
  if (context->json()) {
    std::cout << RenderObject("setting", {{"key", setting->key},
                                          {"value", value.text},
                                          {"origin", OriginName(value.origin)},
                                          {"where", value.where}});
  } else {
    std::cout << value.text << '\n';
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> PathOf(bool system) {
  const SettingPaths paths = SettingPaths::OfProcess();
  if (system) return paths.system;
  if (!paths.user.empty()) return paths.user;
  return Error(absl::StatusCode::kNotFound, reason::kPathUnreadable,
               "there is no settings file of yours: neither HOME nor XDG_CONFIG_HOME is set; set "
               "one of them or use --system");
}

absl::Status Path(Context* context, bool system) {
  ASSIGN_OR_RETURN(const std::string path, PathOf(system));
  std::error_code ignored;
  const bool exists = std::filesystem::exists(path, ignored);
  Record record("path", path, {{"path", path}, {"exists", exists}});
  if (context->format() == Format::kTable) {
    std::cout << path << '\n';
    return absl::OkStatus();
  }
  record.Line("path", path);
  record.Line("exists", exists ? "yes" : "no");
  std::cout << record.Render(context->format());
  return absl::OkStatus();
}

absl::Status Edit(const ConfigFlags& flags, const std::optional<std::string>& value) {
  ASSIGN_OR_RETURN(const SettingInfo* setting, FindSetting(flags.key));
  if (value.has_value()) RETURN_IF_ERROR(CheckSetting(*setting, setting->key, *value));
  ASSIGN_OR_RETURN(const std::string path, PathOf(flags.system));
  RETURN_IF_ERROR(EditSettingsFile(path, setting->key, value));
  std::cerr << path << (value.has_value() ? " sets " : " no longer sets ") << setting->key << '\n';
  return absl::OkStatus();
}

void AddEdits(CLI::App* config, Context* context, const std::shared_ptr<ConfigFlags>& flags) {
  CLI::App* set = AddPlainCommand(
      config, context, "set", "Write a setting into your settings file.",
      "  tandem config set address 10.0.0.1:7460\n  tandem config set output wide\n",
      [flags] { return Edit(*flags, flags->value); });
  CLI::App* unset = AddPlainCommand(
      config, context, "unset", "Take a setting out of your settings file.",
      "  tandem config unset address\n", [flags] { return Edit(*flags, std::nullopt); });
  for (CLI::App* command : {set, unset}) {
    command->add_option("key", flags->key, "Its name")->required()->type_name("SETTING");
    command->add_flag("--system", flags->system, "In the system's file, for all users");
  }
  set->add_option("value", flags->value, "What it shall be")->required()->type_name("VALUE");
}

}  // namespace

void AddConfigCommands(CLI::App* app, Context* context) {
  const auto flags = std::make_shared<ConfigFlags>();
  CLI::App* config =
      AddGroup(app, context, "config",
               "Settings: a flag goes before the environment, your file, the system's file.",
               "  tandem config show --origin\n  tandem config set address 10.0.0.1:7460\n");
  CLI::App* show = AddCommand(config, context, "show", "List all settings as they are in force.",
                              "  tandem config show\n  tandem config show --origin\n",
                              [context, flags] { return Show(context, flags->origin); });
  show->add_flag("--origin", flags->origin, "Say where each comes from");
  AddFormat(show, context);
  CLI::App* get =
      AddCommand(config, context, "get", "Print one setting.", "  tandem config get address\n",
                 [context, flags] { return Get(context, flags->key); });
  get->add_option("key", flags->key, "Its name")->required()->type_name("SETTING");
  AddFormat(get, context);
  AddEdits(config, context, flags);
  CLI::App* path = AddPlainCommand(config, context, "path", "Print where your settings file is.",
                                   "  tandem config path\n  tandem config path --system\n",
                                   [context, flags] { return Path(context, flags->system); });
  path->add_flag("--system", flags->system, "The system's file");
  AddFormat(path, context);
}

}  // namespace tandem::cli
