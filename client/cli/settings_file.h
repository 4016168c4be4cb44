// A settings file: TOML, one string a setting, at the top level.
//
// Reading uses toml11. Writing changes the one line that matters, so that comments and order stay.
//
// Thread-safety: pure functions but for the file.
#ifndef TANDEM_CLIENT_CLI_SETTINGS_FILE_H_
#define TANDEM_CLIENT_CLI_SETTINGS_FILE_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tandem::cli {

struct FileSetting {
  std::string key;
  std::string text;
  uint32_t line = 0;
};

// In order of lines. `path` is for messages. Errors: INVALID_ARGUMENT BAD_SETTINGS with the line.
absl::StatusOr<std::vector<FileSetting>> ParseSettings(const std::string& path,
                                                       const std::string& toml);
// The text with `key` set to `value` or, without one, left out. REQUIRES: a text that parses.
std::string EditSettings(std::string_view toml, std::string_view key,
                         const std::optional<std::string>& value);

// Is it in a directory that this user may not search, as another user's home?
bool IsOutOfReach(const std::string& path);
// Nothing where there is no file. Errors: as ParseSettings; PATH_UNREADABLE.
absl::StatusOr<std::vector<FileSetting>> ReadSettingsFile(const std::string& path);
// Edits the file, which appears whole or stays as it was; makes it and its folder.
// Errors: as ReadSettingsFile; PATH_UNWRITABLE.
absl::Status EditSettingsFile(const std::string& path, std::string_view key,
                              const std::optional<std::string>& value);

}  // namespace tandem::cli

#endif  // TANDEM_CLIENT_CLI_SETTINGS_FILE_H_
