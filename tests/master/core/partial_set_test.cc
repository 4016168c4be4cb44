#include "master/core/partial_set.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "common/base/rng.h"

namespace tandem::master {
namespace {

Partial PartialOf(uint64_t id, LeafInterval leaves = {}) {
  Partial partial;
  partial.id = id;
  if (leaves.count > 0) partial.leaves = {leaves};
  return partial;
}

TEST(PartialSetTest, ExactPartialsWaitUntilAsManyAsOneMergeTakesHavePiledUp) {
  PartialSet set(false);
  const RangeTree tree(1000, 1);
  for (uint64_t id = 1; id < 4; ++id) set.Add(PartialOf(id));
  EXPECT_TRUE(set.PlanMerge(tree, false, 4).empty());
  set.Add(PartialOf(4));
  EXPECT_EQ(set.PlanMerge(tree, false, 4), (std::vector<uint64_t>{1, 2, 3, 4}));
}

TEST(PartialSetTest, AtTheEndAnyTwoAreMerged) {
  PartialSet set(false);
  const RangeTree tree(1000, 1);
  set.Add(PartialOf(1));
  EXPECT_TRUE(set.PlanMerge(tree, true, 64).empty());
  set.Add(PartialOf(2));
  EXPECT_EQ(set.PlanMerge(tree, true, 64).size(), 2u);
  set.SetMerging(1, true);
  EXPECT_TRUE(set.PlanMerge(tree, true, 64).empty()) << "one of them is in a merge";
}

TEST(PartialSetTest, OrderedMergesTakeExactlyTheLeavesOfOneNode) {
  PartialSet set(true);
  const RangeTree tree(8, 1);
  set.Add(PartialOf(1, {1, 1}));
  set.Add(PartialOf(2, {2, 1}));
  EXPECT_TRUE(set.PlanMerge(tree, true, 64).empty()) << "leaves 1 and 2 are no siblings";
  set.Add(PartialOf(3, {3, 1}));
  EXPECT_EQ(set.PlanMerge(tree, true, 64), (std::vector<uint64_t>{2, 3}));
  set.Add(PartialOf(4, {0, 1}));
  EXPECT_EQ(set.PlanMerge(tree, true, 64), (std::vector<uint64_t>{4, 1, 2, 3}));
  EXPECT_EQ(set.NodeOf({4, 1, 2, 3}), (LeafInterval{0, 4}));
}

// Leaves come in any order; merging whatever is offered ends with the root, through nodes only.
TEST(PartialSetTest, RandomOrdersEndAtTheRootAndStayFew) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Rng rng(seed);
    const uint64_t leaves = 1 + rng.Below(300);
    const RangeTree tree(leaves, 1);
    const size_t inputs_max = 2 + rng.Below(8);
    std::vector<uint64_t> order(leaves);
    std::iota(order.begin(), order.end(), 0);
    for (size_t i = leaves; i > 1; --i) std::swap(order[i - 1], order[rng.Below(i)]);
    PartialSet set(true);
    const auto merge = [&](bool final) {
      for (;;) {
        const std::vector<uint64_t> ids = set.PlanMerge(tree, final, inputs_max);
        if (ids.empty()) return;
        ASSERT_GE(ids.size(), 2u);
        ASSERT_LE(ids.size(), inputs_max);
        const LeafInterval node = set.NodeOf(ids);
        for (uint64_t id : ids) set.Remove(id);
        set.Add(PartialOf(set.next_id(), node));
        set.CheckInvariants(tree);
      }
    };
    for (uint64_t leaf : order) {
      set.Add(PartialOf(set.next_id(), {leaf, 1}));
      merge(false);
    }
    merge(true);
    ASSERT_EQ(set.size(), 1u) << "seed " << seed;
    set.ForEach([&](const Partial& root) {
      EXPECT_EQ(root.leaves.front(), (LeafInterval{0, leaves}));
    });
  }
}

}  // namespace
}  // namespace tandem::master
