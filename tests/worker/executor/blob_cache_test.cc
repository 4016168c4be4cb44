#include "worker/executor/blob_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "common/base/rng.h"
#include "common/base/strings.h"
#include "common/data/sha256.h"
#include "common/data/xxh3.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem::worker {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

class BlobCacheTest : public ::testing::Test {
 protected:
  BlobCacheTest() : folder_(StrCat(::testing::TempDir(), "/blob-cache-", getpid())) {}
  ~BlobCacheTest() override { std::filesystem::remove_all(folder_); }

  static std::string Bytes(uint64_t size, uint64_t seed) {
    Rng rng(seed);
    std::string bytes(size, '\0');
    for (size_t i = 0; i + 8 <= bytes.size(); i += 8) {
      const uint64_t word = rng.Next();
      std::memcpy(bytes.data() + i, &word, 8);
    }
    return bytes;
  }
  static BlobLocator Locate(const std::string& bytes) { return {Sha256Of(bytes), bytes.size()}; }
  // Reads from `bytes` and counts what was read.
  CachedBlob::Reader From(const std::string& bytes) {
    return [this, &bytes](uint64_t offset, uint64_t length, char* to) {
      std::memcpy(to, bytes.data() + offset, length);
      read_ += length;
      return absl::OkStatus();
    };
  }
  bool Cached(const BlobLocator& blob) const {
    return std::filesystem::exists(StrCat(folder_, "/", blob.id.ToHex(), ".blob"));
  }

  const std::string folder_;
  std::atomic<uint64_t> read_ = 0;
};

TEST_F(BlobCacheTest, WhatOneHasFetchedAnotherOneFinds) {
  const std::string bytes = Bytes(3 * kMiB + 100, 1);
  BlobCache one(folder_, 1 << 30);
  BlobCache other(folder_, 1 << 30);
  auto first = one.Open(Locate(bytes));
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_FALSE((*first)->Resident(0, 1));
  ASSERT_TRUE((*first)->Fetch(kMiB - 1, 2, From(bytes)).ok());  // blocks 0 and 1
  auto second = other.Open(Locate(bytes));
  ASSERT_TRUE(second.ok());
  EXPECT_TRUE((*second)->Resident(0, 2 * kMiB));
  EXPECT_FALSE((*second)->Resident(0, 2 * kMiB + 1));
  EXPECT_EQ(std::memcmp((*second)->data(), bytes.data(), 2 * kMiB), 0);
  // The last block is short.
  ASSERT_TRUE((*second)->Fetch(3 * kMiB + 50, 50, From(bytes)).ok());
  EXPECT_TRUE((*first)->Resident(3 * kMiB, 100));
  EXPECT_EQ(read_, 2 * kMiB + 100);
}

