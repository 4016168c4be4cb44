#include "common/base/strong_id.h"

#include <gtest/gtest.h>

#include <unordered_set>

#include "absl/container/flat_hash_set.h"

namespace tandem {
namespace {

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

}  // namespace
}  // namespace tandem
