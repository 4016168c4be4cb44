// The event loop when its store is full, fails, or is asked to stop.
#include "master/server/event_loop.h"

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "absl/synchronization/notification.h"
#include "common/base/error.h"
#include "common/base/reason.h"
#include "common/base/status_macros.h"
#include "gtest/gtest.h"
#include "master/server/records.h"
#include "master/store/memory_store.h"
#include "tests/master/server/bind.h"

namespace tandem::master {
namespace {

class EventLoopTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = std::filesystem::temp_directory_path() / "tandem_loop_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    dir_ = name;
    segments_ = *SegmentStore::Open(RealFileSystem(), dir_, {});
    Restart();
  }
  void TearDown() override {
    loop_.reset();
    std::filesystem::remove_all(dir_);
  }

  // Stops what runs, and goes on from the store.
  void Restart() {
    loop_.reset();
    board_ = std::make_unique<JobBoard>();
    kernels_ = std::make_unique<KernelBook>();
    LoopParts parts;
    parts.store = &store_;
    parts.segments = segments_.get();
    parts.board = board_.get();
    parts.kernels = kernels_.get();
    LoopOptions options;
    options.committer.full_disk_retry = absl::Milliseconds(5);
    options.committer.queued_batches_max = 4;
    loop_ = std::make_unique<EventLoop>(parts, options, [this](const absl::Status& status) {
      failure_ = status;
      failed_.Notify();
    });
    ASSERT_TRUE(loop_->Recover().ok());
    loop_->Start();
  }

  struct Answer {
    absl::Notification ready;
    absl::StatusOr<JobId> job;
  };
  absl::Status Submit(Answer* answer) {
    const auto accepted = AcceptedJob(1, "axis n -> v[n]:u64", {{"n", 10}}, 1);
    return loop_->Submit({.token = 0,
                          .bound = accepted->bound,
                          .request_id = "",
                          .request_hash = 0,
                          .submitted = absl::Now()},
                         [answer](absl::StatusOr<JobId> job) {
                           answer->job = std::move(job);
                           answer->ready.Notify();
                         });
  }
  // Everything queued before has been handled when it returns.
  void Settle() {
    absl::Notification handled;
    if (loop_->Call([&handled](const LoopView&) { handled.Notify(); }).ok()) {
      handled.WaitForNotification();
    }
  }

  uint64_t ReplayDifferences() {
    uint64_t differences = 0;
    absl::Notification told;
    const absl::Status asked = loop_->Call([&](const LoopView& view) {
      differences = view.replay_differences;
      told.Notify();
    });
    EXPECT_TRUE(asked.ok()) << asked;
    if (asked.ok()) told.WaitForNotification();
    return differences;
  }
  // What the last payload of the log says that the state's hash is; 0: nothing.
  uint64_t LastStateHash() {
    uint64_t hash = 0;
    const absl::Status read =
        store_.ReadFrom(1, [&](uint64_t, absl::Span<const std::string_view> records) {
          for (const std::string_view record : records) {
            RETURN_IF_ERROR(DecodeRecords(
                record, [](DecodedRecord) { return absl::OkStatus(); }, &hash));
          }
          return absl::OkStatus();
        });
    EXPECT_TRUE(read.ok()) << read;
    return hash;
  }

  std::string dir_;
  MemoryStore store_;
  std::unique_ptr<SegmentStore> segments_;
  std::unique_ptr<JobBoard> board_;
  std::unique_ptr<KernelBook> kernels_;
  absl::Notification failed_;
  absl::Status failure_;
  std::unique_ptr<EventLoop> loop_;
};

TEST_F(EventLoopTest, AnAnswerMeansThatTheStoreHasIt) {
  Answer answer;
  ASSERT_TRUE(Submit(&answer).ok());
  answer.ready.WaitForNotification();
  ASSERT_TRUE(answer.job.ok());
  EXPECT_GT(store_.HeadSeq(), 0u);
  EXPECT_TRUE(board_->Find(*answer.job).has_value());
}

