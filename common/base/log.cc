#include "common/base/log.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace tandem {
namespace {

int LevelFromEnvironment() {
  const char* text = std::getenv("TANDEM_LOG");
  if (text == nullptr || *text == '\0') return static_cast<int>(LogLevel::Info);
  const std::string_view names[] = {"debug", "info", "warning", "error", "off"};
  for (int i = 0; i < 5; ++i) {
    if (names[i] == text) return i;
  }
  std::fprintf(stderr, "TANDEM_LOG=%s is not debug, info, warning, error or off: using info\n",
               text);
  return static_cast<int>(LogLevel::Info);
}

void WriteStderr(LogLevel, std::string_view line) {
  const std::string text = StrCat(line, "\n");
  size_t sent = 0;
  while (sent < text.size()) {
    const ssize_t n = ::write(STDERR_FILENO, text.data() + sent, text.size() - sent);
    if (n <= 0) return;  // Nobody can be told that the log cannot be written.
    sent += static_cast<size_t>(n);
  }
}

std::atomic<LogSink> sink{&WriteStderr};

bool Plain(std::string_view value) {
  for (const char c : value) {
    if (c <= ' ' || c == '"' || c == '=' || c == '\\' || c == 0x7f) return false;
  }
  return !value.empty();
}

}  // namespace

namespace internal {

std::atomic<int> log_level{LevelFromEnvironment()};

void AppendLogPair(std::string* line, std::string_view key, std::string_view value) {
  StrAppend(line, " ", key, "=");
  if (Plain(value)) {
    line->append(value);
    return;
  }
  line->push_back('"');
  for (const char c : value) {
    const unsigned char byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      line->push_back('\\');
      line->push_back(c);
    } else if (c == '\n') {
      line->append("\\n");
    } else if (byte < 0x20 || byte == 0x7f) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\x%02x", byte);
      line->append(escaped);
    } else {
      line->push_back(c);
    }
  }
  line->push_back('"');
}

void EmitLog(LogLevel level, std::string_view event, std::string_view pairs) {
  const std::string time =
      absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", absl::Now(), absl::UTCTimeZone());
  const char letter = "DIWEO"[static_cast<int>(level)];
  sink.load()(level, StrCat(time, " ", letter, " ", event, pairs));
}

}  // namespace internal

void SetLogLevel(LogLevel level) { internal::log_level = static_cast<int>(level); }

LogLevel GetLogLevel() { return static_cast<LogLevel>(internal::log_level.load()); }

void SetLogSink(LogSink new_sink) { sink = new_sink == nullptr ? &WriteStderr : new_sink; }

}  // namespace tandem
