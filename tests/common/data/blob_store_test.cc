#include "common/data/blob_store.h"

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/error.h"
#include "common/data/sha256.h"
#include "common/data/xxh3.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/fault_file_system.h"

namespace tandem {
namespace {

using Op = FaultFileSystem::Op;
using ::testing::ElementsAre;

class BlobStoreTest : public ::testing::Test {
 protected:
  BlobStoreTest() { Reopen(); }

  void Reopen() {
    store_.reset();
    auto store = BlobStore::Open(&fs_, "/data", limits_);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }

  std::unique_ptr<BlobUpload> Begin(const std::string& owner, std::optional<BlobId> id,
                                    std::optional<uint64_t> size = std::nullopt) {
    auto upload = store_->BeginPut(owner, id, size);
    EXPECT_TRUE(upload.ok()) << upload.status();
    return *std::move(upload);
  }

  FaultFileSystem fs_;
  BlobLimits limits_;
  std::unique_ptr<BlobStore> store_;
};

TEST_F(BlobStoreTest, WhatWasPutIsReadBackUnderItsHash) {
  const auto info = store_->Put("ada", "some bytes");
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->id, Sha256Of("some bytes"));
  EXPECT_EQ(info->size, 10u);
  EXPECT_EQ(*store_->Read("ada", info->id, 5, 5), "bytes");
  EXPECT_EQ(*store_->Stat("ada", info->id), *info);
  EXPECT_EQ(store_->Read("ada", info->id, 5, 6).status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(store_->Read("ada", info->id, UINT64_MAX, 6).status().code(),
            absl::StatusCode::kOutOfRange);
}

TEST_F(BlobStoreTest, AnEmptyBlobIsABlob) {
  const auto info = store_->Put("ada", "");
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(*store_->Read("ada", info->id, 0, 0), "");
}

TEST_F(BlobStoreTest, KnowingAHashGrantsNothing) {
  const BlobId id = store_->Put("ada", "secret")->id;
  for (const absl::Status& status :
       {store_->Stat("bob", id).status(), store_->Read("bob", id, 0, 1).status(),
        store_->PathOf("bob", id).status(), store_->OpenForReading("bob", id).status(),
        store_->Remove("bob", id), store_->Verify("bob", id)}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
    EXPECT_EQ(ReasonOf(status), reason::kBlobNotFound);
  }
  EXPECT_TRUE(store_->List("bob", BlobId(), 0)->blobs.empty());
  // Bob begins at 0, as with any blob: that ada has it does not show.
  EXPECT_EQ(*store_->UploadedBytes("bob", id), 0u);
  auto upload = Begin("bob", id, 6);
  EXPECT_FALSE(upload->already_there());
  EXPECT_EQ(upload->offset(), 0u);
}

TEST_F(BlobStoreTest, EqualBytesOfTwoOwnersAreStoredOnceAndGoWithTheLast) {
  const BlobId id = store_->Put("ada", "shared")->id;
  ASSERT_EQ(store_->Put("bob", "shared")->id, id);
  EXPECT_EQ(store_->TotalBytes(), 6u);
  EXPECT_EQ(store_->OwnerBytes("ada"), 6u);
  EXPECT_EQ(store_->OwnerBytes("bob"), 6u);
  ASSERT_TRUE(store_->Remove("ada", id).ok());
  EXPECT_FALSE(store_->Stat("ada", id).ok());
  EXPECT_EQ(*store_->Read("bob", id, 0, 6), "shared");
  ASSERT_TRUE(store_->Remove("bob", id).ok());
  EXPECT_EQ(store_->TotalBytes(), 0u);
  EXPECT_TRUE(fs_.Files().empty());
}

TEST_F(BlobStoreTest, PuttingItAgainChangesNothing) {
  ASSERT_TRUE(store_->Put("ada", "twice").ok());
  const auto again = store_->Put("ada", "twice");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(store_->OwnerBytes("ada"), 5u);
  EXPECT_EQ(store_->TotalBytes(), 5u);
  EXPECT_EQ(fs_.Files().size(), 3u);  // Its bytes, their sums, and whose it is.
  auto upload = Begin("ada", again->id);
  EXPECT_TRUE(upload->already_there());
  EXPECT_EQ(upload->offset(), 5u);
  EXPECT_TRUE(upload->Append("sent without asking").ok());
  EXPECT_EQ(*upload->Finish(), *again);
}

TEST_F(BlobStoreTest, ABrokenUploadGoesOnWhereItEnded) {
  const BlobId id = Sha256Of("first half, second half");
  ASSERT_TRUE(Begin("ada", id, 23)->Append("first half,").ok());
  EXPECT_EQ(*store_->UploadedBytes("ada", id), 11u);
  EXPECT_EQ(*store_->UploadedBytes("bob", id), 0u);
  auto upload = Begin("ada", id, 23);
  EXPECT_EQ(upload->offset(), 11u);
  ASSERT_TRUE(upload->Append(" second half").ok());
  ASSERT_TRUE(upload->Finish().ok());
  EXPECT_EQ(*store_->Read("ada", id, 0, 23), "first half, second half");
  EXPECT_EQ(store_->TotalBytes(), 23u);
}

TEST_F(BlobStoreTest, ABrokenUploadGoesOnAfterARestart) {
  const BlobId id = Sha256Of("first half, second half");
  ASSERT_TRUE(Begin("ada", id)->Append("first half,").ok());
  Reopen();
  EXPECT_EQ(store_->OwnerBytes("ada"), 11u);
  auto upload = Begin("ada", id);
  EXPECT_EQ(upload->offset(), 11u);
  ASSERT_TRUE(upload->Append(" second half").ok());
  EXPECT_TRUE(upload->Finish().ok());
}

TEST_F(BlobStoreTest, AnUploadThatIsTakenOverGetsAbortedAndTheNewOneGoesOn) {
  const BlobId id = Sha256Of("abcdef");
  auto old = Begin("ada", id);
  ASSERT_TRUE(old->Append("abc").ok());
  auto fresh = Begin("ada", id);
  EXPECT_EQ(fresh->offset(), 3u);
  EXPECT_EQ(old->Append("def").code(), absl::StatusCode::kAborted);
  EXPECT_EQ(old->Finish().status().code(), absl::StatusCode::kAborted);
  old.reset();
  ASSERT_TRUE(fresh->Append("def").ok());
  EXPECT_TRUE(fresh->Finish().ok());
}

TEST_F(BlobStoreTest, WrongBytesAreDroppedAndTheNextUploadBeginsAnew) {
  const BlobId id = Sha256Of("right");
  auto upload = Begin("ada", id, 5);
  ASSERT_TRUE(upload->Append("wrong").ok());
  const absl::Status status = upload->Finish().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReasonOf(status), reason::kChecksumMismatch);
  EXPECT_EQ(store_->OwnerBytes("ada"), 0u);
  EXPECT_TRUE(fs_.Files().empty());
  auto next = Begin("ada", id, 5);  // While the failed one is still held.
  EXPECT_EQ(next->offset(), 0u);
  ASSERT_TRUE(next->Append("right").ok());
  EXPECT_TRUE(next->Finish().ok());
}

TEST_F(BlobStoreTest, MoreOrFewerBytesThanSaidAreRefused) {
  const BlobId id = Sha256Of("12345");
  auto upload = Begin("ada", id, 5);
  ASSERT_TRUE(upload->Append("1234").ok());
  EXPECT_EQ(upload->Append("56").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReasonOf(upload->Finish().status()), reason::kTruncated);
  ASSERT_TRUE(upload->Append("5").ok());
  EXPECT_TRUE(upload->Finish().ok());
}

TEST_F(BlobStoreTest, AnUploadWithoutAHashIsDroppedWhenItBreaksOff) {
  ASSERT_TRUE(Begin("ada", std::nullopt)->Append("unfinished").ok());
  EXPECT_TRUE(fs_.Files().empty());
  EXPECT_EQ(store_->OwnerBytes("ada"), 0u);
}

TEST_F(BlobStoreTest, AFinishedPutSurvivesACrash) {
  const BlobId id = store_->Put("ada", "durable")->id;
  fs_.Crash();
  Reopen();
  EXPECT_EQ(*store_->Read("ada", id, 0, 7), "durable");
  EXPECT_EQ(store_->TotalBytes(), 7u);
  EXPECT_TRUE(store_->VerifyAll()->empty());
}

// Each step of publishing fails in turn, then the machine crashes: either the blob is whole or it
// is not there, and no bytes are counted or left that nobody can reach.
TEST_F(BlobStoreTest, ACrashAtAnyStepOfAPutLeavesItWholeOrAbsent) {
  const BlobId id = Sha256Of("step by step");
  for (const Op op : {Op::kWrite, Op::kSync, Op::kRename, Op::kLink, Op::kSyncDirectory}) {
    for (int skip = 0; skip < 6; ++skip) {
      fs_.FailOnce(op, skip);
      const absl::Status status = store_->Put("ada", "step by step").status();
      fs_.ClearFailures();
      fs_.Crash();
      Reopen();
      if (status.ok() || store_->Stat("ada", id).ok()) {
        ASSERT_EQ(*store_->Read("ada", id, 0, 12), "step by step");
        ASSERT_TRUE(store_->Verify("ada", id).ok());
        ASSERT_TRUE(store_->Remove("ada", id).ok());
        fs_.Crash();
        Reopen();
      }
      ASSERT_TRUE(fs_.Files().empty()) << static_cast<int>(op) << " " << skip;
      ASSERT_EQ(store_->TotalBytes(), 0u);
    }
  }
}

TEST_F(BlobStoreTest, AFailedPublishCanBeRepeatedByFinishingAgain) {
  auto upload = Begin("ada", Sha256Of("x"));
  ASSERT_TRUE(upload->Append("x").ok());
  fs_.FailOnce(Op::kLink);
  EXPECT_FALSE(upload->Finish().ok());
  const auto info = upload->Finish();
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(*store_->Read("ada", info->id, 0, 1), "x");
}

TEST_F(BlobStoreTest, AFullDiskRefusesBytesAndTheUploadGoesOnWhenThereIsRoom) {
  const BlobId id = Sha256Of("0123456789");
  auto upload = Begin("ada", id);
  ASSERT_TRUE(upload->Append("01234").ok());
  fs_.set_capacity(7);
  EXPECT_EQ(ReasonOf(upload->Append("56789")), reason::kDiskFull);
  EXPECT_EQ(store_->OwnerBytes("ada"), 5u);
  EXPECT_EQ(*store_->UploadedBytes("ada", id), 5u);
  fs_.set_capacity(1000);
  ASSERT_TRUE(upload->Append("56789").ok());
  EXPECT_TRUE(upload->Finish().ok());
}

TEST_F(BlobStoreTest, QuotasCountBlobsAndUploads) {
  limits_.owner_bytes_max = 10;
  limits_.total_bytes_max = 15;
  Reopen();
  ASSERT_TRUE(store_->Put("ada", "123456").ok());
  EXPECT_EQ(ReasonOf(store_->Put("ada", "12345").status()), reason::kQuotaExceeded);
  auto upload = Begin("ada", std::nullopt);
  ASSERT_TRUE(upload->Append("1234").ok());
  EXPECT_EQ(ReasonOf(upload->Append("5")), reason::kQuotaExceeded);
  EXPECT_EQ(ReasonOf(store_->Put("bob", "123456").status()), reason::kQuotaExceeded);
  EXPECT_TRUE(store_->Put("bob", "12345").ok());
}

TEST_F(BlobStoreTest, ABlobOverTheLimitIsRefusedAtItsStartOrOnTheWay) {
  limits_.blob_bytes_max = 4;
  Reopen();
  EXPECT_EQ(ReasonOf(store_->BeginPut("ada", std::nullopt, 5).status()), reason::kTooLarge);
  auto upload = Begin("ada", std::nullopt);
  ASSERT_TRUE(upload->Append("1234").ok());
  EXPECT_EQ(ReasonOf(upload->Append("5")), reason::kTooLarge);
}

TEST_F(BlobStoreTest, ListingGoesThroughAllPages) {
  std::vector<BlobId> expected;
  for (int i = 0; i < 25; ++i) expected.push_back(store_->Put("ada", std::to_string(i))->id);
  ASSERT_TRUE(store_->Put("bob", "not hers").ok());
  std::sort(expected.begin(), expected.end());
  std::vector<BlobId> seen;
  BlobId next;
  do {
    const auto page = store_->List("ada", next, 10);
    ASSERT_TRUE(page.ok()) << page.status();
    EXPECT_LE(page->blobs.size(), 10u);
    for (const BlobInfo& info : page->blobs) seen.push_back(info.id);
    next = page->next;
  } while (next.valid());
  EXPECT_EQ(seen, expected);
}

TEST_F(BlobStoreTest, AFlippedByteIsFoundByVerifying) {
  const BlobId good = store_->Put("ada", "good")->id;
  const BlobId bad = store_->Put("ada", "bad")->id;
  fs_.Flip(*store_->PathOf("ada", bad), 1);
  EXPECT_TRUE(store_->Verify("ada", good).ok());
  const absl::Status status = store_->Verify("ada", bad);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(*store_->VerifyAll(), ElementsAre(::testing::HasSubstr(bad.ToHex())));
}

// Whatever becomes of the kept sums, they are those of the bytes that were uploaded.
TEST_F(BlobStoreTest, SumsAreOfTheBytesThatWereUploaded) {
  constexpr size_t kMiB = size_t{1} << 20;
  std::string bytes(2 * kMiB + 5, 'a');
  for (size_t i = 0; i < bytes.size(); i += 1000) bytes[i] = static_cast<char>(i / 1000);
  const std::vector<uint64_t> expected = {Xxh3(std::string_view(bytes).substr(0, kMiB)),
                                          Xxh3(std::string_view(bytes).substr(kMiB, kMiB)),
                                          Xxh3(std::string_view(bytes).substr(2 * kMiB))};
  const BlobId id = Sha256Of(bytes);
  {  // In odd parts, with a break and a restart between.
    auto upload = Begin("ada", id);
    ASSERT_TRUE(upload->Append(std::string_view(bytes).substr(0, kMiB - 3)).ok());
    ASSERT_TRUE(upload->Append(std::string_view(bytes).substr(kMiB - 3, 100)).ok());
  }
  Reopen();
  {
    auto upload = Begin("ada", id);
    ASSERT_TRUE(upload->Append(std::string_view(bytes).substr(upload->offset())).ok());
    ASSERT_TRUE(upload->Finish().ok());
  }
  EXPECT_EQ(*store_->Sums("ada", id), expected);
  EXPECT_TRUE(absl::IsNotFound(store_->Sums("eve", id).status()));
  std::string kept;
  for (const std::string& file : fs_.Files()) {
    if (file.find("/sums/") != std::string::npos) kept = file;
  }
  ASSERT_FALSE(kept.empty());
  // Lost, as those of an older release; then torn.
  ASSERT_TRUE(fs_.Remove(kept).ok());
  EXPECT_EQ(*store_->Sums("ada", id), expected);
  fs_.Flip(kept, 30);
  EXPECT_EQ(*store_->Sums("ada", id), expected);
  // Of bytes that are no longer those, none are made; sums that are kept know better.
  fs_.Flip(*store_->PathOf("ada", id), 1);
  EXPECT_EQ(*store_->Sums("ada", id), expected);
  ASSERT_TRUE(fs_.Remove(kept).ok());
  const absl::Status status = store_->Sums("ada", id).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(ReasonOf(status), reason::kChecksumMismatch);
  // They go with their blob.
  ASSERT_TRUE(store_->Remove("ada", id).ok());
  EXPECT_TRUE(fs_.Files().empty());
}

TEST_F(BlobStoreTest, OwnersWithOddNamesDoNotLeaveTheirFolder) {
  for (const char* owner : {"..", ".", "a/b", "a%2fb", "a b", "ä", "A", "a"}) {
    ASSERT_TRUE(store_->Put(owner, owner).ok()) << owner;
  }
  for (const char* owner : {"..", ".", "a/b", "a%2fb", "a b", "ä", "A", "a"}) {
    const auto page = store_->List(owner, BlobId(), 0);
    ASSERT_TRUE(page.ok());
    ASSERT_EQ(page->blobs.size(), 1u) << owner;
    EXPECT_EQ(page->blobs[0].id, Sha256Of(owner));
  }
  EXPECT_EQ(store_->Put("", "x").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(store_->Put(std::string(500, 'x'), "x").status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(BlobStoreTest, UnfinishedUploadsAreListedAndCanBeForgotten) {
  const BlobId id = Sha256Of("0123456789");
  ASSERT_TRUE(Begin("ada", id, 10)->Append("01234").ok());
  auto listed = store_->ListUploads("ada");
  ASSERT_TRUE(listed.ok()) << listed.status();
  ASSERT_EQ(listed->size(), 1u);
  EXPECT_EQ((*listed)[0], (BlobInfo{id, 5}));
  EXPECT_TRUE(store_->ListUploads("bob")->empty());
  EXPECT_EQ(ReasonOf(store_->RemoveUpload("bob", id)), reason::kBlobNotFound);
  EXPECT_EQ(store_->OwnerBytes("ada"), 5u);
  Reopen();
  ASSERT_TRUE(store_->RemoveUpload("ada", id).ok());
  EXPECT_TRUE(store_->ListUploads("ada")->empty());
  EXPECT_EQ(store_->OwnerBytes("ada"), 0u);
  EXPECT_EQ(store_->TotalBytes(), 0u);
  EXPECT_EQ(*store_->UploadedBytes("ada", id), 0u);
}

TEST_F(BlobStoreTest, WhoSendsToAForgottenUploadIsTold) {
  const BlobId id = Sha256Of("0123456789");
  auto upload = Begin("ada", id, 10);
  ASSERT_TRUE(upload->Append("01234").ok());
  ASSERT_TRUE(store_->RemoveUpload("ada", id).ok());
  EXPECT_TRUE(absl::IsAborted(upload->Append("56789")));
  EXPECT_EQ(Begin("ada", id, 10)->offset(), 0u);
}

TEST_F(BlobStoreTest, TheSweepForgetsUploadsThatNobodySendsTo) {
  const BlobId left = Sha256Of("left"), going_on = Sha256Of("going on");
  ASSERT_TRUE(Begin("ada", left, 4)->Append("le").ok());
  auto upload = Begin("bob", going_on, 8);
  ASSERT_TRUE(upload->Append("going").ok());
  const auto swept = store_->SweepUploads(absl::InfiniteFuture());
  ASSERT_TRUE(swept.ok()) << swept.status();
  EXPECT_EQ(*swept, 1u);
  EXPECT_EQ(*store_->UploadedBytes("ada", left), 0u);
  EXPECT_EQ(store_->OwnerBytes("ada"), 0u);
  ASSERT_TRUE(upload->Append(" on").ok());
  EXPECT_TRUE(upload->Finish().ok());
  EXPECT_EQ(*store_->SweepUploads(absl::InfiniteFuture()), 0u);
}

TEST_F(BlobStoreTest, UsageIsToldByKindAndOwner) {
  ASSERT_TRUE(store_->Put("ada", "shared").ok());
  ASSERT_TRUE(store_->Put("bob", "shared").ok());
  ASSERT_TRUE(store_->Put("ada", "hers").ok());
  ASSERT_TRUE(Begin("ada", Sha256Of("0123456789"), 10)->Append("01234").ok());
  const auto usage = store_->Usage("ada");
  ASSERT_TRUE(usage.ok()) << usage.status();
  EXPECT_EQ(usage->blobs.bytes, 10u);
  EXPECT_EQ(usage->blobs.files, 2u);
  EXPECT_EQ(usage->owner_blobs.bytes, 10u);
  EXPECT_EQ(usage->owner_uploads.bytes, 5u);
  EXPECT_EQ(usage->uploads.files, 1u);
  EXPECT_EQ(store_->Usage("bob")->owner_blobs.bytes, 6u);
  EXPECT_EQ(store_->Usage("carol")->owner_blobs.files, 0u);
}

TEST(BlobStoreOnDisk, PutsReadsAndRemovesOnTheRealFileSystem) {
  const std::string dir = ::testing::TempDir() + "/blob_store_on_disk";
  auto store = BlobStore::Open(RealFileSystem(), dir, BlobLimits());
  ASSERT_TRUE(store.ok()) << store.status();
  const std::string bytes(3 << 20, 'b');
  const auto ada = (*store)->Put("ada", bytes);
  ASSERT_TRUE(ada.ok()) << ada.status();
  ASSERT_TRUE((*store)->Put("bob", bytes).ok());
  EXPECT_EQ((*store)->TotalBytes(), bytes.size());
  store->reset();
  store = BlobStore::Open(RealFileSystem(), dir, BlobLimits());
  ASSERT_TRUE(store.ok());
  EXPECT_EQ((*store)->TotalBytes(), bytes.size());
  EXPECT_EQ(*(*store)->Read("bob", ada->id, 1 << 20, 2 << 20), std::string(2 << 20, 'b'));
  EXPECT_TRUE((*store)->Remove("ada", ada->id).ok());
  EXPECT_TRUE((*store)->Verify("bob", ada->id).ok());
  EXPECT_TRUE((*store)->Remove("bob", ada->id).ok());
  EXPECT_EQ((*store)->TotalBytes(), 0u);
}

TEST(BlobStoreOnDisk, TheSweepGoesByTheTimeOfTheLastByte) {
  std::string folder = ::testing::TempDir() + "/tandem_sweep_XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  auto store = *BlobStore::Open(RealFileSystem(), folder, {});
  const BlobId id = Sha256Of("0123456789");
  {
    auto upload = *store->BeginPut("ada", id, 10);
    ASSERT_TRUE(upload->Append("01234").ok());
  }
  const absl::Time written = (*store->ListUploads("ada"))[0].created;
  EXPECT_EQ(*store->SweepUploads(written), 0u);
  EXPECT_EQ(*store->SweepUploads(written + absl::Nanoseconds(1)), 1u);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace tandem
