// MonoTime, a point on a monotonic clock, and Clock, the seam through which time is read.
//
// A core never reads a clock: its shell reads one and passes `now` in. Tests and the simulator use
// FakeClock.
//
//   MonoTime deadline = clock.Now() + absl::Seconds(30);
//   if (now >= deadline) …;  absl::Duration left = deadline - now;
//
// Thread-safety: MonoTime is a value; Clock::Now() may be called from any thread.
#ifndef TANDEM_COMMON_BASE_CLOCK_H_
#define TANDEM_COMMON_BASE_CLOCK_H_

#include <atomic>
#include <compare>
#include <cstdint>
#include <limits>
#include <ostream>
#include <string>
#include <utility>

#include "absl/time/time.h"

namespace tandem {

// Nanoseconds since an arbitrary start (of one host, until it boots again). Arithmetic saturates.
class MonoTime {
 public:
  constexpr MonoTime() = default;
  static constexpr MonoTime FromNanos(int64_t nanos) { return MonoTime(nanos); }
  // Later than every time that a clock returns: "never".
  static constexpr MonoTime InfiniteFuture() {
    return MonoTime(std::numeric_limits<int64_t>::max());
  }
  static constexpr MonoTime InfinitePast() { return MonoTime(std::numeric_limits<int64_t>::min()); }

  constexpr int64_t nanos() const { return nanos_; }

  MonoTime& operator+=(absl::Duration d) { return *this = PlusNanos(absl::ToInt64Nanoseconds(d)); }
  MonoTime& operator-=(absl::Duration d) { return *this = PlusNanos(absl::ToInt64Nanoseconds(-d)); }
  // The integer forms: for hot paths, where absl::Duration's 96 bits are felt.
  constexpr MonoTime PlusNanos(int64_t nanos) const {
    if (*this == InfiniteFuture() || *this == InfinitePast()) return *this;
    int64_t sum = 0;
    if (__builtin_add_overflow(nanos_, nanos, &sum)) {
      return nanos > 0 ? InfiniteFuture() : InfinitePast();
    }
    return MonoTime(sum);
  }
  constexpr int64_t NanosSince(MonoTime earlier) const {
    int64_t difference = 0;
    if (__builtin_sub_overflow(nanos_, earlier.nanos_, &difference)) {
      return nanos_ > earlier.nanos_ ? std::numeric_limits<int64_t>::max()
                                     : std::numeric_limits<int64_t>::min();
    }
    return difference;
  }

  friend MonoTime operator+(MonoTime t, absl::Duration d) { return t += d; }
  friend MonoTime operator+(absl::Duration d, MonoTime t) { return t += d; }
  friend MonoTime operator-(MonoTime t, absl::Duration d) { return t -= d; }
  // Infinite when either side is.
  friend absl::Duration operator-(MonoTime a, MonoTime b) {
    if (a != b) {
      if (a == InfiniteFuture() || b == InfinitePast()) return absl::InfiniteDuration();
      if (a == InfinitePast() || b == InfiniteFuture()) return -absl::InfiniteDuration();
    }
    return absl::Nanoseconds(a.nanos_) - absl::Nanoseconds(b.nanos_);
  }
  friend constexpr auto operator<=>(const MonoTime&, const MonoTime&) = default;
  template <class H>
  friend H AbslHashValue(H h, const MonoTime& t) {
    return H::combine(std::move(h), t.nanos_);
  }
  friend std::ostream& operator<<(std::ostream& out, MonoTime t) { return out << t.ToString(); }
  // "12.5s", or "never" for InfiniteFuture().
  std::string ToString() const;

 private:
  constexpr explicit MonoTime(int64_t nanos) : nanos_(nanos) {}
  int64_t nanos_ = 0;
};

class Clock {
 public:
  virtual ~Clock() = default;
  virtual MonoTime Now() const = 0;
  // Wall time: for people and for history, never for a deadline.
  virtual absl::Time WallNow() const = 0;
  // The process's own clocks (CLOCK_MONOTONIC, CLOCK_REALTIME). Never destroyed.
  static Clock* Real();
};

// A clock that moves only when it is told to. Starts at 1 s, so that "a second ago" is a time.
class FakeClock final : public Clock {
 public:
  explicit FakeClock(MonoTime start = MonoTime::FromNanos(1'000'000'000)) : nanos_(start.nanos()) {}
  MonoTime Now() const override { return MonoTime::FromNanos(nanos_.load()); }
  absl::Time WallNow() const override {
    return absl::UnixEpoch() + absl::Nanoseconds(nanos_.load());
  }
  void Advance(absl::Duration d) { nanos_ += absl::ToInt64Nanoseconds(d); }
  void Set(MonoTime t) { nanos_ = t.nanos(); }

 private:
  std::atomic<int64_t> nanos_;
};

}  // namespace tandem

#endif  // TANDEM_COMMON_BASE_CLOCK_H_
