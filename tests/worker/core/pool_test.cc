#include "worker/core/pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/rng.h"

namespace tandem::worker {
namespace {

using ::testing::SizeIs;

// Leaves [first, first + count) of the grant with this number.
LeaseRun RunOf(uint64_t grant, uint64_t first, uint64_t count) {
  LeaseRun run;
  run.base = {Epoch(1), grant};
  run.leaves = {first, count};
  return run;
}

TEST(PoolTest, LeavesAreTakenFromBothEndsUntilTheyMeet) {
  Pool pool;
  pool.PushBack(RunOf(1, 0, 10));
  pool.PushBack(RunOf(2, 20, 4));
  EXPECT_EQ(pool.TakeFront(3).leaves, (LeafInterval{0, 3}));
  EXPECT_EQ(pool.back().leaves, (LeafInterval{20, 4}));
  EXPECT_EQ(pool.TakeBack(1).leaves, (LeafInterval{23, 1}));
  EXPECT_EQ(pool.TakeBack(3).leaves, (LeafInterval{20, 3}));
  EXPECT_EQ(pool.TakeBack(2).leaves, (LeafInterval{8, 2}));
  EXPECT_EQ(pool.TakeFront(5).leaves, (LeafInterval{3, 5}));
  EXPECT_TRUE(pool.empty());
  EXPECT_EQ(pool.leaves(), 0u);
  pool.CheckInvariants();
}

TEST(PoolTest, WhatIsTakenFromTheBackIsOfItsGrant) {
  Pool pool;
  pool.PushBack(RunOf(1, 0, 10));
  pool.PushBack(RunOf(7, 10, 10));
  const LeaseRun taken = pool.TakeBack(4);
  EXPECT_TRUE(taken.SameGrant(RunOf(7, 10, 10)));
  pool.TakeBack(6);
  EXPECT_TRUE(pool.TakeBack(1).SameGrant(RunOf(1, 0, 10)));
}

TEST(PoolTest, WhatComesBackToTheFrontIsJoinedToWhatItWasTakenFrom) {
  Pool pool;
  pool.PushBack(RunOf(1, 0, 10));
  pool.PushFront(pool.TakeFront(4));
  EXPECT_THAT(pool.runs(), SizeIs(1));
  EXPECT_EQ(pool.front().leaves, (LeafInterval{0, 10}));
}

TEST(PoolTest, NoLeafIsLostOrDoubledHoweverItIsTaken) {
  Rng rng(1);
  for (int world = 0; world < 200; ++world) {
    Pool pool;
    uint64_t leaves = 0;
    for (uint64_t run = 0; run < 8; ++run) {
      const uint64_t count = rng.Between(1, 20);
      pool.PushBack(RunOf(run, leaves, count));
      leaves += count;
    }
    std::vector<int> taken(leaves);
    while (!pool.empty()) {
      const bool front = rng.Chance(0.5);
      const uint64_t most = front ? pool.front().count() : pool.back().count();
      const uint64_t count = rng.Between(1, most);
      const LeaseRun run = front ? pool.TakeFront(count) : pool.TakeBack(count);
      pool.CheckInvariants();
      for (uint64_t leaf = run.first(); leaf < run.end(); ++leaf) ++taken[leaf];
    }
    EXPECT_THAT(taken, testing::Each(1)) << world;
  }
}

}  // namespace
}  // namespace tandem::worker
