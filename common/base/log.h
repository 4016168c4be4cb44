// One-line structured log: an event name, then key=value pairs, ids first.
//
//   TLOG(Info, "lease_granted", "job", job_id, "worker", worker_id, "tasks", n);
//   → 2026-01-31T12:00:00.123456Z I lease_granted job=7 worker=2 tasks=512
//
// Values with blanks, quotes or control characters are quoted and escaped, so a line is always one
// line. The level comes from TANDEM_LOG (debug, info, warning, error, off; default info); below it
// the arguments are not evaluated. A sink that is installed takes the lines elsewhere; the default
// writes stderr, each line by one write.
//
// Thread-safety: safe from any thread; install a sink before threads start.
#ifndef TANDEM_COMMON_BASE_LOG_H_
#define TANDEM_COMMON_BASE_LOG_H_

#include <atomic>
#include <string>
#include <string_view>

#include "common/base/strings.h"

namespace tandem {

enum class LogLevel : int { Debug = 0, Info = 1, Warning = 2, Error = 3, Off = 4 };

using LogSink = void (*)(LogLevel level, std::string_view line);

void SetLogLevel(LogLevel level);
LogLevel GetLogLevel();
// nullptr installs the default again.
void SetLogSink(LogSink sink);

namespace internal {

extern std::atomic<int> log_level;

inline bool LogEnabled(LogLevel level) {
  return static_cast<int>(level) >= log_level.load(std::memory_order_relaxed);
}
void AppendLogPair(std::string* line, std::string_view key, std::string_view value);
void EmitLog(LogLevel level, std::string_view event, std::string_view pairs);

inline void AppendLogPairs(std::string*) {}
template <class V, class... Rest>
void AppendLogPairs(std::string* line, std::string_view key, const V& value, const Rest&... rest) {
  AppendLogPair(line, key, StrCat(value));
  AppendLogPairs(line, rest...);
}
template <class... KeyValues>
void Log(LogLevel level, std::string_view event, const KeyValues&... pairs) {
  static_assert(sizeof...(pairs) % 2 == 0, "TLOG takes an event and key, value pairs");
  std::string text;
  AppendLogPairs(&text, pairs...);
  EmitLog(level, event, text);
}

}  // namespace internal
}  // namespace tandem

#define TLOG(level, ...)                                               \
  do {                                                                 \
    if (::tandem::internal::LogEnabled(::tandem::LogLevel::level)) {   \
      ::tandem::internal::Log(::tandem::LogLevel::level, __VA_ARGS__); \
    }                                                                  \
  } while (false)

#endif  // TANDEM_COMMON_BASE_LOG_H_
