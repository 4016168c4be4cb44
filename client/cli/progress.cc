#include "client/cli/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "common/base/strings.h"

namespace tandem::cli {
namespace {

constexpr int kBarCells = 24;
constexpr absl::Duration kBarPeriod = absl::Milliseconds(100);
constexpr absl::Duration kLinePeriod = absl::Seconds(2);

std::string Fixed(double value, int digits) {
  char text[32];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

}  // namespace

std::string HumanCount(double value) {
  static constexpr const char* kUnits[] = {"", " k", " M", " G", " T", " P", " E"};
  int unit = 0;
  while (value >= 999.5 && unit < 6) {
    value /= 1000;
    ++unit;
  }
  if (unit == 0) return Fixed(value, value == static_cast<uint64_t>(value) ? 0 : 1);
  return Fixed(value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0) + kUnits[unit];
}

Progress::Style Progress::StyleFor(std::FILE* stream) {
  const char* term = std::getenv("TERM");
  const char* no_color = std::getenv("NO_COLOR");
  const bool plain = (no_color != nullptr && *no_color != '\0') ||
                     (term != nullptr && std::strcmp(term, "dumb") == 0);
  return isatty(fileno(stream)) == 1 && !plain ? Style::kBar : Style::kLines;
}

Progress::Progress(std::FILE* stream, Style style, std::string label, std::string unit,
                   const Clock* clock)
    : stream_(stream),
      style_(style),
      label_(std::move(label)),
      unit_(std::move(unit)),
      clock_(clock),
      started_(clock->Now()) {}

Progress::~Progress() { Finish(); }

std::string Progress::Line(uint64_t done, uint64_t total, const std::string& note) const {
  const double share = total == 0 ? 1.0 : static_cast<double>(done) / static_cast<double>(total);
  std::string line = label_ + " ";
  if (style_ == Style::kBar) {
    const int full = std::clamp(static_cast<int>(share * kBarCells), 0, kBarCells);
    line += '[' + std::string(full, '=') + std::string(kBarCells - full, ' ') + "] ";
  }
  line += StrCat(Fixed(share * 100, 1), "%  ", HumanCount(static_cast<double>(done)), " of ",
                 HumanCount(static_cast<double>(total)), " ", unit_);
  const double seconds = absl::ToDoubleSeconds(clock_->Now() - started_);
  if (done > first_done_ && seconds > 0.2) {
    const double rate = static_cast<double>(done - first_done_) / seconds;
    line += StrCat("  ", HumanCount(rate), "/s");
    if (done < total) {
      const double left = static_cast<double>(total - done) / rate;
      line +=
          left > 86400.0 * 365
              ? "  ETA over a year"
              : StrCat("  ETA ", HumanDuration(absl::Ceil(absl::Seconds(left), absl::Seconds(1))));
    }
  }
  if (!note.empty()) line += "  " + note;
  return line;
}

void Progress::Update(uint64_t done, uint64_t total, const std::string& note) {
  if (style_ == Style::kNone) return;
  if (!any_) {
    any_ = true;
    first_done_ = done;
  }
  const MonoTime now = clock_->Now();
  if (now - shown_ < (style_ == Style::kBar ? kBarPeriod : kLinePeriod)) return;
  // Lines are for jobs that take a while: the first comes after one period.
  if (style_ == Style::kLines && now - started_ < kLinePeriod) return;
  shown_ = now;
  const std::string line = Line(done, total, note);
  if (style_ == Style::kBar) {
    std::fprintf(stream_, "\r\x1b[K%s", line.c_str());
    drawn_ = true;
  } else {
    std::fprintf(stream_, "%s\n", line.c_str());
  }
  std::fflush(stream_);
}

void Progress::Finish() {
  if (!drawn_) return;
  std::fputs("\r\x1b[K", stream_);
  std::fflush(stream_);
  drawn_ = false;
}

}  // namespace tandem::cli
