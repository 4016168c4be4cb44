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
    Bitmap either(size);
    Bitmap only_a(size);
    Bitmap within(size);
    const LeafRange window = RandomRange(&rng, size);
    for (uint64_t i = 0; i < size; ++i) {
      either.Set({i, i + 1}, bits_a.At(i) || bits_b.At(i));
      only_a.Set({i, i + 1}, bits_a.At(i) && !bits_b.At(i));
      within.Set({i, i + 1}, bits_a.At(i) && i >= window.begin && i < window.end);
    }
    LeafSet all = a;
    all.AddAll(b);
    ExpectSame(all, either);
    ExpectSame(LeafSet::Difference(a, b), only_a);
    ExpectSame(a.Within(window), within);
    EXPECT_EQ(a == b, bits_a.Runs() == bits_b.Runs());
    LeafSet other_way = b;
    other_way.AddAll(a);
    EXPECT_TRUE(all == other_way);
  }
}

TEST(LeafSetTest, SequentialWorkStaysOneInterval) {
  LeafSet done;
  for (uint64_t i = 0; i < 10'000; ++i) {
    EXPECT_EQ(done.Add({i, i + 1}), 1u);
    EXPECT_EQ(done.interval_count(), 1u);
  }
  EXPECT_EQ(done.ToString(), "{[0,10000)}");
  EXPECT_EQ(done.first(), (LeafRange{0, 10'000}));
}

TEST(LeafSetTest, HoldsTheLeavesOfTheLargestJob) {
  constexpr uint64_t kMost = RangeTree::kTasksMax;
  LeafSet free({0, kMost});
  EXPECT_EQ(free.count(), kMost);
  EXPECT_EQ(free.Remove({kMost - 5, kMost}), 5u);
  EXPECT_EQ(free.Remove({0, kMost / 2}), kMost / 2);
  EXPECT_EQ(free.count(), kMost / 2 - 5);
  EXPECT_EQ(free.first(), (LeafRange{kMost / 2, kMost - 5}));
  EXPECT_TRUE(free.first() == free.last());
}

}  // namespace
}  // namespace tandem
