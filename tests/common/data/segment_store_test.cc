#include "common/data/segment_store.h"

#include <random>
#include <string>
#include <thread>
#include <vector>

#include "common/base/error.h"
#include "common/data/xxh3.h"
#include "gtest/gtest.h"
#include "tests/support/fault_file_system.h"

namespace tandem {
namespace {

using Op = FaultFileSystem::Op;

class SegmentStoreTest : public ::testing::Test {
 protected:
  SegmentStoreTest() {
    limits_.segment_bytes_max = 1000;
    limits_.reserve_bytes = 256;
    Reopen();
  }

  void Reopen() {
    store_.reset();
    auto store = SegmentStore::Open(&fs_, "/data", limits_);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }

  std::unique_ptr<SegmentAppender> Appender(const std::string& owner = "ada") {
    auto appender = store_->NewAppender(owner);
    EXPECT_TRUE(appender.ok());
    return *std::move(appender);
  }

  FaultFileSystem fs_;
  SegmentLimits limits_;
  std::unique_ptr<SegmentStore> store_;
};

TEST_F(SegmentStoreTest, WhatWasAppendedIsReadBackWithItsChecksum) {
  auto appender = Appender();
  const std::string_view slices[] = {"hello", "", ", world"};
  const auto region = appender->Append(slices);
  ASSERT_TRUE(region.ok()) << region.status();
  EXPECT_EQ(region->length, 12u);
  EXPECT_EQ(region->xxh3, Xxh3("hello, world"));
  EXPECT_EQ(*store_->Read(*region), "hello, world");
  EXPECT_EQ(*store_->Read(region->segment, region->offset + 7, 5), "world");
}

TEST_F(SegmentStoreTest, PiecesOfOneWriteHaveTheirOwnChecksumsAcrossSlices) {
  auto appender = Appender();
  const std::string_view slices[] = {"abc", "defgh", "i"};
  const uint64_t lengths[] = {2, 0, 5, 2};
  const auto regions = appender->AppendPieces(slices, lengths);
  ASSERT_TRUE(regions.ok());
  ASSERT_EQ(regions->size(), 4u);
  EXPECT_EQ(*store_->Read((*regions)[0]), "ab");
  EXPECT_EQ(*store_->Read((*regions)[1]), "");
  EXPECT_EQ(*store_->Read((*regions)[2]), "cdefg");
  EXPECT_EQ(*store_->Read((*regions)[3]), "hi");
  EXPECT_EQ((*regions)[2].xxh3, Xxh3("cdefg"));
}

TEST_F(SegmentStoreTest, APieceInPartsIsThereOnlyOnceItIsWhole) {
  auto appender = Appender();
  ASSERT_TRUE(appender->Append("before").ok());
  ASSERT_TRUE(appender->BeginPiece(10).ok());
  const std::string_view first[] = {"abc", "de"};
  ASSERT_TRUE(appender->AddToPiece(first).ok());
  const SegmentId segment = store_->List().front().id;
  EXPECT_EQ(store_->Read(segment, 64, 5).status().code(), absl::StatusCode::kOutOfRange);
  const std::string_view rest[] = {"fghij"};
  ASSERT_TRUE(appender->AddToPiece(rest).ok());
  const auto region = appender->EndPiece();
  ASSERT_TRUE(region.ok());
  EXPECT_EQ(region->length, 10u);
  EXPECT_EQ(region->xxh3, Xxh3("abcdefghij"));
  EXPECT_EQ(*store_->Read(*region), "abcdefghij");
  EXPECT_EQ(*store_->Read(*appender->Append("after")), "after");
}

TEST_F(SegmentStoreTest, APieceThatIsNotEndedIsAsIfItHadNeverBegun) {
  limits_.writeout_bytes = 8;
  Reopen();
  uint64_t before = 0;
  {
    auto appender = Appender();
    ASSERT_TRUE(appender->Append("before").ok());
    before = store_->TotalBytes();
    ASSERT_TRUE(appender->BeginPiece(500).ok());
    const std::string_view part[] = {"0123456789012345678901234567890123456789"};
    ASSERT_TRUE(appender->AddToPiece(part).ok());
    EXPECT_GT(store_->TotalBytes(), before);
  }
  EXPECT_EQ(store_->TotalBytes(), before);
  auto appender = Appender();
  const auto region = appender->Append("after");
  ASSERT_TRUE(region.ok());
  EXPECT_EQ(*store_->Read(*region), "after");
  ASSERT_TRUE(appender->BeginPiece(4).ok());
  fs_.FailOnce(Op::kWrite);
  const std::string_view part[] = {"lost"};
  EXPECT_FALSE(appender->AddToPiece(part).ok());
  EXPECT_EQ(*store_->Read(*appender->Append("and on")), "and on");
}

TEST_F(SegmentStoreTest, OwnersAreKnownAfterARestart) {
  const std::string odd = "a.b/c\xFF%";
  const auto region = Appender(odd)->Append("x");
  ASSERT_TRUE(region.ok());
  ASSERT_TRUE(store_->Sync({region->segment}).ok());
  Reopen();
  EXPECT_EQ(*store_->OwnerOf(region->segment), odd);
  EXPECT_EQ(*store_->Read(*region), "x");
}

TEST_F(SegmentStoreTest, ARegionIsHeldOnlyWhereItsOwnerWroteIt) {
  auto appender = Appender("ada");
  const Region region = *appender->Append("hello");
  EXPECT_TRUE(store_->CheckHolds(region, "ada").ok());
  EXPECT_EQ(ReasonOf(store_->CheckHolds(region, "bob")), reason::kNotOwner);
  Region longer = region;
  longer.length = 1000;
  EXPECT_EQ(ReasonOf(store_->CheckHolds(longer, "ada")), reason::kTruncated);
  Region overflowing = region;
  overflowing.offset = UINT64_MAX - 2;
  EXPECT_EQ(ReasonOf(store_->CheckHolds(overflowing, "ada")), reason::kTruncated);
  Region elsewhere = region;
  elsewhere.segment = SegmentId(99);
  EXPECT_EQ(ReasonOf(store_->CheckHolds(elsewhere, "ada")), reason::kSegmentNotFound);
}

TEST_F(SegmentStoreTest, AppendsBeginAligned) {
  auto appender = Appender();
  ASSERT_TRUE(appender->Append("x").ok());
  const auto region = appender->Append("y");
  ASSERT_TRUE(region.ok());
  EXPECT_EQ(region->offset % 64, 0u);
  EXPECT_EQ(*store_->Read(*region), "y");
}

TEST_F(SegmentStoreTest, AFullSegmentIsFollowedByANewOneAndStaysReadable) {
  auto appender = Appender();
  std::vector<Region> regions;
  for (int i = 0; i < 8; ++i) {
    const auto region = appender->Append(std::string(400, static_cast<char>('a' + i)));
    ASSERT_TRUE(region.ok());
    regions.push_back(*region);
  }
  EXPECT_EQ(store_->List().size(), 3u);  // Three appends of 400 (448 aligned) reach 1,000.
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(*store_->Read(regions[i]), std::string(400, static_cast<char>('a' + i)));
  }
}

TEST_F(SegmentStoreTest, ADestroyedAppenderLeavesItsSegmentToTheSameOwnerOnly) {
  const auto first = Appender("ada")->Append("1");
  const auto other = Appender("bob")->Append("2");
  const auto second = Appender("ada")->Append("3");
  ASSERT_TRUE(first.ok() && other.ok() && second.ok());
  EXPECT_EQ(first->segment, second->segment);
  EXPECT_NE(first->segment, other->segment);
}

TEST_F(SegmentStoreTest, TwoAppendersOfOneOwnerWriteDifferentSegments) {
  auto one = Appender();
  auto two = Appender();
  EXPECT_NE(one->Append("1")->segment, two->Append("2")->segment);
}

TEST_F(SegmentStoreTest, SyncedBytesSurviveACrashAndUnsyncedOnesAreNoticed) {
  auto appender = Appender();
  const auto kept = appender->Append("kept");
  ASSERT_TRUE(store_->Sync({kept->segment}).ok());
  const auto lost = appender->Append("lost");
  fs_.Crash();
  appender.reset();
  Reopen();
  EXPECT_EQ(*store_->Read(*kept), "kept");
  EXPECT_EQ(store_->Read(*lost).status().code(), absl::StatusCode::kOutOfRange);
}

TEST_F(SegmentStoreTest, ASegmentThatWasNeverSyncedIsNotThereAfterACrash) {
  const auto region = Appender()->Append("lost");
  fs_.Crash();
  Reopen();
  EXPECT_EQ(ReasonOf(store_->Read(*region).status()), reason::kSegmentNotFound);
}

TEST_F(SegmentStoreTest, AfterARestartAppendsGoToNewSegments) {
  const auto before = Appender()->Append("1");
  ASSERT_TRUE(store_->Sync({before->segment}).ok());
  Reopen();
  const auto after = Appender()->Append("2");
  EXPECT_GT(after->segment, before->segment);
  EXPECT_EQ(*store_->Read(*before), "1");
}

TEST_F(SegmentStoreTest, SyncingWhatIsSyncedCostsNothing) {
  auto appender = Appender();
  const auto region = appender->Append("x");
  ASSERT_TRUE(store_->Sync({region->segment, region->segment}).ok());
  const uint64_t syncs = fs_.Count(Op::kSync);
  EXPECT_EQ(syncs, 1u);
  ASSERT_TRUE(store_->Sync({region->segment}).ok());
  EXPECT_EQ(fs_.Count(Op::kSync), syncs);
  ASSERT_TRUE(appender->Append("y").ok());
  ASSERT_TRUE(store_->Sync({region->segment}).ok());
  EXPECT_EQ(fs_.Count(Op::kSync), syncs + 1);
}

TEST_F(SegmentStoreTest, WhatIsAppendedBehindADurableExtentIsNotWaitedFor) {
  auto appender = Appender();
  const auto region = appender->Append("x");
  const SegmentExtent extent{region->segment, region->offset + region->length};
  ASSERT_TRUE(store_->SyncUpTo({extent}).ok());
  const auto behind = appender->Append("much more");
  ASSERT_TRUE(store_->SyncUpTo({extent}).ok());
  EXPECT_EQ(fs_.Count(Op::kSync), 1u);
  ASSERT_TRUE(store_->SyncUpTo({extent, {behind->segment, behind->offset + behind->length}}).ok());
  EXPECT_EQ(fs_.Count(Op::kSync), 2u);
}

TEST_F(SegmentStoreTest, AFailedSyncGivesTheSegmentUpForGood) {
  auto appender = Appender();
  const auto region = appender->Append("x");
  fs_.FailOnce(Op::kSync);
  EXPECT_EQ(store_->Sync({region->segment}).code(), absl::StatusCode::kInternal);
  EXPECT_EQ(ReasonOf(store_->Sync({region->segment})), reason::kStoreFailed);
  const auto next = appender->Append("y");
  ASSERT_TRUE(next.ok());
  EXPECT_NE(next->segment, region->segment);
  EXPECT_TRUE(store_->Sync({next->segment}).ok());
}

TEST_F(SegmentStoreTest, AFullDiskRefusesTheAppendAndTakesItWhenThereIsRoom) {
  auto appender = Appender();
  const auto before = appender->Append(std::string(100, 'a'));
  fs_.set_capacity(300);
  const absl::Status full = appender->Append(std::string(400, 'b')).status();
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReasonOf(full), reason::kDiskFull);
  EXPECT_EQ(store_->TotalBytes(), 100u);
  fs_.set_capacity(10000);
  const auto after = appender->Append(std::string(400, 'b'));
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_EQ(after->segment, before->segment);
  EXPECT_EQ(*store_->Read(*before), std::string(100, 'a'));
  EXPECT_EQ(*store_->Read(*after), std::string(400, 'b'));
}

