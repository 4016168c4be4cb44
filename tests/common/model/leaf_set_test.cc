#include "common/model/leaf_set.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "common/base/rng.h"

namespace tandem {
namespace {

// The oracle: a bit a leaf.
class Bitmap {
 public:
  explicit Bitmap(uint64_t size) : bits_(size) {}
  uint64_t Set(LeafRange range, bool value) {
    uint64_t changed = 0;
    for (uint64_t i = range.begin; i < range.end; ++i) {
      changed += bits_[i] != value;
      bits_[i] = value;
    }
    return changed;
  }
  bool At(uint64_t i) const { return i < bits_.size() && bits_[i]; }
  uint64_t Count(LeafRange range) const {
    uint64_t n = 0;
    for (uint64_t i = range.begin; i < range.end; ++i) n += At(i);
    return n;
  }
  uint64_t size() const { return bits_.size(); }
  std::vector<LeafRange> Runs() const {
    std::vector<LeafRange> runs;
    for (uint64_t i = 0; i < bits_.size(); ++i) {
      if (!bits_[i]) continue;
      if (i > 0 && bits_[i - 1]) {
        ++runs.back().end;
      } else {
        runs.push_back({i, i + 1});
      }
    }
    return runs;
  }

 private:
  std::vector<bool> bits_;
};

LeafRange RandomRange(Rng* rng, uint64_t size) {
  const uint64_t begin = rng->Below(size + 1);
  const uint64_t longest = std::min<uint64_t>(size - begin, rng->Chance(0.2) ? size : 6);
  return {begin, begin + rng->Below(longest + 1)};
}

void ExpectSame(const LeafSet& set, const Bitmap& bitmap) {
  set.CheckInvariants();
  const std::vector<LeafRange> runs = bitmap.Runs();
  EXPECT_EQ(std::vector<LeafRange>(set.begin(), set.end()), runs);
  EXPECT_EQ(set.count(), bitmap.Count({0, bitmap.size()}));
  EXPECT_EQ(set.interval_count(), runs.size());
  EXPECT_EQ(set.empty(), runs.empty());
}

TEST(LeafSetTest, AgreesWithABitmapUnderRandomChanges) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Rng rng(seed);
    const uint64_t size = 1 + rng.Below(100);
    LeafSet set;
    Bitmap bitmap(size);
    for (int step = 0; step < 300; ++step) {
      const LeafRange range = RandomRange(&rng, size);
      if (rng.Chance(0.55)) {
        ASSERT_EQ(set.Add(range), bitmap.Set(range, true));
      } else {
        ASSERT_EQ(set.Remove(range), bitmap.Set(range, false));
      }
      ExpectSame(set, bitmap);
      const LeafRange asked = RandomRange(&rng, size);
      ASSERT_EQ(set.ContainsAll(asked), bitmap.Count(asked) == asked.size());
      ASSERT_EQ(set.Intersects(asked), bitmap.Count(asked) > 0);
      ASSERT_EQ(set.Contains(asked.begin), bitmap.At(asked.begin));
      uint64_t first_in = asked.begin;
      while (first_in < size && !bitmap.At(first_in)) ++first_in;
      ASSERT_EQ(set.FirstIn(asked.begin),
                first_in < size ? std::optional<uint64_t>(first_in) : std::nullopt);
      uint64_t first_out = asked.begin;
      while (bitmap.At(first_out)) ++first_out;
      ASSERT_EQ(set.FirstNotIn(asked.begin), first_out);
      if (::testing::Test::HasFailure()) return;
    }
  }
}

TEST(LeafSetTest, SetAlgebraAgreesWithBitmaps) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Rng rng(seed);
    const uint64_t size = 60;
    LeafSet a;
    LeafSet b;
    Bitmap bits_a(size);
    Bitmap bits_b(size);
    for (int i = 0; i < 8; ++i) {
      const LeafRange x = RandomRange(&rng, size);
      const LeafRange y = RandomRange(&rng, size);
      a.Add(x);
      bits_a.Set(x, true);
      b.Add(y);
      bits_b.Set(y, true);
    }
    Bitmap both(size);
    Bitmap either(size);
    Bitmap only_a(size);
    Bitmap within(size);
    const LeafRange window = RandomRange(&rng, size);
    bool subset = true;
    for (uint64_t i = 0; i < size; ++i) {
      both.Set({i, i + 1}, bits_a.At(i) && bits_b.At(i));
      either.Set({i, i + 1}, bits_a.At(i) || bits_b.At(i));
      only_a.Set({i, i + 1}, bits_a.At(i) && !bits_b.At(i));
      within.Set({i, i + 1}, bits_a.At(i) && i >= window.begin && i < window.end);
      subset = subset && (!bits_b.At(i) || bits_a.At(i));
    }
    ExpectSame(LeafSet::Union(a, b), either);
    ExpectSame(LeafSet::Difference(a, b), only_a);
    ExpectSame(LeafSet::Intersection(a, b), both);
    ExpectSame(a.Within(window), within);
    EXPECT_EQ(a.ContainsAll(b), subset);
    EXPECT_EQ(a == b, bits_a.Runs() == bits_b.Runs());
    EXPECT_TRUE(LeafSet::Union(a, b) == LeafSet::Union(b, a));
  }
}

