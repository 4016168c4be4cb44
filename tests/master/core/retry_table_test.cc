#include "master/core/retry_table.h"

#include <gtest/gtest.h>

#include <map>

#include "common/base/rng.h"

namespace tandem::master {
namespace {

Retry Attempt(uint32_t attempt) {
  Retry retry;
  retry.attempt = attempt;
  return retry;
}

TEST(RetryTableTest, LeavesThatAreNotInItHaveNoRetry) {
  RetryTable table;
  table.Set({10, 20}, Attempt(2));
  const RetryTable::Found before = table.Find(3, {0, 100});
  EXPECT_EQ(before.retry, nullptr);
  EXPECT_EQ(before.leaves, (LeafRange{3, 10}));
  const RetryTable::Found in = table.Find(12, {0, 15});
  ASSERT_NE(in.retry, nullptr);
  EXPECT_EQ(in.retry->attempt, 2u);
  EXPECT_EQ(in.leaves, (LeafRange{12, 15}));
}

TEST(RetryTableTest, ASingleLeafKeepsTheStrikesOfItsOtherTasks) {
  RetryTable table;
  Retry first = Attempt(2);
  first.tasks[7] = 1;
  table.Set({1, 2}, first);
  Retry second = Attempt(3);
  second.tasks[9] = 1;
  table.Set({1, 2}, second);
  const Retry& kept = *table.Find(1, {1, 2}).retry;
  EXPECT_EQ(kept.attempt, 3u);
  EXPECT_EQ(kept.tasks.size(), 2u);
  EXPECT_EQ(kept.tasks.at(7), 1u);
}

TEST(RetryTableTest, AgreesWithAMapOfLeavesForRandomChanges) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Rng rng(seed);
    RetryTable table;
    std::map<uint64_t, uint32_t> oracle;
    for (int step = 0; step < 50; ++step) {
      const uint64_t begin = rng.Below(40);
      const uint64_t end = begin + 1 + rng.Below(20);
      const auto attempt = static_cast<uint32_t>(2 + rng.Below(4));
      if (rng.Chance(0.6)) {
        table.Set({begin, end}, Attempt(attempt));
        for (uint64_t leaf = begin; leaf < end; ++leaf) oracle[leaf] = attempt;
      } else {
        table.Erase({begin, end});
        for (uint64_t leaf = begin; leaf < end; ++leaf) oracle.erase(leaf);
      }
      table.CheckInvariants();
      uint64_t next = 0;
      table.ForEachIn({0, 64}, [&](LeafRange leaves, const Retry* retry) {
        ASSERT_EQ(leaves.begin, next) << "the parts adjoin";
        next = leaves.end;
        for (uint64_t leaf = leaves.begin; leaf < leaves.end; ++leaf) {
          const auto it = oracle.find(leaf);
          ASSERT_EQ(retry == nullptr, it == oracle.end());
          if (retry == nullptr) continue;
          ASSERT_EQ(retry->attempt, it->second);
        }
      });
      ASSERT_EQ(next, 64u);
    }
  }
}

}  // namespace
}  // namespace tandem::master
