#include "common/base/rng.h"

#include <gtest/gtest.h>

#include <vector>

namespace tandem {
namespace {

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

}  // namespace
}  // namespace tandem
