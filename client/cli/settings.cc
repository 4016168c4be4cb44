#include "client/cli/settings.h"

#include <cstdlib>

#include "client/cli/settings_file.h"
#include "common/base/check.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/cli/option_types.h"
#include "common/model/gpu_memory.h"
#include "common/rpc/channel.h"

namespace tandem::cli {
namespace {

absl::Status CheckAddress(const std::string& text) { return rpc::ParseAddress(text).status(); }
absl::Status CheckDuration(const std::string& text) { return ParseDuration(text).status(); }
absl::Status CheckFormat(const std::string& text) {
  return CheckOneOf("", text, {"table", "wide", "json", "jsonl", "name"});
}
absl::Status CheckGpuMemory(const std::string& text) { return GpuMemory::Parse(text).status(); }
absl::Status CheckProgress(const std::string& text) {
  return CheckOneOf("", text, {"auto", "bar", "lines", "none"});
}

}  // namespace

std::string_view OriginName(Origin origin) {
  switch (origin) {
    case Origin::kDefault:
      return "default";
    case Origin::kSystemFile:
      return "system file";
    case Origin::kUserFile:
      return "user file";
    case Origin::kEnvironment:
      return "environment";
    case Origin::kFlag:
      return "flag";
  }
  return "default";
}

const std::vector<SettingInfo>& KnownSettings() {
  static const auto* const kKnown = new std::vector<SettingInfo>{
      {"address", "TANDEM_ADDRESS", "127.0.0.1:7460", "The master's address, HOST:PORT",
       CheckAddress},
      {"gpu_memory", kGpuMemoryVariable, kGpuMemoryDefault,
       "What jobs may use of each device's memory, on workers that are started here",
       CheckGpuMemory},
      {"output", "TANDEM_OUTPUT", "table", "The output format: table, wide, json, jsonl or name",
       CheckFormat},
      {"patience", "TANDEM_PATIENCE", "3s", "How long a master that does not answer is tried again",
       CheckDuration},
      {"progress", "TANDEM_PROGRESS", "auto",
       "Progress on stderr: bar, lines or none; auto: a bar on a terminal, else lines",
       CheckProgress},
      {"watch_patience", "TANDEM_WATCH_PATIENCE", "1m",
       "How long a wait for a job outlives its master", CheckDuration},
  };
  return *kKnown;
}

absl::StatusOr<const SettingInfo*> FindSetting(std::string_view key) {
  std::vector<std::string> names;
  for (const SettingInfo& setting : KnownSettings()) {
    if (setting.key == key) return &setting;
    names.push_back(setting.key);
  }
  const std::string near = DidYouMean(key, names);
  return Error(absl::StatusCode::kNotFound, reason::kUnknownSetting,
               StrCat("no setting is named ", Quoted(key), near, near.empty() ? "; " : " ",
                      "`tandem config show` lists them"));
}

absl::Status CheckSetting(const SettingInfo& setting, const std::string& where,
                          const std::string& text) {
  return WithField(WithContext(setting.check(text), where), setting.key);
}

SettingPaths SettingPaths::OfProcess() {
  SettingPaths paths{"/etc/tandem/config.toml", ""};
  const char* config = std::getenv("XDG_CONFIG_HOME");
  const char* home = std::getenv("HOME");
  if (config != nullptr && config[0] == '/') {  // a relative one is to be ignored, says XDG
    paths.user = StrCat(config, "/tandem/config.toml");
    paths.user_named = true;
  } else if (home != nullptr && *home != '\0') {
    paths.user = StrCat(home, "/.config/tandem/config.toml");
  }
  return paths;
}

Settings::Settings() {
  for (const SettingInfo& setting : KnownSettings()) {
    values_[setting.key] = {setting.fallback, Origin::kDefault, ""};
  }
}

absl::Status Settings::AddFile(const std::string& path, Origin origin, bool named) {
  if (!named && IsOutOfReach(path)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<FileSetting> found, ReadSettingsFile(path));
  for (const FileSetting& entry : found) {
    const std::string where = StrCat(path, " line ", entry.line);
    const auto setting = FindSetting(entry.key);
    if (!setting.ok()) return WithContext(setting.status(), where);
    RETURN_IF_ERROR(CheckSetting(**setting, where, entry.text));
    values_[entry.key] = {entry.text, origin, path};
  }
  return absl::OkStatus();
}

absl::StatusOr<Settings> Settings::Load(const SettingPaths& paths, Environment environment) {
  Settings settings;
  RETURN_IF_ERROR(settings.AddFile(paths.system, Origin::kSystemFile, false));
  RETURN_IF_ERROR(settings.AddFile(paths.user, Origin::kUserFile, paths.user_named));
  for (const SettingInfo& setting : KnownSettings()) {
    const char* text = environment(setting.environment.c_str());
    if (text == nullptr || *text == '\0') continue;
    RETURN_IF_ERROR(CheckSetting(setting, setting.environment, text));
    settings.values_[setting.key] = {text, Origin::kEnvironment, setting.environment};
  }
  return settings;
}

absl::Status Settings::SetFlag(std::string_view key, const std::string& flag,
                               const std::string& text) {
  ASSIGN_OR_RETURN(const SettingInfo* setting, FindSetting(key));
  RETURN_IF_ERROR(CheckSetting(*setting, flag, text));
  values_[setting->key] = {text, Origin::kFlag, flag};
  return absl::OkStatus();
}

const Settings::Value& Settings::Get(std::string_view key) const {
  const auto found = values_.find(key);
  CHECK(found != values_.end());
  return found->second;
}

absl::Duration Settings::GetDuration(std::string_view key) const {
  const auto duration = ParseDuration(Get(key).text);
  CHECK(duration.ok());  // checked when it was set
  return *duration;
}

}  // namespace tandem::cli