TEST_F(BlobCacheTest, ThreadsThatWantTheSameBlocksFetchThemOnce) {
  const std::string bytes = Bytes(8 * kMiB, 2);
  BlobCache cache(folder_, 1 << 30);
  auto blob = cache.Open(Locate(bytes));
  ASSERT_TRUE(blob.ok());
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      Rng rng(i);
      for (int round = 0; round < 20; ++round) {
        const uint64_t offset = rng.Below(bytes.size());
        const uint64_t length = rng.Between(1, bytes.size() - offset);
        ASSERT_TRUE((*blob)->Fetch(offset, length, From(bytes)).ok());
        ASSERT_EQ(std::memcmp((*blob)->data() + offset, bytes.data() + offset, length), 0);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(read_, bytes.size());
}

TEST_F(BlobCacheTest, AFetchThatFailsLeavesNothingAndCanBeTriedAgain) {
  const std::string bytes = Bytes(2 * kMiB, 3);
  BlobCache cache(folder_, 1 << 30);
  auto blob = cache.Open(Locate(bytes));
  ASSERT_TRUE(blob.ok());
  const auto failed = (*blob)->Fetch(
      0, 2 * kMiB, [](uint64_t, uint64_t, char*) { return absl::UnavailableError("away"); });
  EXPECT_TRUE(absl::IsUnavailable(failed.status()));
  EXPECT_FALSE((*blob)->Resident(0, 1));
  EXPECT_TRUE((*blob)->Fetch(0, 2 * kMiB, From(bytes)).ok());
}

TEST_F(BlobCacheTest, TheLeastRecentlyUsedGoFirstAndWhatIsOpenStays) {
  std::vector<std::string> bytes;
  for (uint64_t i = 0; i < 4; ++i) bytes.push_back(Bytes(4 * kMiB, 10 + i));
  BlobCache cache(folder_, 10 * kMiB);
  auto held = cache.Open(Locate(bytes[0]));
  ASSERT_TRUE(held.ok());
  ASSERT_TRUE((*held)->Fetch(0, 4 * kMiB, From(bytes[0])).ok());
  {
    auto blob = cache.Open(Locate(bytes[1]));
    ASSERT_TRUE(blob.ok());
    ASSERT_TRUE((*blob)->Fetch(0, 4 * kMiB, From(bytes[1])).ok());
  }
  // 8 MiB are held: 4 more need room, and the older one is open.
  auto third = cache.Open(Locate(bytes[2]));
  ASSERT_TRUE(third.ok());
  EXPECT_TRUE(Cached(Locate(bytes[0])));
  EXPECT_FALSE(Cached(Locate(bytes[1])));
  EXPECT_EQ(std::memcmp((*held)->data(), bytes[0].data(), 4 * kMiB), 0);
}

TEST_F(BlobCacheTest, AMapOfAnotherBootIsNotBelieved) {
  const std::string bytes = Bytes(kMiB, 5);
  BlobCache cache(folder_, 1 << 30);
  {
    auto blob = cache.Open(Locate(bytes));
    ASSERT_TRUE(blob.ok());
    ASSERT_TRUE((*blob)->Fetch(0, kMiB, From(bytes)).ok());
  }
  const std::string map = StrCat(folder_, "/", Locate(bytes).id.ToHex(), ".map");
  const int fd = open(map.c_str(), O_WRONLY);
  ASSERT_GE(fd, 0);
  const uint64_t other_boot = 42;
  ASSERT_EQ(pwrite(fd, &other_boot, sizeof(other_boot), 16), 8);
  close(fd);
  auto blob = cache.Open(Locate(bytes));
  ASSERT_TRUE(blob.ok());
  EXPECT_FALSE((*blob)->Resident(0, 1));
}

TEST_F(BlobCacheTest, WhatHasPassedStaysPassedWhileTheFileIsTheSame) {
  const std::string bytes = Bytes(kMiB + 100, 6);
  const BlobLocator blob = Locate(bytes);
  const FileStamp file = {1, 2, 3}, changed = {1, 2, 4};
  BlobChecks checks;
  EXPECT_EQ(checks.Find(blob, file), nullptr);
  const std::string_view view = bytes;
  const auto check = checks.Add(blob, {Xxh3(view.substr(0, kMiB)), Xxh3(view.substr(kMiB))}, file);
  EXPECT_FALSE(check->Check(1, bytes.data()));
  EXPECT_FALSE(check->Passed(kMiB, 1));
  EXPECT_TRUE(check->Check(1, bytes.data() + kMiB));
  EXPECT_TRUE(check->Passed(kMiB, 100));
  EXPECT_FALSE(check->Passed(kMiB - 1, 2));
  EXPECT_TRUE(checks.Find(blob, file)->Passed(kMiB, 1));
  checks.Restamp(blob, check, changed);
  EXPECT_TRUE(checks.Find(blob, changed)->Passed(kMiB, 1));
  // Another file: nothing has passed, and the sums are still known.
  EXPECT_FALSE(checks.Find(blob, file)->Passed(kMiB, 1));
  EXPECT_TRUE(checks.Find(blob, file)->Check(0, bytes.data()));
  checks.Restamp(blob, check, changed);  // of what is no longer the check
  EXPECT_TRUE(checks.Find(blob, file)->Passed(0, 1));
}

TEST_F(BlobCacheTest, WhatNobodyReadsIsForgottenWhenThereIsMuch) {
  BlobChecks checks;
  const auto id = [](uint64_t i) { return Sha256Of(StrCat(i)); };
  const auto held = checks.Add({id(0), 1}, {}, {});
  const uint64_t half = BlobChecks::kRememberedMax / 2 * kMiB;
  (void)checks.Add({id(1), half}, {}, {});
  EXPECT_NE(checks.Find({id(1), half}, {}), nullptr);
  (void)checks.Add({id(2), half}, {}, {});
  EXPECT_EQ(checks.Find({id(0), 1}, {}), held);
  EXPECT_TRUE(checks.Find({id(1), half}, {}) == nullptr ||
              checks.Find({id(2), half}, {}) == nullptr);
}

TEST_F(BlobCacheTest, AnEmptyBlobIsResident) {
  BlobCache cache(folder_, 1 << 30);
  auto blob = cache.Open(Locate(""));
  ASSERT_TRUE(blob.ok()) << blob.status();
  EXPECT_TRUE((*blob)->Resident(0, 0));
}

}  // namespace
}  // namespace tandem::worker
