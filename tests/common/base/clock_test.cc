#include "common/base/clock.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

TEST(MonoTimeTest, ArithmeticSaturates) {
  const MonoTime t = MonoTime::FromNanos(1'500);
  EXPECT_EQ(t + absl::Nanoseconds(500), MonoTime::FromNanos(2'000));
  EXPECT_EQ(t - absl::Microseconds(1), MonoTime::FromNanos(500));
  EXPECT_EQ(t - MonoTime::FromNanos(500), absl::Microseconds(1));
  EXPECT_EQ(t + absl::InfiniteDuration(), MonoTime::InfiniteFuture());
  EXPECT_EQ(MonoTime::InfiniteFuture() - absl::Seconds(1), MonoTime::InfiniteFuture());
  EXPECT_EQ(MonoTime::InfiniteFuture() - t, absl::InfiniteDuration());
  EXPECT_EQ(t - MonoTime::InfiniteFuture(), -absl::InfiniteDuration());
  EXPECT_EQ(MonoTime::InfiniteFuture() - MonoTime::InfiniteFuture(), absl::ZeroDuration());
  EXPECT_LT(MonoTime::InfinitePast(), MonoTime());
}

TEST(ClockTest, FakeMovesOnlyWhenTold) {
  FakeClock clock;
  const MonoTime start = clock.Now();
  EXPECT_EQ(clock.Now(), start);
  clock.Advance(absl::Seconds(3));
  EXPECT_EQ(clock.Now() - start, absl::Seconds(3));
}

TEST(ClockTest, RealNeverGoesBack) {
  const MonoTime a = Clock::Real()->Now();
  const MonoTime b = Clock::Real()->Now();
  EXPECT_LE(a, b);
  EXPECT_GT(Clock::Real()->WallNow(), absl::FromUnixSeconds(1'600'000'000));
}

}  // namespace
}  // namespace tandem
