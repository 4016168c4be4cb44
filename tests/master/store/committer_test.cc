#include "master/store/committer.h"

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "common/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "master/store/memory_store.h"
#include "tests/master/store/store_builders.h"

namespace tandem::master {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

SegmentExtent Bytes(uint64_t segment, uint64_t end = 100) { return {SegmentId(segment), end}; }

// Segments whose sync waits at a gate, and a record of what was synced when.
class GateSyncer final : public SegmentSyncer {
 public:
  explicit GateSyncer(Store* store) : store_(store) {}

  absl::Status Sync(absl::Span<const SegmentExtent> extents) override {
    absl::MutexLock lock(&mu_);
    ++entered_;
    for (const SegmentExtent& extent : extents) {
      synced_.push_back(extent.segment.ToString() + "@" + std::to_string(store_->HeadSeq()));
    }
    mu_.Await(absl::Condition(&open_));
    return status_;
  }
  void Close() {
    absl::MutexLock lock(&mu_);
    open_ = false;
  }
  void Open() {
    absl::MutexLock lock(&mu_);
    open_ = true;
  }
  void Fail(absl::Status status) {
    absl::MutexLock lock(&mu_);
    status_ = std::move(status);
  }
  void WaitUntilEntered(int times) {
    absl::MutexLock lock(&mu_);
    const auto reached = [&] { return entered_ >= times; };
    mu_.Await(absl::Condition(&reached));
  }
  std::vector<std::string> synced() {
    absl::MutexLock lock(&mu_);
    return synced_;
  }

 private:
  Store* const store_;
  absl::Mutex mu_;
  bool open_ = true;
  int entered_ = 0;
  absl::Status status_;
  std::vector<std::string> synced_;
};

// What the callback said, one line each: "OK 3".
class Answers {
 public:
  Committer::Callback callback() {
    return [this](const absl::Status& status, uint64_t seq) {
      absl::MutexLock lock(&mu_);
      lines_.push_back((status.ok() ? "OK" : ReasonOf(status)) + " " + std::to_string(seq));
    };
  }
  std::vector<std::string> lines() {
    absl::MutexLock lock(&mu_);
    return lines_;
  }
  void WaitFor(const std::string& line) {
    absl::MutexLock lock(&mu_);
    const auto there = [&] { return std::count(lines_.begin(), lines_.end(), line) > 0; };
    mu_.Await(absl::Condition(&there));
  }

 private:
  absl::Mutex mu_;
  std::vector<std::string> lines_;
};

class CommitterTest : public ::testing::Test {
 protected:
  CommitterTest() : syncer_(&store_), epoch_(*store_.RaiseEpoch()) {
    limits_.full_disk_retry = absl::Milliseconds(1);
    Start();
  }
  void Start() {
    committer_ =
        std::make_unique<Committer>(&store_, epoch_, &syncer_, limits_, answers_.callback());
  }
  uint64_t Commit(const std::string& payload, std::vector<SegmentExtent> dirty = {},
                  std::vector<JobRow> history = {}) {
    const auto seq = committer_->Commit(Records({payload}), std::move(dirty));
    EXPECT_TRUE(seq.ok()) << seq.status();
    if (!history.empty()) committer_->Project(seq.value_or(0), std::move(history));
    return seq.value_or(0);
  }
  static JobRow Job(uint64_t id, uint64_t done) {
    JobRow row;
    row.id = JobId(id);
    row.done = done;
    return row;
  }

