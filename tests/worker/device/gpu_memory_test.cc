#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "common/base/rng.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/device/gpu/arena.h"
#include "worker/device/gpu/block_layout.h"
#include "worker/device/gpu/device_memory.h"

namespace tandem::worker {
namespace {

// Extents side by side, to show that blocks do not span them.
class ArenaTest : public ::testing::Test {
 protected:
  Arena::Get Get() {
    return [this](uint64_t bytes) -> absl::StatusOr<uint64_t> {
      if (refuse_) return absl::ResourceExhaustedError("others have it");
      const uint64_t address = next_;
      next_ += bytes;
      extents_[address] = bytes;
      return address;
    };
  }
  Arena::Give Give() {
    return [this](uint64_t address) { ASSERT_EQ(extents_.erase(address), 1u); };
  }
  bool refuse_ = false;
  uint64_t next_ = uint64_t{1} << 20;
  std::map<uint64_t, uint64_t> extents_;
};

TEST_F(ArenaTest, BlocksNeverOverlapAndStayInTheirExtents) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Rng rng(seed);
    {
      Arena arena(1 << 20, 64 << 10, Get(), Give());
      std::map<uint64_t, uint64_t> blocks;
      uint64_t used = 0;
      for (int step = 0; step < 3000; ++step) {
        if (!blocks.empty() && rng.Chance(0.45)) {
          auto it = blocks.begin();
          std::advance(it, static_cast<ptrdiff_t>(rng.Below(blocks.size())));
          used -= it->second;
          arena.Free(it->first);
          blocks.erase(it);
          continue;
        }
        const uint64_t bytes =
            Arena::RoundUp(rng.Chance(0.1) ? rng.Between(1, 200 << 10) : rng.Between(1, 9000));
        const absl::StatusOr<uint64_t> address = arena.Take(bytes);
        if (!address.ok()) continue;
        EXPECT_EQ(*address % Arena::kAlign, 0u);
        const auto next = blocks.lower_bound(*address);
        if (next != blocks.end()) {
          ASSERT_LE(*address + bytes, next->first);
        }
        if (next != blocks.begin()) {
          ASSERT_LE(std::prev(next)->first + std::prev(next)->second, *address);
        }
        const auto extent = std::prev(extents_.upper_bound(*address));
        ASSERT_LE(*address + bytes, extent->first + extent->second);
        blocks.emplace(*address, bytes);
        used += bytes;
        ASSERT_EQ(arena.used(), used);
        ASSERT_LE(arena.held(), uint64_t{1} << 20);
      }
      for (const auto& [address, bytes] : blocks) arena.Free(address);
      // Everything has grown together again: all of it can be had in one.
      EXPECT_TRUE(arena.Take(1 << 20).ok());
    }
    EXPECT_TRUE(extents_.empty());
  }
}

TEST_F(ArenaTest, WhatOthersHaveIsDoneWithout) {
  Arena arena(1 << 20, 64 << 10, Get(), Give());
  ASSERT_TRUE(arena.Take(1000).ok());
  refuse_ = true;
  EXPECT_TRUE(arena.Take(10'000).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(arena.Take(100'000).status()));
  refuse_ = false;
  EXPECT_TRUE(arena.Take(100'000).ok());
}

TEST(DeviceMemoryTest, WhatIsUsedIsNeverEvicted) {
  DeviceMemory memory(
      10 * 256, 256,
      [next = uint64_t{4096}](uint64_t bytes) mutable -> absl::StatusOr<uint64_t> {
        return (next += 1 << 20) - bytes;
      },
      [](uint64_t) {});
  std::vector<Resident*> residents;
  for (uint64_t i = 1; i <= 10; ++i) {
    EXPECT_EQ(memory.Use(i, 256), nullptr);
    absl::StatusOr<Resident*> kept = memory.Keep(i, 256, static_cast<EventId>(i));
    ASSERT_TRUE(kept.ok());
    residents.push_back(*kept);
  }
  EXPECT_FALSE(memory.Keep(11, 256, 11).ok());
  memory.Leave(residents[4]);
  memory.Leave(residents[2]);
  EXPECT_EQ(memory.Use(5, 256), residents[4]);  // in use again: 3 goes
  ASSERT_TRUE(memory.Keep(11, 256, 11).ok());
  EXPECT_EQ(memory.Use(3, 256), nullptr);
  EXPECT_EQ(memory.Use(5, 128), nullptr);  // of other bytes
  EXPECT_THAT(memory.TakeSpareEvents(), ::testing::ElementsAre(3));
  EXPECT_EQ(memory.evictions(), 1u);
}

TEST_F(ArenaTest, WhatIsSetApartIsNotGivenOutAndExtentsMakeRoomForIt) {
  Arena arena(1 << 20, 64 << 10, Get(), Give());
  const uint64_t first = *arena.Take(600 << 10);
  EXPECT_TRUE(absl::IsResourceExhausted(arena.Reserve(500 << 10)));
  EXPECT_EQ(arena.reserved(), 0u);
  arena.Free(first);
  ASSERT_TRUE(arena.Reserve(500 << 10).ok());
  EXPECT_EQ(arena.held(), 0u) << "an empty extent went back";
  EXPECT_TRUE(absl::IsResourceExhausted(arena.Take(600 << 10).status()));
  EXPECT_TRUE(arena.Take(500 << 10).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(arena.Reserve(100 << 10)));
  arena.Unreserve(500 << 10);
  EXPECT_TRUE(arena.Take(500 << 10).ok());
}

TEST(DeviceMemoryTest, WhatIsSetApartEvictsWhatNobodyUses) {
  DeviceMemory memory(
      10 * 256, 256,
      [next = uint64_t{4096}](uint64_t bytes) mutable -> absl::StatusOr<uint64_t> {
        return (next += 1 << 20) - bytes;
      },
      [](uint64_t) {});
  Resident* const used = *memory.Keep(1, 256, 1);
  memory.Leave(*memory.Keep(2, 5 * 256, 2));
  EXPECT_TRUE(absl::IsResourceExhausted(memory.Reserve(10 * 256))) << "one is in use";
  ASSERT_TRUE(memory.Reserve(9 * 256).ok());
  EXPECT_EQ(memory.Use(2, 5 * 256), nullptr);
  EXPECT_TRUE(absl::IsResourceExhausted(memory.Take(256).status()));
  memory.Unreserve(9 * 256);
  memory.Leave(used);
  EXPECT_TRUE(memory.Take(10 * 256).ok());
}

TEST(BlockLayoutTest, UpAndDownAreOneRangeEach) {
  BlockLayout layout;
  const auto out = layout.Add(BlockLayout::kOut, 300);
  const auto in = layout.Add(BlockLayout::kIn, 1);
  const auto both = layout.Add(BlockLayout::kInOut, 256);
  const auto staging = layout.Add(BlockLayout::kStaging, 10);
  const auto parts = layout.Add(BlockLayout::kParts, 100);
  layout.Close();
  EXPECT_EQ(layout.at(parts), 0u);
  EXPECT_EQ(layout.at(in), 256u);
  EXPECT_EQ(layout.at(both), 512u);
  EXPECT_EQ(layout.at(out), 768u);
  EXPECT_EQ(layout.at(staging), 1280u);
  EXPECT_EQ(layout.up_bytes(), 768u);
  EXPECT_EQ(layout.down_begin(), 512u);
  EXPECT_EQ(layout.down_bytes(), 768u);
  EXPECT_EQ(layout.device_bytes(), 1280u);
  EXPECT_EQ(layout.pinned_bytes(), 1536u);
}

}  // namespace
}  // namespace tandem::worker
