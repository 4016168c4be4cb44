// A job's progress on stderr: a bar with rate and time left on a terminal, a plain line now and
// then elsewhere. NO_COLOR and TERM=dumb make it plain.
//
// Thread-safety: one thread at a time.
#ifndef TANDEM_CLIENT_CLI_PROGRESS_H_
#define TANDEM_CLIENT_CLI_PROGRESS_H_

#include <cstdint>
#include <cstdio>
#include <string>

#include "absl/time/time.h"
#include "common/base/clock.h"

namespace tandem::cli {

// "12.3 M", "950": three significant digits with k, M, G, T.
std::string HumanCount(double value);

class Progress {
 public:
  enum class Style { kBar, kLines, kNone };
  // kBar on a terminal, else kLines.
  static Style StyleFor(std::FILE* stream);

  Progress(std::FILE* stream, Style style, std::string label, std::string unit, const Clock* clock);
  ~Progress();

  // `note`: why it waits, or "".
  void Update(uint64_t done, uint64_t total, const std::string& note);
  // Removes the bar; what follows starts on a clean line.
  void Finish();

 private:
  std::string Line(uint64_t done, uint64_t total, const std::string& note) const;

  std::FILE* const stream_;
  const Style style_;
  const std::string label_, unit_;
  const Clock* const clock_;
  const MonoTime started_;
  uint64_t first_done_ = 0;
  bool any_ = false, drawn_ = false;
  MonoTime shown_ = MonoTime::InfinitePast();
};

}  // namespace tandem::cli

#endif  // TANDEM_CLIENT_CLI_PROGRESS_H_