  MemoryStore store_;
  GateSyncer syncer_;
  Epoch epoch_;
  CommitterLimits limits_;
  Answers answers_;
  std::unique_ptr<Committer> committer_;
};

TEST_F(CommitterTest, ABatchIsDurableWhenTheCallbackSaysItsNumber) {
  EXPECT_EQ(Commit("a"), 1u);
  answers_.WaitFor("OK 1");
  EXPECT_THAT(LogOf(store_), ElementsAre("1:a"));
}

TEST_F(CommitterTest, NumbersGoOnFromTheStoresHead) {
  EXPECT_EQ(Commit("a"), 1u);
  committer_.reset();
  Start();
  EXPECT_EQ(Commit("b"), 2u);
  ASSERT_TRUE(committer_->Flush().ok());
  EXPECT_THAT(LogOf(store_), ElementsAre("1:a", "2:b"));
}

TEST_F(CommitterTest, WhatArrivesDuringASyncIsOneGroupWithOneAnswer) {
  syncer_.Close();
  Commit("a", {Bytes(1)});
  syncer_.WaitUntilEntered(1);
  for (const char* text : {"b", "c", "d"}) Commit(text, {Bytes(2)});
  EXPECT_THAT(answers_.lines(), IsEmpty());
  syncer_.Open();
  ASSERT_TRUE(committer_->Flush().ok());
  EXPECT_THAT(answers_.lines(), ElementsAre("OK 1", "OK 4"));
  EXPECT_EQ(committer_->Stats().groups, 2u);
  EXPECT_EQ(committer_->Stats().batches, 4u);
}

TEST_F(CommitterTest, SegmentsAreSyncedOnceAGroupBeforeTheRecordThatNamesThem) {
  syncer_.Close();
  Commit("a", {Bytes(1)});
  syncer_.WaitUntilEntered(1);
  Commit("b", {Bytes(2), Bytes(1)});
  Commit("c", {Bytes(2)});
  syncer_.Open();
  ASSERT_TRUE(committer_->Flush().ok());
  EXPECT_THAT(syncer_.synced(), ElementsAre("1@0", "1@1", "2@1"));
}

TEST_F(CommitterTest, ASlowDiskDoesNotHoldUpTheCallerAndAFullQueueIsNamed) {
  limits_.queued_batches_max = 3;
  committer_.reset();
  Start();
  syncer_.Close();
  Commit("in progress", {Bytes(1)});
  syncer_.WaitUntilEntered(1);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(committer_->HasRoom());
    Commit("queued");
  }
  EXPECT_FALSE(committer_->HasRoom());
  for (int i = 0; i < 3; ++i) Commit("of the caller's own");
  const absl::Status refused = committer_->Commit(Records({"too much"}), {}).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReasonOf(refused), reason::kOverloaded);
  syncer_.Open();
  ASSERT_TRUE(committer_->Flush().ok());
  EXPECT_EQ(Commit("again"), 8u);
}

TEST_F(CommitterTest, TheQueueIsBoundedInBytesToo) {
  limits_.queued_bytes_max = 10000;
  committer_.reset();
  Start();
  syncer_.Close();
  Commit("in progress", {Bytes(1)});
  syncer_.WaitUntilEntered(1);
  Commit(std::string(10000, 'x'));
  EXPECT_FALSE(committer_->HasRoom());
  syncer_.Open();
}

TEST_F(CommitterTest, AGroupIsBoundedInBytes) {
  limits_.group_bytes_max = 1000;
  committer_.reset();
  Start();
  syncer_.Close();
  Commit("first", {Bytes(1)});
  syncer_.WaitUntilEntered(1);
  for (int i = 0; i < 4; ++i) Commit(std::string(600, 'x'));
  syncer_.Open();
  ASSERT_TRUE(committer_->Flush().ok());
  EXPECT_THAT(answers_.lines(), ElementsAre("OK 1", "OK 3", "OK 5"));
}

TEST_F(CommitterTest, AFullDiskIsSaidOnceAndNothingIsLostWhenThereIsRoomAgain) {
  Commit("a");
  ASSERT_TRUE(committer_->Flush().ok());
  store_.set_write_error(
      Error(absl::StatusCode::kResourceExhausted, reason::kJournalFull, "no room"));
  Commit("b");
  answers_.WaitFor("JOURNAL_FULL 1");
  EXPECT_EQ(Commit("c"), 3u);
  EXPECT_EQ(ReasonOf(committer_->Flush()), reason::kJournalFull);
  while (committer_->Stats().full_disk_retries < 5) std::this_thread::yield();
  store_.set_write_error(absl::OkStatus());
  answers_.WaitFor("OK 3");
  EXPECT_THAT(answers_.lines(), ElementsAre("OK 1", "JOURNAL_FULL 1", "OK 2", "OK 3"));
  EXPECT_THAT(LogOf(store_), ElementsAre("1:a", "2:b", "3:c"));
}

TEST_F(CommitterTest, ACommitterWhoseDiskIsFullCanBeDestroyed) {
  store_.set_write_error(
      Error(absl::StatusCode::kResourceExhausted, reason::kJournalFull, "no room"));
  Commit("a");
  answers_.WaitFor("JOURNAL_FULL 0");
  committer_.reset();
  EXPECT_EQ(store_.HeadSeq(), 0u);
}

