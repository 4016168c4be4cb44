// Settings: what a user would otherwise type with every command.
//
// Each has a value from the first of: flag, environment, the user's file, the system's file, its
// default; the value remembers from where.
//
//   ASSIGN_OR_RETURN(Settings settings, Settings::Load(SettingPaths::OfProcess(), std::getenv));
//   RETURN_IF_ERROR(settings.SetFlag("address", "--address", "10.0.0.1:7460"));
//   settings.Get("address").text == "10.0.0.1:7460";
//
// A file is TOML with a string a setting: `address = "10.0.0.1:7460"` (settings_file.h).
// Thread-safety: a value type.
#ifndef TANDEM_CLIENT_CLI_SETTINGS_H_
#define TANDEM_CLIENT_CLI_SETTINGS_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace tandem::cli {

enum class Origin { kDefault, kSystemFile, kUserFile, kEnvironment, kFlag };
// "default", "system file", …
std::string_view OriginName(Origin origin);

struct SettingInfo {
  std::string key;
  std::string environment;  // its variable
  std::string fallback;
  std::string summary;
  absl::Status (*check)(const std::string& text);
};
const std::vector<SettingInfo>& KnownSettings();
// Errors: NOT_FOUND UNKNOWN_SETTING with the nearest name.
absl::StatusOr<const SettingInfo*> FindSetting(std::string_view key);
// That the value fits the setting. Errors: INVALID_ARGUMENT, with `where` as context.
absl::Status CheckSetting(const SettingInfo& setting, const std::string& where,
                          const std::string& text);

struct SettingPaths {
  std::string system;
  std::string user;         // "": this user has no home
  bool user_named = false;  // by the environment, not a default: it must be in reach
  // /etc/tandem/config.toml and $XDG_CONFIG_HOME/tandem/config.toml (~/.config).
  static SettingPaths OfProcess();
};

class Settings {
 public:
  struct Value {
    std::string text;
    Origin origin = Origin::kDefault;
    std::string where;  // the file's path, the variable, the flag
  };
  using Environment = absl::FunctionRef<const char*(const char*)>;

  // All but flags. A default path that this user may not search holds no file. Errors:
  // UNKNOWN_SETTING, BAD_SETTINGS, or those of a value that does not fit; each names its file or
  // variable.
  static absl::StatusOr<Settings> Load(const SettingPaths& paths, Environment environment);
  // The defaults alone.
  Settings();

  absl::Status SetFlag(std::string_view key, const std::string& flag, const std::string& text);
  // REQUIRES: a known key.
  const Value& Get(std::string_view key) const;
  absl::Duration GetDuration(std::string_view key) const;

 private:
  absl::Status AddFile(const std::string& path, Origin origin, bool named);

  std::map<std::string, Value, std::less<>> values_;
};

}  // namespace tandem::cli

#endif  // TANDEM_CLIENT_CLI_SETTINGS_H_
