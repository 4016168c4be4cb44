#include "common/base/checked_math.h"

#include <gtest/gtest.h>

#include <limits>

namespace tandem {
namespace {

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

}  // namespace
}  // namespace tandem
