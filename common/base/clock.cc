#include "common/base/clock.h"

#include <ctime>

namespace tandem {
namespace {

int64_t ReadNanos(clockid_t which) {
  timespec t{};
  clock_gettime(which, &t);
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

class RealClock final : public Clock {
 public:
  MonoTime Now() const override { return MonoTime::FromNanos(ReadNanos(CLOCK_MONOTONIC)); }
  absl::Time WallNow() const override { return absl::FromUnixNanos(ReadNanos(CLOCK_REALTIME)); }
};

}  // namespace

std::string MonoTime::ToString() const {
  if (*this == InfiniteFuture()) return "never";
  if (*this == InfinitePast()) return "always";
  return absl::FormatDuration(absl::Nanoseconds(nanos_));
}

Clock* Clock::Real() {
  static RealClock* const clock = new RealClock;
  return clock;
}

}  // namespace tandem
