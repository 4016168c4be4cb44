#include "worker/ring/staging.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "common/base/rng.h"

namespace tandem::worker {
namespace {

std::unique_ptr<StagingFile> MakeFile(uint64_t bytes_max = uint64_t{1} << 30) {
  auto file = StagingFile::Create(bytes_max);
  EXPECT_TRUE(file.ok()) << file.status();
  return *std::move(file);
}

TEST(StagingTest, LiveBlocksNeverOverlapAndKeepTheirBytes) {
  const auto file = MakeFile();
  StagingAllocator memory(file.get());
  Rng rng(11);
  std::map<uint64_t, std::pair<uint64_t, char>> live;  // offset → length, fill
  for (int step = 0; step < 20'000; ++step) {
    if (live.size() < 40 && rng.Chance(0.6)) {
      const uint64_t length = rng.Chance(0.1) ? rng.Between(1, 300'000) : rng.Between(1, 3000);
      auto block = memory.Allocate(length);
      ASSERT_TRUE(block.ok()) << block.status();
      ASSERT_EQ(block->offset % 64, 0u);
      const auto next = live.lower_bound(block->offset);
      if (next != live.end()) {
        ASSERT_LE(block->offset + length, next->first);
      }
      if (next != live.begin()) {
        const auto before = std::prev(next);
        ASSERT_LE(before->first + before->second.first, block->offset);
      }
      const char fill = static_cast<char>(step);
      std::memset(block->data, fill, length);
      uint64_t kept = length;
      if (rng.Chance(0.3)) {
        kept = rng.Between(1, length);
        ASSERT_TRUE(memory.Shrink(block->offset, kept).ok());
      }
      live[block->offset] = {kept, fill};
    } else if (!live.empty()) {
      auto victim = std::next(live.begin(), static_cast<long>(rng.Below(live.size())));
      const auto bytes = file->Read(victim->first, victim->second.first);
      ASSERT_TRUE(bytes.ok());
      const char fill = victim->second.second;
      ASSERT_TRUE(std::all_of(bytes->begin(), bytes->end(), [fill](char c) { return c == fill; }));
      ASSERT_TRUE(memory.Release(victim->first).ok());
      live.erase(victim);
    }
  }
  for (const auto& [offset, block] : live) ASSERT_TRUE(memory.Release(offset).ok());
  EXPECT_EQ(memory.used_bytes(), 0u);
}

TEST(StagingTest, FreedBytesAreUsedAgainBeforeTheFileGrows) {
  const auto file = MakeFile();
  StagingAllocator memory(file.get());
  auto first = memory.Allocate(3'000'000);
  ASSERT_TRUE(first.ok());
  const uint64_t bytes = memory.file_bytes();
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(memory.Release(first->offset).ok());
    auto again = memory.Allocate(3'000'000);
    ASSERT_TRUE(again.ok());
    ASSERT_EQ(again->offset, first->offset);
  }
  EXPECT_EQ(memory.file_bytes(), bytes);
}

TEST(StagingTest, NeighbouringHolesBecomeOne) {
  const auto file = MakeFile(8 << 20);
  StagingAllocator memory(file.get());
  std::vector<uint64_t> offsets;
  for (int i = 0; i < 8; ++i) offsets.push_back(memory.Allocate(1 << 20)->offset);
  EXPECT_EQ(memory.Allocate(64).status().code(), absl::StatusCode::kResourceExhausted);
  for (const int i : {1, 3, 2, 0, 7, 5, 6, 4}) ASSERT_TRUE(memory.Release(offsets[i]).ok());
  EXPECT_TRUE(memory.Allocate(8 << 20).ok());
}

TEST(StagingTest, ReleasingWhatIsNoBlockIsAnError) {
  const auto file = MakeFile();
  StagingAllocator memory(file.get());
  const uint64_t offset = memory.Allocate(100)->offset;
  EXPECT_EQ(memory.Release(offset + 64).code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(memory.Release(offset).ok());
  EXPECT_EQ(memory.Release(offset).code(), absl::StatusCode::kNotFound);
}

TEST(StagingTest, TheOtherSideSeesTheBytesAndNothingOutsideTheFile) {
  const auto file = MakeFile();
  auto other = StagingFile::Open(UniqueFd(::dup(file->fd())), 1 << 30);
  ASSERT_TRUE(other.ok());
  EXPECT_EQ((*other)->Read(0, 1).status().code(), absl::StatusCode::kOutOfRange);
  StagingAllocator memory(file.get());
  auto block = memory.Allocate(5);
  ASSERT_TRUE(block.ok());
  std::memcpy(block->data, "hello", 5);
  EXPECT_EQ(*(*other)->Read(block->offset, 5), "hello");
  EXPECT_EQ((*other)->Read(memory.file_bytes(), 1).status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ((*other)->Read(~uint64_t{0}, 2).status().code(), absl::StatusCode::kOutOfRange);
}

}  // namespace
}  // namespace tandem::worker
