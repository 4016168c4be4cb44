#include "client/cli/settings_file.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <toml.hpp>

#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace tandem::cli {
namespace {

namespace fs = std::filesystem;

absl::Status Bad(const std::string& path, uint64_t line, std::string_view what) {
  return InvalidError(reason::kBadSettings,
                      StrCat(path, " line ", line, ": ", what,
                             "; a setting is a line such as address = \"10.0.0.1:7460\""));
}

// "" where there is no file.
absl::StatusOr<std::string> ReadText(const std::string& path) {
  std::error_code failed;
  const fs::file_status status = fs::status(path, failed);
  if (status.type() == fs::file_type::not_found) return std::string();
  std::ifstream file(path);
  std::stringstream text;
  if (status.type() == fs::file_type::regular) text << file.rdbuf();
  // An empty file sets failbit on `text`, which is no error.
  if (status.type() != fs::file_type::regular || !file.is_open() || file.bad()) {
    return InvalidError(reason::kPathUnreadable,
                        StrCat("cannot read the settings file ", Quoted(path), ": ",
                               std::strerror(errno == 0 ? EINVAL : errno),
                               "; make it a readable file or remove it"));
  }
  return text.str();
}

std::string TomlString(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

// Does the line set the key?
bool Sets(std::string_view line, std::string_view key) {
  line = Trim(line);
  const bool quoted = !line.empty() && (line[0] == '"' || line[0] == '\'');
  if (quoted) line.remove_prefix(1);
  if (!line.starts_with(key)) return false;
  line.remove_prefix(key.size());
  if (quoted && !line.empty()) line.remove_prefix(1);
  return Trim(line).starts_with('=');
}

absl::Status Unwritable(const std::string& path, const std::string& why) {
  return Error(absl::StatusCode::kPermissionDenied, reason::kPathUnwritable,
               StrCat("cannot write the settings file ", Quoted(path), ": ", why));
}

}  // namespace

absl::StatusOr<std::vector<FileSetting>> ParseSettings(const std::string& path,
                                                       const std::string& toml) {
  std::vector<FileSetting> found;
  try {
    std::istringstream stream(toml);
    const toml::value root = toml::parse(stream, path);
    for (const auto& [key, value] : root.as_table()) {
      const uint64_t line = value.location().line();
      if (!value.is_string()) return Bad(path, line, StrCat(key, " is no text in quotes"));
      found.push_back({key, value.as_string().str, static_cast<uint32_t>(line)});
    }
  } catch (const toml::exception& error) {
    // The library's own message is a picture of several lines.
    return Bad(path, error.location().line(), "this is no TOML");
  } catch (const std::exception& error) {
    return Bad(path, 1, error.what());
  }
  std::sort(found.begin(), found.end(),
            [](const FileSetting& a, const FileSetting& b) { return a.line < b.line; });
  return found;
}

std::string EditSettings(std::string_view toml, std::string_view key,
                         const std::optional<std::string>& value) {
  std::string out;
  bool done = !value.has_value();
  const auto add = [&] {
    if (!done) StrAppend(&out, key, " = ", TomlString(*value), "\n");
    done = true;
  };
  while (!toml.empty()) {
    const size_t end = std::min(toml.find('\n'), toml.size() - 1);
    const std::string_view line = toml.substr(0, end + 1);
    toml.remove_prefix(end + 1);
    if (Sets(line, key)) {
      add();
      continue;
    }
    out += line;
    if (line.back() != '\n') out += '\n';
  }
  add();
  return out;
}

bool IsOutOfReach(const std::string& path) {
  std::error_code failed;
  (void)fs::status(path, failed);
  return failed == std::errc::permission_denied;
}

absl::StatusOr<std::vector<FileSetting>> ReadSettingsFile(const std::string& path) {
  if (path.empty()) return std::vector<FileSetting>();
  ASSIGN_OR_RETURN(const std::string text, ReadText(path));
  return ParseSettings(path, text);
}

absl::Status EditSettingsFile(const std::string& path, std::string_view key,
                              const std::optional<std::string>& value) {
  ASSIGN_OR_RETURN(const std::string before, ReadText(path));
  RETURN_IF_ERROR(ParseSettings(path, before).status());
  const std::string after = EditSettings(before, key, value);
  RETURN_IF_ERROR(ParseSettings(path, after).status());
  std::error_code failed;
  fs::create_directories(fs::path(path).parent_path(), failed);
  if (failed) return Unwritable(path, failed.message());
  const std::string part = path + ".part";
  std::ofstream file(part, std::ios::trunc);
  file << after;
  file.close();
  if (!file.good()) {
    const std::string why = std::strerror(errno);
    std::remove(part.c_str());
    return Unwritable(path, why);
  }
  fs::rename(part, path, failed);
  return failed ? Unwritable(path, failed.message()) : absl::OkStatus();
}

}  // namespace tandem::cli