TEST_F(EventLoopTest, AFullJournalAcceptsNothingNewAndGoesOnWhenThereIsRoom) {
  store_.set_write_error(
      Error(absl::StatusCode::kResourceExhausted, reason::kJournalFull, "no room"));
  Answer first;
  ASSERT_TRUE(Submit(&first).ok());
  std::vector<std::unique_ptr<Answer>> more;
  absl::Status refused;
  while (refused.ok()) {
    more.push_back(std::make_unique<Answer>());
    refused = Submit(more.back().get());
    if (!refused.ok()) more.pop_back();
  }
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReasonOf(refused), reason::kJournalFull);
  EXPECT_FALSE(first.ready.HasBeenNotified());
  EXPECT_FALSE(failed_.HasBeenNotified());
  store_.set_write_error(absl::OkStatus());
  first.ready.WaitForNotification();
  EXPECT_TRUE(first.job.ok());
  for (const auto& answer : more) {
    answer->ready.WaitForNotification();
    EXPECT_TRUE(answer->job.ok());
  }
  Answer last;
  while (!Submit(&last).ok()) Settle();
  last.ready.WaitForNotification();
  EXPECT_TRUE(last.job.ok());
}

TEST_F(EventLoopTest, AStoreThatFailsEndsTheMasterAndNothingIsPromised) {
  store_.set_write_error(Error(absl::StatusCode::kInternal, reason::kJournalIo, "the disk broke"));
  Answer answer;
  ASSERT_TRUE(Submit(&answer).ok());
  failed_.WaitForNotification();
  EXPECT_EQ(ReasonOf(failure_), reason::kJournalIo);
  loop_->Stop();
  answer.ready.WaitForNotification();
  EXPECT_FALSE(answer.job.ok());
  EXPECT_FALSE(board_->Find(JobId(1)).has_value());
}

TEST_F(EventLoopTest, WhatALongQueueCannotTakeIsRefusedAndTheRestIsHandled) {
  absl::Notification held, go_on;
  ASSERT_TRUE(loop_
                  ->Call([&](const LoopView&) {
                    held.Notify();
                    go_on.WaitForNotification();
                  })
                  .ok());
  held.WaitForNotification();  // The queue is empty, and nobody takes from it.
  const size_t queue_max = LoopOptions{}.queue_max;
  size_t called = 0;
  for (size_t i = 0; i < queue_max; ++i) {
    ASSERT_TRUE(loop_->Call([&called](const LoopView&) { ++called; }).ok()) << i;
  }
  const absl::Status refused = loop_->Call([](const LoopView&) { FAIL(); });
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReasonOf(refused), reason::kOverloaded);
  Answer answer;
  EXPECT_EQ(ReasonOf(Submit(&answer)), reason::kOverloaded);
  go_on.Notify();
  while (!Submit(&answer).ok()) {
  }
  answer.ready.WaitForNotification();
  EXPECT_TRUE(answer.job.ok());
  EXPECT_EQ(called, queue_max);
}

TEST_F(EventLoopTest, TheLogMakesTheStateThatTheMasterHadWhenItStopped) {
  Answer answer;
  ASSERT_TRUE(Submit(&answer).ok());
  answer.ready.WaitForNotification();
  EXPECT_EQ(LastStateHash(), 0u);
  loop_.reset();
  EXPECT_NE(LastStateHash(), 0u);
  Restart();
  EXPECT_TRUE(board_->Find(*answer.job).has_value());
  EXPECT_EQ(ReplayDifferences(), 0u);
}

TEST_F(EventLoopTest, AStateThatTheLogMakesOtherwiseIsCounted) {
  loop_.reset();
  RecordEncoder encoder;
  encoder.Add(WorkerDrained{"w", true}, absl::Now());
  encoder.SetStateHash(1);
  AppendBatch batch;
  batch.records.push_back({encoder.Take()});
  ASSERT_TRUE(store_.Append(*store_.CurrentEpoch(), {&batch, 1}).ok());
  Restart();
  EXPECT_EQ(ReplayDifferences(), 1u);
  Restart();  // What is there counts; it is said again.
  EXPECT_EQ(ReplayDifferences(), 1u);
}

TEST_F(EventLoopTest, StoppingAnswersEverybody) {
  Answer answer;
  ASSERT_TRUE(Submit(&answer).ok());
  loop_->Stop();
  answer.ready.WaitForNotification();
  Answer late;
  const absl::Status status = Submit(&late);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ReasonOf(status), reason::kShuttingDown);
}

}  // namespace
}  // namespace tandem::master