TEST_F(CommitterTest, ADiskErrorStopsItForGood) {
  Commit("a");
  ASSERT_TRUE(committer_->Flush().ok());
  store_.set_write_error(Error(absl::StatusCode::kInternal, reason::kJournalIo, "broken"));
  Commit("b");
  answers_.WaitFor("JOURNAL_IO 1");
  store_.set_write_error(absl::OkStatus());
  EXPECT_EQ(ReasonOf(committer_->Flush()), reason::kJournalIo);
  EXPECT_EQ(ReasonOf(committer_->Commit(Records({"c"}), {}).status()), reason::kJournalIo);
  committer_.reset();
  EXPECT_THAT(LogOf(store_), ElementsAre("1:a"));
}

TEST_F(CommitterTest, AFailedSegmentSyncStopsItBeforeTheRecord) {
  syncer_.Fail(Error(absl::StatusCode::kInternal, reason::kStoreFailed, "segment lost"));
  Commit("a", {Bytes(1)});
  answers_.WaitFor("STORE_FAILED 0");
  EXPECT_EQ(store_.HeadSeq(), 0u);
}

TEST_F(CommitterTest, AnotherMastersEpochStopsIt) {
  ASSERT_TRUE(store_.RaiseEpoch().ok());
  Commit("a");
  answers_.WaitFor("STALE_EPOCH 0");
  EXPECT_EQ(store_.HeadSeq(), 0u);
}

TEST_F(CommitterTest, TheDestructorCommitsWhatIsQueued) {
  syncer_.Close();
  Commit("a", {Bytes(1)});
  syncer_.WaitUntilEntered(1);
  Commit("b", {}, {Job(1, 5)});
  syncer_.Open();
  committer_.reset();
  EXPECT_THAT(LogOf(store_), ElementsAre("1:a", "2:b"));
  EXPECT_EQ(store_.FindJob(JobId(1))->done, 5u);
}

TEST_F(CommitterTest, HistoryFollowsItsBatchAndTheLaterRowCounts) {
  syncer_.Close();
  JobRow first = Job(1, 10);
  first.spec = "spec";
  Commit("a", {Bytes(1)}, {first});
  syncer_.WaitUntilEntered(1);
  EXPECT_FALSE(store_.FindJob(JobId(1)).ok());  // Its batch is not durable yet.
  Commit("b", {}, {Job(1, 20), Job(2, 1)});
  syncer_.Open();
  ASSERT_TRUE(committer_->Flush().ok());
  EXPECT_EQ(store_.FindJob(JobId(1))->done, 20u);
  EXPECT_EQ(store_.FindJob(JobId(1))->spec, "spec");
  EXPECT_EQ(store_.FindJob(JobId(2))->done, 1u);
  EXPECT_EQ(*store_.ProjectedSeq(), 2u);
}

TEST_F(CommitterTest, ASnapshotWaitsForItsBatchAndForHistory) {
  syncer_.Close();
  Commit("a", {Bytes(1)}, {Job(1, 1)});
  committer_->SaveSnapshot(1, "state of 1");
  syncer_.WaitUntilEntered(1);
  EXPECT_EQ(*store_.LoadSnapshot(), std::nullopt);
  syncer_.Open();
  ASSERT_TRUE(committer_->Flush().ok());
  EXPECT_EQ((*store_.LoadSnapshot())->bytes, "state of 1");
  EXPECT_EQ(*store_.ProjectedSeq(), 1u);
  EXPECT_EQ(store_.Verify()->commits, 0u);
}

TEST_F(CommitterTest, BatchesOfManyThreadsStandInTheLogUnderTheirNumbers) {
  constexpr int kThreads = 4;
  std::vector<std::vector<std::string>> expected(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        const std::string payload = std::to_string(t) + "." + std::to_string(i);
        const auto seq = committer_->Commit(Records({payload}), {Bytes(1)});
        ASSERT_TRUE(seq.ok());
        expected[t].push_back(std::to_string(*seq) + ":" + payload);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(committer_->Flush().ok());
  const std::vector<std::string> log = LogOf(store_);
  std::vector<std::string> all;
  for (const auto& lines : expected) all.insert(all.end(), lines.begin(), lines.end());
  EXPECT_THAT(log, ::testing::UnorderedElementsAreArray(all));
  EXPECT_EQ(answers_.lines().back(), "OK 800");
}

}  // namespace
}  // namespace tandem::master