TEST_F(SegmentStoreTest, ANearlyFullDiskTakesWhatStillFits) {
  fs_.set_capacity(200);  // Less than what is reserved ahead.
  EXPECT_TRUE(Appender()->Append(std::string(150, 'a')).ok());
}

TEST_F(SegmentStoreTest, ShortWritesAreContinued) {
  fs_.set_write_bytes_max(7);
  std::vector<std::string> parts;
  std::string whole;
  for (int i = 0; i < 40; ++i) {
    parts.push_back(std::string(static_cast<size_t>(i % 11), static_cast<char>('a' + i % 26)));
    whole += parts.back();
  }
  const std::vector<std::string_view> slices(parts.begin(), parts.end());
  const auto region = Appender()->Append(slices);
  ASSERT_TRUE(region.ok());
  EXPECT_EQ(*store_->Read(*region), whole);
}

TEST_F(SegmentStoreTest, AWriteErrorIsReportedAndTheNextAppendIsWhole) {
  auto appender = Appender();
  fs_.FailOnce(Op::kWrite);
  EXPECT_EQ(appender->Append("x").status().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(*store_->Read(*appender->Append("y")), "y");
}

TEST_F(SegmentStoreTest, AFlippedByteIsNoticedByTheChecksum) {
  auto appender = Appender();
  const auto region = appender->Append("precious");
  const std::string path = *store_->PathOf(region->segment);
  for (uint64_t i = 0; i < region->length; ++i) {
    fs_.Flip(path, region->offset + i);
    const absl::Status status = store_->Read(*region).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << i;
    EXPECT_EQ(ReasonOf(status), reason::kChecksumMismatch);
    fs_.Flip(path, region->offset + i);
  }
  EXPECT_TRUE(store_->Read(*region).ok());
}

TEST_F(SegmentStoreTest, ReadsBeyondTheEndAreRefusedWithoutAllocating) {
  const auto region = Appender()->Append("abc");
  EXPECT_EQ(store_->Read(region->segment, 2, 2).status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(store_->Read(region->segment, UINT64_MAX, 2).status().code(),
            absl::StatusCode::kOutOfRange);
  EXPECT_EQ(store_->Read(region->segment, 1, UINT64_MAX).status().code(),
            absl::StatusCode::kOutOfRange);
  EXPECT_EQ(ReasonOf(store_->Read(SegmentId(99), 0, 1).status()), reason::kSegmentNotFound);
}

TEST_F(SegmentStoreTest, UnreferencedSegmentsOfFormerRunsGoAndNewOnesStay) {
  const auto a = Appender("a")->Append("aaaa");
  const auto b = Appender("b")->Append("bb");
  ASSERT_TRUE(store_->Sync({a->segment, b->segment}).ok());
  Reopen();
  const auto c = Appender("c")->Append("c");
  const auto freed = store_->DeleteUnreferenced({b->segment});
  ASSERT_TRUE(freed.ok()) << freed.status();
  EXPECT_EQ(*freed, 4u);
  EXPECT_EQ(ReasonOf(store_->Read(*a).status()), reason::kSegmentNotFound);
  EXPECT_EQ(*store_->Read(*b), "bb");
  EXPECT_EQ(*store_->Read(*c), "c");
  EXPECT_EQ(store_->TotalBytes(), 3u);
}

TEST_F(SegmentStoreTest, AnIdIsNeverUsedAgain) {
  const auto a = Appender()->Append("a");
  ASSERT_TRUE(store_->Sync({a->segment}).ok());
  ASSERT_TRUE(store_->Delete(a->segment).ok());
  Reopen();
  EXPECT_GT(Appender()->Append("b")->segment, a->segment);
}

TEST_F(SegmentStoreTest, AnAppenderMovesOnFromADeletedSegment) {
  auto appender = Appender();
  const auto a = appender->Append("a");
  ASSERT_TRUE(store_->Delete(a->segment).ok());
  const auto b = appender->Append("b");
  EXPECT_NE(a->segment, b->segment);
  EXPECT_EQ(*store_->Read(*b), "b");
}

TEST_F(SegmentStoreTest, TheLimitOfAllBytesIsANamedError) {
  limits_.total_bytes_max = 100;
  Reopen();
  auto appender = Appender();
  ASSERT_TRUE(appender->Append(std::string(90, 'x')).ok());
  EXPECT_EQ(ReasonOf(appender->Append(std::string(90, 'x')).status()), reason::kQuotaExceeded);
}

TEST_F(SegmentStoreTest, FewFilesStayOpenHoweverManyAreRead) {
  limits_.segment_bytes_max = 1;
  limits_.open_files_max = 2;
  Reopen();
  auto appender = Appender();
  std::vector<Region> regions;
  for (int i = 0; i < 10; ++i) {
    regions.push_back(*appender->Append(std::to_string(i)));
    ASSERT_TRUE(store_->Sync({regions.back().segment}).ok());
  }
  appender.reset();
  for (int round = 0; round < 2; ++round) {
    const uint64_t before = fs_.Count(Op::kOpen);
    for (int i = 0; i < 8; ++i) EXPECT_EQ(*store_->Read(regions[i]), std::to_string(i));
    EXPECT_EQ(fs_.Count(Op::kOpen) - before, 8u);  // Each was closed before its turn came again.
  }
  const uint64_t before = fs_.Count(Op::kOpen);
  EXPECT_EQ(*store_->Read(regions[7]), "7");
  EXPECT_EQ(fs_.Count(Op::kOpen), before);
}

TEST(SegmentStoreOnDisk, ManyThreadsAppendSyncAndReadAtOnce) {
  const std::string dir = ::testing::TempDir() + "/segments_many_threads";
  SegmentLimits limits;
  limits.segment_bytes_max = 64 << 10;
  limits.open_files_max = 4;
  auto store = SegmentStore::Open(RealFileSystem(), dir, limits);
  ASSERT_TRUE(store.ok()) << store.status();
  constexpr int kThreads = 4;
  std::vector<std::vector<std::pair<Region, uint32_t>>> written(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      auto appender = *(*store)->NewAppender("owner" + std::to_string(t % 2));
      std::minstd_rand random(static_cast<uint32_t>(t + 1));
      for (int i = 0; i < 200; ++i) {
        const uint32_t size = random() % 3000;
        const auto region = appender->Append(std::string(size, static_cast<char>('a' + t)));
        ASSERT_TRUE(region.ok()) << region.status();
        written[t].emplace_back(*region, size);
        if (i % 16 == 0) {
          ASSERT_TRUE((*store)->Sync({region->segment}).ok());
        }
        const auto& [old, old_size] = written[t][random() % written[t].size()];
        ASSERT_EQ(*(*store)->Read(old), std::string(old_size, static_cast<char>('a' + t)));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  store->reset();
  store = SegmentStore::Open(RealFileSystem(), dir, limits);
  ASSERT_TRUE(store.ok());
  for (int t = 0; t < kThreads; ++t) {
    for (const auto& [region, size] : written[t]) {
      ASSERT_EQ(*(*store)->Read(region), std::string(size, static_cast<char>('a' + t)));
    }
  }
  for (const SegmentInfo& info : (*store)->List()) ASSERT_TRUE((*store)->Delete(info.id).ok());
}

}  // namespace
}  // namespace tandem
