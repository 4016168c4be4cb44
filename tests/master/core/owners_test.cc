// What owners ask for: submit, cancel, delete.
#include <gtest/gtest.h>

#include "common/base/error.h"
#include "tests/master/core/harness.h"

namespace tandem::master {
namespace {

class OwnersTest : public testing::Test {
 protected:
  Reply Submit(const std::string& owner, const std::string& request_id, uint64_t hash) {
    const JobBuilder builder{.tasks = 5, .owner = owner};
    h_.Step(SubmitJob{++token_, builder.Build(), request_id, hash, absl::UnixEpoch()});
    EXPECT_EQ(h_.reply().token, token_);
    const Reply reply = h_.reply();
    if (reply.result.ok()) h_.Step(JobDurable{*reply.result});
    return reply;
  }
  absl::Status Cancel(JobId job, const std::string& owner) {
    h_.Step(CancelJob{++token_, job, owner});
    return h_.reply().result.status();
  }
  absl::Status Delete(JobId job, const std::string& owner) {
    h_.Step(DeleteJob{++token_, job, owner});
    return h_.reply().result.status();
  }

  CoreHarness h_;
  RequestToken token_ = 1000;
};

TEST_F(OwnersTest, TheSameRequestMakesOneJob) {
  const JobId first = *Submit("ann", "r1", 1).result;
  EXPECT_EQ(*Submit("ann", "r1", 1).result, first);
  EXPECT_EQ(h_.core().Jobs().size(), 1u);
}

TEST_F(OwnersTest, WhatSpeaksAgainstARequestMattersOnlyTheFirstTime) {
  const JobBuilder builder{.tasks = 5, .owner = "ann"};
  const absl::Status gone = absl::NotFoundError("a blob is gone");
  const auto submit = [&](const absl::Status& objection) {
    h_.Step(SubmitJob{++token_, builder.Build(), "r1", 1, absl::UnixEpoch(), objection});
    return h_.reply().result;
  };
  EXPECT_EQ(submit(gone).status(), gone);
  EXPECT_TRUE(h_.core().Jobs().empty());
  const JobId job = *submit(absl::OkStatus());
  EXPECT_EQ(*submit(gone), job);
}

TEST_F(OwnersTest, TheSameIdWithAnotherBodyIsRefused) {
  ASSERT_TRUE(Submit("ann", "r1", 1).result.ok());
  const absl::Status status = Submit("ann", "r1", 2).result.status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(ReasonOf(status), reason::kRequestIdReused);
}

TEST_F(OwnersTest, NoWorkerHearsOfAJobWhoseNumberIsNotReserved) {
  const WorkerId w = h_.Attach("w");
  const JobBuilder builder{.tasks = 5};
  const Effects accepted = h_.Step(SubmitJob{1, builder.Build(), "", 1, absl::UnixEpoch()});
  EXPECT_TRUE(accepted.describes.empty());
  EXPECT_TRUE(h_.Take<Grant>(w).empty());
  const Effects durable = h_.Step(JobDurable{*h_.reply().result});
  EXPECT_EQ(durable.describes.size(), 1u);
  EXPECT_FALSE(h_.Take<Grant>(w).empty());
}

class NumbersTest : public OwnersTest {
 protected:
  // Its acceptance is on its way to the disk.
  JobId SubmitOnly() {
    const JobBuilder builder{.tasks = 5};
    h_.Step(SubmitJob{++token_, builder.Build(), "", 1, absl::UnixEpoch()});
    return *h_.reply().result;
  }
  bool MayRun(JobId job) { return h_.Status(job).wait_reason == WaitReason::kNoWorker; }
};

TEST_F(NumbersTest, AJobRunsWhileItsAcceptanceIsOnItsWayToTheDisk) {
  h_.Submit({.tasks = 0});
  const WorkerId w = h_.Attach("w");
  const JobId job = SubmitOnly();
  const std::vector<Grant> grants = h_.Take<Grant>(w);
  ASSERT_FALSE(grants.empty());
  h_.CommitRun(w, job, RunOf(grants[0], JobBuilder{.tasks = 5}.Build()->tree));
  EXPECT_GT(h_.Status(job).tasks_done, 0u);
  h_.Step(JobDurable{job});  // Nothing is granted twice for it.
  for (const Grant& grant : h_.Take<Grant>(w)) EXPECT_NE(grant.first_n, grants[0].first_n);
}

TEST_F(NumbersTest, ANumberThatACrashHasLostIsNotGivenAgain) {
  h_.Submit({.tasks = 0});
  const WorkerId w = h_.Attach("w");
  const JobId lost = SubmitOnly();
  ASSERT_FALSE(h_.Take<Grant>(w).empty());
  h_.RestartFromPrefix(1);
  ASSERT_FALSE(h_.core().Status(lost).has_value());
  h_.Attach("w", 1, 2048, {{lost, {0, 1}, 1, {Epoch(1), 1}}});
  EXPECT_TRUE(h_.welcome().adopted.empty());
  EXPECT_GT(SubmitOnly(), lost);
}

TEST_F(NumbersTest, AsManyJobsRunSoAsNumbersAreReserved) {
  const JobId first = h_.Submit({.tasks = 0});
  JobId last = first;
  std::vector<JobId> waiting;
  while (true) {
    last = SubmitOnly();
    if (!MayRun(last)) break;
    waiting.push_back(last);
  }
  EXPECT_EQ(waiting.size(), 32u);
  h_.Step(JobDurable{waiting.front()});  // It reserved nothing more.
  EXPECT_FALSE(MayRun(last));
  h_.Step(JobDurable{waiting.back()});
  EXPECT_TRUE(MayRun(last));
}

TEST_F(NumbersTest, ACleanStopLeavesNoNumberOut) {
  const JobId first = h_.Submit({.tasks = 0});
  h_.Close();
  h_.Restart();
  EXPECT_EQ(h_.Submit({.tasks = 0}), first.next());
}

TEST_F(OwnersTest, RequestIdsAreEachOwnersOwn) {
  const JobId first = *Submit("ann", "r1", 1).result;
  EXPECT_NE(*Submit("bob", "r1", 1).result, first);
}

TEST_F(OwnersTest, ARequestIsRememberedAcrossARestart) {
  const JobId first = *Submit("ann", "r1", 1).result;
  h_.Restart(true);
  EXPECT_EQ(*Submit("ann", "r1", 1).result, first);
}

TEST_F(OwnersTest, ACancelledJobStartsNothingMore) {
  const WorkerId w = h_.Attach("w");
  const JobId job = *Submit("ann", "", 1).result;
  const std::vector<Grant> grants = h_.Take<Grant>(w);
  ASSERT_FALSE(grants.empty());
  EXPECT_TRUE(Cancel(job, "ann").ok());
  EXPECT_EQ(h_.Status(job).state, JobState::kCancelled);
  h_.CommitRun(w, job, {grants[0].first_n, {0, 1}});
  h_.Advance(absl::Seconds(3));
  EXPECT_TRUE(h_.Take<Grant>(w).empty());
  EXPECT_EQ(h_.Status(job).tasks_done, 0u);
}

TEST_F(OwnersTest, CancellingTellsTheWorkersToDropTheJob) {
  const WorkerId w = h_.Attach("w");
  const JobId job = *Submit("ann", "", 1).result;
  const Effects effects = h_.Step(CancelJob{++token_, job, "ann"});
  ASSERT_EQ(effects.drops.size(), 1u);
  EXPECT_EQ(effects.drops[0].worker, w);
  EXPECT_TRUE(std::holds_alternative<JobCancelled>(effects.records.at(0)));
}

TEST_F(OwnersTest, CancellingTwiceIsOkAndCancellingAfterTheEndIsNot) {
  const WorkerId w = h_.Attach("w");
  const JobId job = *Submit("ann", "", 1).result;
  EXPECT_TRUE(Cancel(job, "ann").ok());
  EXPECT_TRUE(Cancel(job, "ann").ok());
  const JobBuilder empty{.tasks = 0};
  const JobId done = h_.Submit(empty);
  EXPECT_EQ(h_.Status(done).state, JobState::kSucceeded);
  EXPECT_EQ(Cancel(done, "ann").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(w.valid());
}

TEST_F(OwnersTest, AnothersJobIsNotFound) {
  const JobId job = *Submit("ann", "", 1).result;
  EXPECT_EQ(Cancel(job, "bob").code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Delete(job, "bob").code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(h_.Status(job).state, JobState::kPending);
}

TEST_F(OwnersTest, OnlyEndedJobsAreDeleted) {
  const JobId job = *Submit("ann", "r1", 1).result;
  EXPECT_EQ(Delete(job, "ann").code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(Cancel(job, "ann").ok());
  EXPECT_TRUE(Delete(job, "ann").ok());
  EXPECT_FALSE(h_.core().Status(job).has_value());
  EXPECT_NE(*Submit("ann", "r1", 1).result, job) << "its request id is free again";
}

TEST(OwnersLimitsTest, MoreJobsThanTheLimitAreRefused) {
  Options options;
  options.limits.jobs_max = 2;
  CoreHarness h(options);
  h.Submit({.tasks = 1});
  h.Submit({.tasks = 1});
  const JobBuilder builder{.tasks = 1};
  h.Step(SubmitJob{9, builder.Build(), "", 1, absl::UnixEpoch()});
  EXPECT_EQ(h.reply().result.status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(ZeroTaskTest, AMapOfNothingSucceedsAtOnceInTheSameCommit) {
  CoreHarness h;
  const JobBuilder builder{.tasks = 0};
  const Effects effects = h.Step(SubmitJob{9, builder.Build(), "", 1, absl::UnixEpoch()});
  EXPECT_TRUE(std::holds_alternative<JobEnded>(effects.records.back()));
  ASSERT_EQ(effects.statuses.size(), 1u);
  EXPECT_EQ(effects.statuses[0].state, JobState::kSucceeded);
}

}  // namespace
}  // namespace tandem::master
