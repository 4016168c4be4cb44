// Blocks that are used again: which one comes back, and what is not kept.
#include "worker/device/buffers.h"

#include <cstring>
#include <utility>

#include "gtest/gtest.h"

namespace tandem::worker {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

TEST(AlignedBuffer, GrowsAndKeepsWhatItHasForLess) {
  AlignedBuffer buffer;
  EXPECT_EQ(buffer.data(), nullptr);
  uint8_t* const first = buffer.Ensure(1000);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 64, 0u);
  EXPECT_GE(buffer.capacity(), 1000u);
  EXPECT_EQ(buffer.Ensure(10), first);
  ASSERT_NE(buffer.Ensure(5 * kMiB), nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % (2 * kMiB), 0u);
  std::memset(buffer.data(), 7, 5 * kMiB);
}

TEST(AlignedBuffer, WhatCannotBeHadLeavesWhatWasThere) {
  AlignedBuffer buffer;
  uint8_t* const first = buffer.Ensure(1000);
  EXPECT_EQ(buffer.Ensure(SIZE_MAX - 5), nullptr);
  EXPECT_EQ(buffer.data(), first);
  EXPECT_GE(buffer.capacity(), 1000u);
}

TEST(BufferPool, TheBlockThatWasGivenBackComesAgain) {
  BufferPool pool(64 * kMiB);
  AlignedBuffer buffer = pool.Take(3 * kMiB);
  const uint8_t* const block = buffer.data();
  ASSERT_NE(block, nullptr);
  pool.Give(std::move(buffer));
  AlignedBuffer again = pool.Take(3 * kMiB);
  EXPECT_EQ(again.data(), block);
  const AlignedBuffer other = pool.Take(3 * kMiB);  // It is out: this is another one.
  EXPECT_NE(other.data(), block);
  pool.Give(std::move(again));
  const AlignedBuffer less = pool.Take(2 * kMiB);  // It serves a little less, too.
  EXPECT_EQ(less.data(), block);
  EXPECT_EQ(less.capacity(), 4 * kMiB);  // A new one would be smaller.
}

TEST(BufferPool, TheSmallestThatFitsIsTaken) {
  BufferPool pool(64 * kMiB);
  AlignedBuffer small = pool.Take(4 * kMiB), large = pool.Take(8 * kMiB);
  const uint8_t* const block = small.data();
  pool.Give(std::move(large));
  pool.Give(std::move(small));
  EXPECT_EQ(pool.Take(4 * kMiB).data(), block);
}

TEST(BufferPool, ABlockIsNotSpentOnLessThanAQuarterOfIt) {
  BufferPool pool(64 * kMiB);
  AlignedBuffer buffer = pool.Take(32 * kMiB);
  const uint8_t* const block = buffer.data();
  pool.Give(std::move(buffer));
  const AlignedBuffer small = pool.Take(8 * kMiB - 1);
  EXPECT_NE(small.data(), block);
  EXPECT_LT(small.capacity(), 32 * kMiB);
  EXPECT_EQ(pool.Take(8 * kMiB).data(), block);
}

TEST(BufferPool, WhatIsKeptIdleIsBoundedAndTheLargestGoFirst) {
  BufferPool pool(10 * kMiB);
  AlignedBuffer small = pool.Take(4 * kMiB), large = pool.Take(8 * kMiB);
  const uint8_t* const block = small.data();
  pool.Give(std::move(small));
  pool.Give(std::move(large));  // 12 MiB: over the bound, and this one goes.
  const AlignedBuffer kept = pool.Take(2 * kMiB);
  EXPECT_EQ(kept.data(), block);
  EXPECT_EQ(kept.capacity(), 4 * kMiB);  // Neither the large one nor a new one.
}

TEST(BufferPool, WithoutRoomForIdleBlocksNothingIsKept) {
  BufferPool pool(kMiB);
  pool.Give(pool.Take(16 * kMiB));
  // 16 MiB would have served 5: kept, it would show by its size.
  EXPECT_LT(pool.Take(5 * kMiB).capacity(), 16 * kMiB);
}

}  // namespace
}  // namespace tandem::worker
