// Clock, StrongId, Rng, checked arithmetic, CHECK and the log: the small headers of common/base.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <unordered_set>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "common/base/check.h"
#include "common/base/checked_math.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/rng.h"
#include "common/base/strong_id.h"

namespace tandem {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

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

TEST(StrongIdTest, OrdersAndHashes) {
  using Id = StrongId<struct TestTag>;
  EXPECT_LT(Id(3), Id(4));
  EXPECT_EQ(Id(3).next(), Id(4));
  EXPECT_FALSE(Id().valid());
  absl::flat_hash_set<Id> set{Id(1), Id(2), Id(1)};
  EXPECT_EQ(set.size(), 2u);
  std::unordered_set<Id> other{Id(1), Id(2), Id(1)};
  EXPECT_EQ(other.size(), 2u);
}

TEST(RngTest, SplitMixMatchesThePublishedSequence) {
  // splitmix64.c seeded with 1234567.
  const uint64_t expected[] = {6457827717110365317u, 3203168211198807973u, 9817491932198370423u,
                               4593380528125082431u, 16408922859458223821u};
  for (uint64_t i = 0; i < 5; ++i) EXPECT_EQ(SplitMix64At(1234567, i), expected[i]);
}

TEST(RngTest, SameSeedSameSequence) {
  Rng a(5);
  Rng b(5);
  Rng c(6);
  bool differs = false;
  for (int i = 0; i < 100; ++i) {
    const uint64_t x = a.Next();
    EXPECT_EQ(x, b.Next());
    differs |= x != c.Next();
  }
  EXPECT_TRUE(differs);
}

TEST(RngTest, BelowIsUniformAndBounded) {
  Rng rng(7);
  std::vector<int> count(10);
  for (int i = 0; i < 100'000; ++i) ++count[rng.Below(10)];
  for (const int n : count) EXPECT_NEAR(n, 10'000, 500);  // 5 sigma.
  EXPECT_EQ(rng.Below(1), 0u);
  EXPECT_EQ(rng.Between(9, 9), 9u);
  for (int i = 0; i < 1000; ++i) {
    const double u = rng.NextDouble();
    EXPECT_TRUE(u >= 0 && u < 1);
  }
}

TEST(CheckedMathTest, SaysWhenItOverflows) {
  int64_t r = 0;
  EXPECT_TRUE(CheckedPow<int64_t>(4, 31, &r));
  EXPECT_EQ(r, int64_t{1} << 62);
  EXPECT_FALSE(CheckedPow<int64_t>(4, 32, &r));
  EXPECT_FALSE(CheckedPow<int64_t>(4, -1, &r));
  EXPECT_TRUE(CheckedPow<int64_t>(0, 0, &r));
  EXPECT_EQ(r, 1);
  EXPECT_TRUE(CheckedPow<int64_t>(-2, 63, &r));
  EXPECT_EQ(r, std::numeric_limits<int64_t>::min());
  EXPECT_TRUE(CheckedPow<int64_t>(1, std::numeric_limits<int64_t>::max(), &r));
  EXPECT_FALSE(CheckedMul<int64_t>(int64_t{1} << 40, int64_t{1} << 40, &r));
  EXPECT_EQ(CeilDiv<uint64_t>(~uint64_t{0}, 2), uint64_t{1} << 63);
  EXPECT_EQ(SaturatingAdd<uint64_t>(~uint64_t{0}, 2), ~uint64_t{0});
}

TEST(CheckDeathTest, NamesTheExpression) {
  EXPECT_DEATH(CHECK(1 + 1 == 3), "CHECK failed: 1 \\+ 1 == 3");
  EXPECT_DEATH(CHECK_MSG(false, "why"), "why");
  EXPECT_DEATH(CHECK_OK(absl::InternalError("broken")), "broken");
}

std::vector<std::string>* lines = nullptr;

class LogTest : public ::testing::Test {
 protected:
  void SetUp() override {
    lines = &lines_;
    SetLogSink([](LogLevel, std::string_view line) { lines->emplace_back(line); });
    SetLogLevel(LogLevel::Info);
  }
  void TearDown() override {
    SetLogSink(nullptr);
    SetLogLevel(LogLevel::Info);
  }
  std::vector<std::string> lines_;
};

TEST_F(LogTest, WritesOneLineWithItsPairs) {
  TLOG(Info, "lease_granted", "job", StrongId<struct TestTag>(7), "why", "two words\nand \"more\"",
       "empty", "");
  ASSERT_EQ(lines_.size(), 1u);
  EXPECT_THAT(lines_[0],
              EndsWith(" I lease_granted job=7 why=\"two words\\nand \\\"more\\\"\" empty=\"\""));
}

TEST_F(LogTest, DoesNotEvaluateBelowItsLevel) {
  int evaluated = 0;
  TLOG(Debug, "event", "n", ++evaluated);
  EXPECT_EQ(evaluated, 0);
  TLOG(Error, "event", "n", ++evaluated);
  EXPECT_EQ(evaluated, 1);
  EXPECT_THAT(lines_.at(0), HasSubstr(" E event n=1"));
}

}  // namespace
}  // namespace tandem