TEST(LeafSetTest, TakingDrainsEveryLeafOnceInValidNodes) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Rng rng(seed);
    const RangeTree tree(1 + rng.Below(200), 1);
    LeafSet free;
    for (int i = 0; i < 5; ++i) free.Add(RandomRange(&rng, tree.leaf_count()));
    const uint64_t total = free.count();
    LeafSet taken;
    while (!free.empty()) {
      const uint64_t most = 1 + rng.Below(20);
      const bool left = rng.Chance(0.5);
      const LeafRange end = left ? free.first() : free.last();
      const std::optional<Node> peeked =
          left ? free.PeekLeft(tree, most) : free.PeekRight(tree, most);
      const std::optional<Node> node =
          left ? free.TakeFromLeft(tree, most) : free.TakeFromRight(tree, most);
      ASSERT_TRUE(node.has_value());
      ASSERT_EQ(node, peeked);
      ASSERT_TRUE(tree.Valid(*node));
      const LeafRange leaves = tree.Leaves(*node);
      ASSERT_LE(leaves.size(), most);
      if (left) {
        ASSERT_EQ(leaves.begin, end.begin);
      } else {
        ASSERT_EQ(leaves.end, end.end);
      }
      ASSERT_EQ(taken.Add(leaves), leaves.size()) << "taken twice";
      free.CheckInvariants();
      ASSERT_EQ(free.count() + taken.count(), total);
    }
    EXPECT_FALSE(free.TakeFromLeft(tree, 5).has_value());
  }
}

TEST(LeafSetTest, NodesOfASetCoverItExactly) {
  Rng rng(4);
  for (int round = 0; round < 100; ++round) {
    const RangeTree tree(1 + rng.Below(100), 7);
    LeafSet set;
    for (int i = 0; i < 4; ++i) set.Add(RandomRange(&rng, tree.leaf_count()));
    LeafSet covered;
    for (const Node node : set.ToNodes(tree)) {
      ASSERT_TRUE(tree.Valid(node));
      ASSERT_EQ(covered.Add(tree.Leaves(node)), tree.LeafCount(node));
    }
    EXPECT_TRUE(covered == set);
  }
}

TEST(LeafSetTest, SequentialWorkStaysOneInterval) {
  LeafSet done;
  for (uint64_t i = 0; i < 10'000; ++i) {
    EXPECT_EQ(done.Add({i, i + 1}), 1u);
    EXPECT_EQ(done.interval_count(), 1u);
  }
  EXPECT_EQ(done.ToString(), "{[0,10000)}");
  EXPECT_EQ(done.longest(), (LeafRange{0, 10'000}));
}

TEST(LeafSetTest, HoldsTheLeavesOfTheLargestJob) {
  const RangeTree tree(RangeTree::kTasksMax, 1);
  LeafSet free(tree.leaves());
  EXPECT_EQ(free.count(), RangeTree::kTasksMax);
  const std::optional<Node> right = free.TakeFromRight(tree, 1'000'000);
  ASSERT_TRUE(right.has_value());
  EXPECT_EQ(tree.LeafCount(*right), 524'288u);
  const std::optional<Node> left = free.TakeFromLeft(tree, ~uint64_t{0});
  ASSERT_TRUE(left.has_value());
  EXPECT_EQ(tree.LeafCount(*left), uint64_t{1} << 61);
  EXPECT_EQ(free.count(), RangeTree::kTasksMax - 524'288 - (uint64_t{1} << 61));
}

TEST(LeafSetTest, PartOfALeaseHandedBackIsTakenAgain) {
  const RangeTree tree(64, 1);
  LeafSet free(tree.leaves());
  const Node lease = *free.TakeFromLeft(tree, 32);
  EXPECT_EQ(tree.Leaves(lease), (LeafRange{0, 32}));
  // The worker ran [0, 12) and hands back the rest.
  EXPECT_EQ(free.Add({12, 32}), 20u);
  EXPECT_EQ(free.interval_count(), 1u);
  EXPECT_EQ(tree.Leaves(*free.TakeFromLeft(tree, 32)), (LeafRange{12, 16}));
  EXPECT_EQ(tree.Leaves(*free.TakeFromLeft(tree, 32)), (LeafRange{16, 32}));
  EXPECT_EQ(tree.Leaves(*free.TakeFromLeft(tree, 32)), (LeafRange{32, 64}));
  EXPECT_TRUE(free.empty());
}

}  // namespace
}  // namespace tandem
