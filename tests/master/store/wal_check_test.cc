// Damage to the write-ahead log: a torn end is cut, a hole in what was durable is refused.
#include "master/store/wal_check.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "master/store/sqlite_store.h"
#include "tests/master/store/store_builders.h"

namespace tandem::master {
namespace {

constexpr size_t kHeader = 32;
constexpr size_t kFrame = 24 + 4096;

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}
void WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

class WalCheckTest : public ::testing::Test {
 protected:
  // Five commits that are only in the log, as a killed master leaves them.
  WalCheckTest() {
    ScratchDirectory directory;
    SqliteStoreOptions options;
    options.directory = directory.path();
    auto store = SqliteStore::Open(options);
    EXPECT_TRUE(store.ok());
    const Epoch epoch = *(*store)->RaiseEpoch();
    for (const char* text : {"one", "two", "three", "four", "five"}) {
      AppendBatch batch = Records({text, std::string(9000, 'x')});
      EXPECT_TRUE((*store)->Append(epoch, {&batch, 1}).ok());
      ends_.push_back(std::filesystem::file_size(directory.path() + "/master.db-wal"));
    }
    db_ = ReadFile(directory.path() + "/master.db");
    wal_ = ReadFile(directory.path() + "/master.db-wal");
    EXPECT_EQ((wal_.size() - kHeader) % kFrame, 0u);
    EXPECT_EQ(wal_.size(), ends_.back());
  }

  // Opens a copy with this log. Returns how many commits there are, or the refusal.
  absl::StatusOr<uint64_t> OpenWith(const std::string& wal) {
    ScratchDirectory directory;
    WriteFile(directory.path() + "/master.db", db_);
    WriteFile(directory.path() + "/master.db-wal", wal);
    SqliteStoreOptions options;
    options.directory = directory.path();
    auto store = SqliteStore::Open(options);
    if (!store.ok()) return store.status();
    EXPECT_THAT((*store)->Verify()->problems, ::testing::IsEmpty());
    return (*store)->HeadSeq();
  }

  std::string db_;
  std::string wal_;
  std::vector<size_t> ends_;  // Of each commit, in bytes of the log.
};

TEST_F(WalCheckTest, AWholeLogOpens) { EXPECT_EQ(*OpenWith(wal_), 5u); }

TEST_F(WalCheckTest, ALogCutAnywhereInItsLastCommitOpensWithoutIt) {
  const size_t step = (ends_[4] - ends_[3]) / 20;
  for (size_t cut = ends_[3]; cut < ends_[4]; cut += step) {
    const auto head = OpenWith(wal_.substr(0, cut));
    ASSERT_TRUE(head.ok()) << cut << ": " << head.status();
    EXPECT_EQ(*head, 4u) << cut;
  }
}

TEST_F(WalCheckTest, EveryFlippedFrameBeforeTheLastCommitIsRefused) {
  for (size_t frame = kHeader; frame < ends_[3]; frame += kFrame) {
    for (const size_t byte : {size_t{1}, size_t{10}, size_t{20}, size_t{24}, kFrame - 1}) {
      std::string damaged = wal_;
      damaged[frame + byte] = static_cast<char>(damaged[frame + byte] ^ 4);
      const std::string path = ::testing::TempDir() + "/tandem_wal_check";
      WriteFile(path, damaged);
      const absl::Status status = CheckWal(path).status();
      ASSERT_EQ(status.code(), absl::StatusCode::kDataLoss) << frame << "+" << byte;
      ASSERT_EQ(ReasonOf(status), reason::kStoreCorrupt);
      // The checksum of a frame is also what the next one goes on from; SQLite stops at the first.
      ASSERT_THAT(std::string(status.message()),
                  ::testing::HasSubstr("offset " + std::to_string(frame)));
    }
  }
}

TEST_F(WalCheckTest, AZeroedBlockIsRefusedByTheStore) {
  for (const size_t at : {size_t{0}, size_t{8192}, ends_[1] - 4096, ends_[3] - 9000}) {
    std::string damaged = wal_;
    damaged.replace(at, 8192, std::string(8192, '\0'));
    const auto head = OpenWith(damaged);
    ASSERT_EQ(head.status().code(), absl::StatusCode::kDataLoss) << at;
    EXPECT_THAT(std::string(head.status().message()), ::testing::HasSubstr("has a hole"));
  }
}

TEST_F(WalCheckTest, AFlippedHeaderIsRefused) {
  for (size_t byte = 0; byte < kHeader; ++byte) {
    std::string damaged = wal_;
    damaged[byte] = static_cast<char>(damaged[byte] ^ 4);
    ASSERT_EQ(OpenWith(damaged).status().code(), absl::StatusCode::kDataLoss) << byte;
  }
}

TEST_F(WalCheckTest, DamageInTheLastCommitIsCutLikeATornOne) {
  std::string damaged = wal_;
  damaged[ends_[4] - 10] = static_cast<char>(damaged[ends_[4] - 10] ^ 1);
  const std::string path = ::testing::TempDir() + "/tandem_wal_check";
  WriteFile(path, damaged);
  EXPECT_EQ(*CheckWal(path), ends_[4] - ends_[3]);
  EXPECT_EQ(*OpenWith(damaged), 4u);
}

TEST_F(WalCheckTest, FramesOfAFormerUseOfTheFileAreNotDamage) {
  // A log that began anew: its first two commits stand before old frames with other salts.
  std::string reused = wal_;
  for (size_t frame = ends_[1]; frame < reused.size(); frame += kFrame) reused[frame + 8] ^= 1;
  const std::string path = ::testing::TempDir() + "/tandem_wal_check";
  WriteFile(path, reused);
  EXPECT_EQ(*CheckWal(path), 0u);
}

TEST_F(WalCheckTest, NoLogAndAnEmptyOneAreWhole) {
  EXPECT_EQ(*CheckWal(::testing::TempDir() + "/tandem_no_such_wal"), 0u);
  const std::string path = ::testing::TempDir() + "/tandem_wal_check";
  WriteFile(path, "");
  EXPECT_EQ(*CheckWal(path), 0u);
  WriteFile(path, wal_.substr(0, kHeader));
  EXPECT_EQ(*CheckWal(path), 0u);
}

}  // namespace
}  // namespace tandem::master
