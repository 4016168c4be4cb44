// Files that have not changed are not read again; those that may have are.
#include "client/lib/hash_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/data/sha256.h"
#include "gtest/gtest.h"

namespace tandem::client {
namespace {

class HashCacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = std::filesystem::temp_directory_path() / "tandem_hash_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  static void Write(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
  }
  static ByteSource Source(const std::string& path) { return *ByteSource::OfFile(path); }
  // The change time cannot be set back: wait until it is old enough to be trusted.
  static void LetItSettle(const std::string& path) {
    const absl::Time deadline = absl::Now() + absl::Seconds(30);
    while (absl::Now() < deadline) {
      if (Source(path).IdentityNow()->settled) return;
      absl::SleepFor(absl::Milliseconds(50));  // poll: for the file's clock, at most 30 s
    }
    FAIL() << "never settled";
  }

  std::string folder_;
  const std::string big_ = std::string(HashCache::kSourceBytesMin + 5, 'x');
};

TEST_F(HashCacheTest, AnUnchangedFileIsHashedOnceAlsoByTheNextProcess) {
  Write(Path("f"), big_);
  LetItSettle(Path("f"));
  HashCache cache(Path("cache/ids"));
  EXPECT_EQ(*cache.IdOf(Source(Path("f"))), Sha256Of(big_));
  EXPECT_EQ(cache.hits(), 0u);
  EXPECT_EQ(*cache.IdOf(Source(Path("f"))), Sha256Of(big_));
  EXPECT_EQ(cache.hits(), 1u);
  HashCache next(Path("cache/ids"));
  EXPECT_EQ(*next.IdOf(Source(Path("f"))), Sha256Of(big_));
  EXPECT_EQ(next.hits(), 1u);
  struct stat info {};
  ASSERT_EQ(stat(Path("cache/ids").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(HashCacheTest, AFileThatChangedUnderTheSameSizeAndTimeIsHashedAgain) {
  Write(Path("f"), big_);
  LetItSettle(Path("f"));
  HashCache cache(Path("ids"));
  ASSERT_TRUE(cache.IdOf(Source(Path("f"))).ok());
  struct stat info {};
  ASSERT_EQ(stat(Path("f").c_str(), &info), 0);
  std::string other = big_;
  other[7] = 'y';
  Write(Path("f"), other);
  const timespec times[2] = {info.st_atim, info.st_mtim};
  ASSERT_EQ(utimensat(AT_FDCWD, Path("f").c_str(), times, 0), 0);
  EXPECT_EQ(*cache.IdOf(Source(Path("f"))), Sha256Of(other));
  EXPECT_EQ(cache.hits(), 0u);
}

TEST_F(HashCacheTest, AFileThatWasJustWrittenIsNotRemembered) {
  Write(Path("f"), big_);
  HashCache cache(Path("ids"));
  ASSERT_FALSE(Source(Path("f")).IdentityNow()->settled);
  ASSERT_TRUE(cache.IdOf(Source(Path("f"))).ok());
  ASSERT_TRUE(cache.IdOf(Source(Path("f"))).ok());
  EXPECT_EQ(cache.hits(), 0u);
  EXPECT_FALSE(std::filesystem::exists(Path("ids")));
}

TEST_F(HashCacheTest, WhatIsAroundAFileAndWhereItBeginsMakesAnotherSource) {
  Write(Path("f"), big_ + big_);
  LetItSettle(Path("f"));
  HashCache cache(Path("ids"));
  ByteSource header = ByteSource::OfMemory("header");
  header.Append(Source(Path("f")));
  EXPECT_EQ(*cache.IdOf(header), Sha256Of("header" + big_ + big_));
  EXPECT_EQ(*cache.IdOf(*ByteSource::OfFile(Path("f"), 3)), Sha256Of((big_ + big_).substr(3)));
  EXPECT_EQ(*cache.IdOf(Source(Path("f"))), Sha256Of(big_ + big_));
  EXPECT_EQ(cache.hits(), 0u);
  EXPECT_EQ(*cache.IdOf(header), Sha256Of("header" + big_ + big_));
  EXPECT_EQ(cache.hits(), 1u);
}

TEST_F(HashCacheTest, WhatIsForgottenIsHashedAgain) {
  Write(Path("f"), big_);
  LetItSettle(Path("f"));
  HashCache cache(Path("ids"));
  const BlobId id = *cache.IdOf(Source(Path("f")));
  cache.Forget(id);
  HashCache next(Path("ids"));
  ASSERT_TRUE(next.IdOf(Source(Path("f"))).ok());
  EXPECT_EQ(next.hits(), 0u);
}

TEST_F(HashCacheTest, AFileThatIsNoCacheIsReplacedAndOneThatIsCutOffGoesOn) {
  Write(Path("f"), big_);
  LetItSettle(Path("f"));
  Write(Path("ids"), "something else, quite long, that was never a cache of hashes of files ....");
  {
    HashCache cache(Path("ids"));
    ASSERT_TRUE(cache.IdOf(Source(Path("f"))).ok());
    EXPECT_EQ(cache.hits(), 0u);
  }
  HashCache next(Path("ids"));
  ASSERT_TRUE(next.IdOf(Source(Path("f"))).ok());
  EXPECT_EQ(next.hits(), 1u);
  std::filesystem::resize_file(Path("ids"), std::filesystem::file_size(Path("ids")) - 1);
  HashCache cut(Path("ids"));
  EXPECT_EQ(*cut.IdOf(Source(Path("f"))), Sha256Of(big_));
  EXPECT_EQ(cut.hits(), 0u);
}

TEST_F(HashCacheTest, WithoutAPlaceNothingIsRemembered) {
  Write(Path("f"), big_);
  LetItSettle(Path("f"));
  for (const std::string& path : {std::string(), std::string("/dev/null/nowhere")}) {
    HashCache cache(path);
    EXPECT_EQ(*cache.IdOf(Source(Path("f"))), Sha256Of(big_));
  }
}

TEST_F(HashCacheTest, TheUsersCacheIsWhereTheEnvironmentSays) {
  setenv("TANDEM_HASH_CACHE", "/x/y", 1);
  EXPECT_EQ(HashCache::PathOfUser(), "/x/y");
  setenv("TANDEM_HASH_CACHE", "", 1);
  EXPECT_EQ(HashCache::PathOfUser(), "");
  unsetenv("TANDEM_HASH_CACHE");
  setenv("XDG_CACHE_HOME", "/c", 1);
  EXPECT_EQ(HashCache::PathOfUser(), "/c/tandem/blob-ids");
  unsetenv("XDG_CACHE_HOME");
  setenv("HOME", "/h", 1);
  EXPECT_EQ(HashCache::PathOfUser(), "/h/.cache/tandem/blob-ids");
}

}  // namespace
}  // namespace tandem::client
