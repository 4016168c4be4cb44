// Workers that come, go, fall silent and come back; and masters that restart.
#include <gtest/gtest.h>

#include "common/base/error.h"
#include "tests/master/core/harness.h"

namespace tandem::master {
namespace {

class WorkersTest : public testing::Test {
 protected:
  // A worker with a grant of one job.
  void Start() {
    w_ = h_.Attach("w");
    job_ = h_.Submit({.tasks = 100});
    const std::vector<Grant> grants = h_.Take<Grant>(w_);
    ASSERT_FALSE(grants.empty());
    grant_ = grants[0];
    held_ = {job_, {grant_.first_leaf, 1}, grant_.attempt, {Epoch(1), grant_.first_n}};
  }
  WorkerView::Phase PhaseOf(WorkerId id) {
    for (const WorkerView& view : h_.core().Workers()) {
      if (view.id == id) return view.phase;
    }
    ADD_FAILURE() << "no worker " << id;
    return WorkerView::Phase::kLost;
  }
  absl::StatusCode AnswerCode() { return h_.reply().result.status().code(); }

  CoreHarness h_;
  WorkerId w_;
  JobId job_;
  Grant grant_;
  HeldLeaves held_;
};

TEST_F(WorkersTest, ASilentWorkerIsLostAfterTheLeaseTime) {
  Start();
  h_.Advance(absl::Milliseconds(4990));
  EXPECT_EQ(PhaseOf(w_), WorkerView::Phase::kAttached);
  const Effects effects = h_.Advance(absl::Milliseconds(20));
  EXPECT_EQ(PhaseOf(w_), WorkerView::Phase::kLost);
  ASSERT_EQ(effects.ends.size(), 1u) << "if it lives, it shall attach anew";
  EXPECT_EQ(effects.ends[0].worker, w_);
  EXPECT_EQ(ReasonOf(effects.ends[0].why), reason::kStaleLease);
  EXPECT_EQ(h_.Status(job_).wait_reason, WaitReason::kNoWorker);
}

TEST_F(WorkersTest, APulseRenewsEveryLease) {
  Start();
  for (int i = 0; i < 20; ++i) {
    h_.Advance(absl::Seconds(4));
    h_.Pulse(w_);
  }
  EXPECT_EQ(PhaseOf(w_), WorkerView::Phase::kAttached);
  h_.CommitRun(w_, job_, {grant_.first_n, {grant_.first_leaf, 1}});
  EXPECT_EQ(h_.Status(job_).tasks_done, 1u);
}

TEST_F(WorkersTest, ReattachingInTimeKeepsWhatIsHeldUnderNewNumbers) {
  Start();
  h_.Detach(w_);
  h_.Advance(absl::Milliseconds(500));
  ASSERT_EQ(h_.Attach("w", 1, 2048, {held_}), w_);
  ASSERT_EQ(h_.welcome().adopted.size(), 1u);
  const Grant adopted = h_.welcome().adopted[0];
  EXPECT_EQ(adopted.first_leaf, grant_.first_leaf);
  EXPECT_EQ(adopted.attempt, 1u) << "the same run goes on";
  EXPECT_GT(adopted.first_n, grant_.first_n);
  EXPECT_EQ(h_.welcome().jobs, std::vector<JobId>{job_});
  h_.CommitRun(w_, job_, {grant_.first_n, {grant_.first_leaf, 1}});
  EXPECT_EQ(h_.Status(job_).tasks_done, 0u) << "the old lease is void";
  h_.CommitRun(w_, job_, {adopted.first_n, {grant_.first_leaf, 1}});
  EXPECT_EQ(h_.Status(job_).tasks_done, 1u);
}

TEST_F(WorkersTest, WhatAWorkerDoesNotHoldAnyMoreRunsAgainWithALargerAttempt) {
  Start();
  h_.Detach(w_);
  ASSERT_EQ(h_.Attach("w"), w_);
  const std::vector<Grant> grants = h_.Take<Grant>(w_);
  ASSERT_FALSE(grants.empty());
  EXPECT_EQ(grants[0].first_leaf, grant_.first_leaf);
  EXPECT_EQ(grants[0].attempt, 2u);
}

TEST_F(WorkersTest, ANameInUseIsRefusedUnlessItIsTheSameProcess) {
  Start();
  EXPECT_FALSE(h_.Attach("w", 1, 2048, {}, /*incarnation=*/2).valid());
  EXPECT_EQ(AnswerCode(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(ReasonOf(h_.reply().result.status()), reason::kWorkerNameInUse);
  EXPECT_EQ(h_.Attach("w", 1, 2048, {held_}, /*incarnation=*/1), w_);
}

TEST_F(WorkersTest, AWorkerThatObeyedALaterMasterIsRefused) {
  WorkerAttach attach;
  attach.token = 77;
  attach.name = "w";
  attach.max_epoch = 2;
  h_.Step(attach);
  EXPECT_EQ(h_.reply().token, 77u);
  EXPECT_EQ(AnswerCode(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(h_.reply().result.status()), reason::kStaleEpoch);
  EXPECT_TRUE(h_.journal().empty());
}

TEST_F(WorkersTest, ANamelessWorkerIsRefused) {
  EXPECT_FALSE(h_.Attach("").valid());
  EXPECT_EQ(AnswerCode(), absl::StatusCode::kInvalidArgument);
}

TEST_F(WorkersTest, TheEndOfAnOldStreamChangesNothing) {
  Start();
  const Effects before = h_.Detach(w_);
  ASSERT_EQ(h_.Attach("w", 1, 2048, {held_}), w_);
  h_.Step(WorkerDetached{w_, /*stream=*/1});
  EXPECT_EQ(PhaseOf(w_), WorkerView::Phase::kAttached);
}

TEST_F(WorkersTest, ADrainedWorkerIsGivenNothingUntilItResumes) {
  w_ = h_.Attach("w");
  const Effects effects = h_.Step(DrainWorker{5, w_, true, ""});
  ASSERT_EQ(effects.drains.size(), 1u);
  EXPECT_TRUE(effects.drains[0].drain);
  job_ = h_.Submit({.tasks = 10});
  EXPECT_TRUE(h_.Take<Grant>(w_).empty());
  EXPECT_EQ(h_.Status(job_).wait_reason, WaitReason::kDrained);
  h_.Step(DrainWorker{6, w_, false, ""});
  EXPECT_FALSE(h_.Take<Grant>(w_).empty());
  EXPECT_EQ(h_.Status(job_).wait_reason, WaitReason::kNone);
}

TEST_F(WorkersTest, ADrainedWorkerStaysDrainedWhenItComesBack) {
  w_ = h_.Attach("w");
  h_.Step(DrainWorker{5, w_, true, ""});
  h_.Detach(w_);
  ASSERT_EQ(h_.Attach("w"), w_);
  job_ = h_.Submit({.tasks = 10});
  EXPECT_TRUE(h_.Take<Grant>(w_).empty());
}

TEST_F(WorkersTest, DrainingAStrangerIsNotFound) {
  h_.Step(DrainWorker{5, WorkerId(99), true, ""});
  EXPECT_EQ(AnswerCode(), absl::StatusCode::kNotFound);
  h_.Step(DrainWorker{5, WorkerId(), true, "nobody"});
  EXPECT_EQ(AnswerCode(), absl::StatusCode::kNotFound);
  h_.Step(DrainWorker{5, WorkerId(), false, "nobody"});
  EXPECT_EQ(AnswerCode(), absl::StatusCode::kNotFound);
}

TEST_F(WorkersTest, ADrainOutlivesAMasterFromItsLogAndFromASnapshotOfIt) {
  for (const bool from_snapshot : {false, true}) {
    SCOPED_TRACE(from_snapshot);
    CoreHarness h;
    h.Attach("w");
    h.Step(DrainWorker{5, WorkerId(), true, "w"});
    h.Restart(from_snapshot);
    ASSERT_EQ(h.core().Workers().size(), 1u);
    EXPECT_TRUE(h.core().Workers()[0].draining);
    const WorkerId w = h.Attach("w");
    const JobId job = h.Submit({.tasks = 10});
    EXPECT_TRUE(h.Take<Grant>(w).empty());
    EXPECT_EQ(h.Status(job).wait_reason, WaitReason::kDrained);
    h.Step(DrainWorker{6, w, false, ""});
    EXPECT_FALSE(h.Take<Grant>(w).empty());
    h.Restart(from_snapshot);
    EXPECT_FALSE(h.core().Workers()[0].draining);
  }
}

TEST_F(WorkersTest, ADrainHoldsForAWorkerThatLeavesAndComesBackUnderItsName) {
  w_ = h_.Attach("w");
  h_.Step(DrainWorker{5, w_, true, ""});
  h_.Step(WorkerLeft{w_});
  w_ = h_.Attach("w");
  job_ = h_.Submit({.tasks = 10});
  EXPECT_TRUE(h_.Take<Grant>(w_).empty());
  h_.Step(WorkerLeft{w_});
  // It can be resumed while it is away.
  h_.Step(DrainWorker{6, WorkerId(), false, "w"});
  EXPECT_TRUE(h_.reply().result.ok());
  w_ = h_.Attach("w");
  EXPECT_FALSE(h_.Take<Grant>(w_).empty());
}

TEST_F(WorkersTest, ASecondDrainChangesAndJournalsNothing) {
  w_ = h_.Attach("w");
  EXPECT_EQ(h_.Step(DrainWorker{5, w_, true, ""}).records.size(), 1u);
  const Effects again = h_.Step(DrainWorker{6, w_, true, ""});
  EXPECT_TRUE(again.records.empty());
  EXPECT_TRUE(again.drains.empty());
  EXPECT_EQ(AnswerCode(), absl::StatusCode::kOk);
}

TEST_F(WorkersTest, AJobsAtViewSaysWhyAWorkerGetsNothing) {
  w_ = h_.Attach("w");
  job_ = h_.Submit({.tasks = 4});
  const std::vector<JobAtWorkerView> jobs = h_.core().JobsAt(w_, 10);
  ASSERT_EQ(jobs.size(), 1u);
  EXPECT_EQ(jobs[0].job, job_);
  EXPECT_GT(jobs[0].leaves, 0u);
  EXPECT_EQ(jobs[0].fit, JobAtWorkerView::Fit::kFits);
  EXPECT_FALSE(jobs[0].note.empty());
  const JobId gpu_job = h_.Submit({.tasks = 4, .device = DeviceChoice::kGpu});
  const std::vector<JobAtWorkerView> both = h_.core().JobsAt(w_, 10);
  ASSERT_EQ(both.size(), 2u);
  for (const JobAtWorkerView& view : both) {
    if (view.job != gpu_job) continue;
    EXPECT_EQ(view.fit, JobAtWorkerView::Fit::kNoDevice);
  }
  EXPECT_EQ(h_.core().JobsAt(w_, 1).size(), 1u);
  EXPECT_TRUE(h_.core().JobsAt(WorkerId(77), 10).empty());
}

TEST_F(WorkersTest, AfterAGoodbyeTheWorkerIsForgottenAndItsNumberIsNotGivenAgain) {
  Start();
  h_.Step(WorkerLeft{w_});
  EXPECT_TRUE(h_.core().Workers().empty());
  EXPECT_GT(h_.Attach("w"), w_);
}

TEST_F(WorkersTest, APausedMasterGivesItsWorkersAnotherMoment) {
  Start();
  // No Tick for a minute: the master stood still. The first event after that is a Tick.
  CoreHarness& h = h_;
  Effects effects;
  const MonoTime later = h.now() + absl::Minutes(1);
  h.core().Step(Tick{}, later, &effects);
  EXPECT_EQ(PhaseOf(w_), WorkerView::Phase::kAttached);
  h.core().Step(WorkerPulsed{w_, absl::Milliseconds(1)}, later, &effects);
  h.core().Step(Tick{}, later + absl::Seconds(2), &effects);
  EXPECT_EQ(PhaseOf(w_), WorkerView::Phase::kAttached);
}

class RestartTest : public WorkersTest, public testing::WithParamInterface<bool> {
 protected:
  void Restart() { h_.Restart(/*from_snapshot=*/GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(LogOrSnapshot, RestartTest, testing::Bool(),
                         [](const auto& param) { return param.param ? "Snapshot" : "Log"; });

TEST_P(RestartTest, WhatAWorkerHeldIsLeasedToItAgain) {
  Start();
  Restart();
  ASSERT_EQ(h_.Attach("w", 1, 2048, {held_}), w_);
  ASSERT_EQ(h_.welcome().adopted.size(), 1u);
  EXPECT_EQ(h_.welcome().epoch, Epoch(2));
  h_.CommitRun(w_, job_, {h_.welcome().adopted[0].first_n, {grant_.first_leaf, 1}});
  EXPECT_EQ(h_.Status(job_).tasks_done, 1u);
}

TEST_P(RestartTest, UnclaimedLeavesWaitForTheWorkersThatMayHoldThem) {
  Start();
  Restart();
  const WorkerId other = h_.Attach("other");
  EXPECT_TRUE(h_.Take<Grant>(other).empty());
  const JobId fresh = h_.Submit({.tasks = 1});
  const std::vector<Grant> grants = h_.Take<Grant>(other);
  ASSERT_EQ(grants.size(), 1u) << "new jobs start at once";
  EXPECT_EQ(grants[0].job, fresh);
  h_.CommitRun(other, fresh, {grants[0].first_n, {0, 1}});
  ASSERT_EQ(h_.Attach("w", 1, 2048, {held_}), w_);
  bool old_job = false;
  for (const Grant& grant : h_.Take<Grant>(other)) {
    old_job = true;
    EXPECT_NE(grant.first_leaf, held_.leaves.first);
  }
  EXPECT_TRUE(old_job) << "all are back: the rest is handed out";
}

TEST_P(RestartTest, AfterTheLeaseTimeNobodyIsWaitedFor) {
  Start();
  Restart();
  const WorkerId other = h_.Attach("other");
  for (int i = 0; i < 6; ++i) {
    h_.Advance(absl::Seconds(1));
    h_.Pulse(other);
  }
  const std::vector<Grant> grants = h_.Take<Grant>(other);
  ASSERT_FALSE(grants.empty());
  EXPECT_EQ(grants[0].job, job_);
  EXPECT_EQ(PhaseOf(w_), WorkerView::Phase::kLost);
}

TEST_P(RestartTest, FinishedLeavesStayFinished) {
  Start();
  h_.CommitRun(w_, job_, {grant_.first_n, {grant_.first_leaf, 1}});
  Restart();
  EXPECT_EQ(h_.Status(job_).tasks_done, 1u);
  held_.leaves = {grant_.first_leaf, 1};
  h_.Attach("w", 1, 2048, {held_});
  EXPECT_TRUE(h_.welcome().adopted.empty()) << "done already";
}

TEST_P(RestartTest, OfTwoClaimsTheLargerWins) {
  Start();
  const WorkerId other = h_.Attach("other");
  Restart();
  // Both say that they hold the leaf; `other` got it later.
  HeldLeaves later = held_;
  later.lease.n += 1000;
  ASSERT_EQ(h_.Attach("w", 1, 2048, {held_}), w_);
  const Grant first = h_.welcome().adopted.at(0);
  ASSERT_EQ(h_.Attach("other", 1, 2048, {later}), other);
  ASSERT_EQ(h_.welcome().adopted.size(), 1u);
  const Grant second = h_.welcome().adopted[0];
  h_.CommitRun(w_, job_, {first.first_n, {grant_.first_leaf, 1}});
  EXPECT_EQ(h_.Status(job_).tasks_done, 0u);
  h_.CommitRun(other, job_, {second.first_n, {grant_.first_leaf, 1}});
  EXPECT_EQ(h_.Status(job_).tasks_done, 1u);
}

TEST_P(RestartTest, OfTwoClaimsTheSmallerLosesAlsoWhenItComesLast) {
  Start();
  const WorkerId other = h_.Attach("other");
  Restart();
  HeldLeaves later = held_;
  later.lease.n += 1000;
  ASSERT_EQ(h_.Attach("other", 1, 2048, {later}), other);
  ASSERT_EQ(h_.Attach("w", 1, 2048, {held_}), w_);
  EXPECT_TRUE(h_.welcome().adopted.empty());
}

TEST_P(RestartTest, ClaimsOfJobsThatEndedAreDropped) {
  Start();
  h_.Step(CancelJob{9, job_, "ann"});
  Restart();
  h_.Attach("w", 1, 2048, {held_});
  EXPECT_TRUE(h_.welcome().adopted.empty());
}

TEST_P(RestartTest, SequencesGrowAcrossTheRestart) {
  Start();
  const uint64_t before = h_.Status(job_).sequence;
  Restart();
  EXPECT_GT(h_.Status(job_).sequence, before);
}

TEST_P(RestartTest, NoIdIsGivenTwice) {
  Start();
  h_.Step(CancelJob{9, job_, "ann"});
  h_.Step(DeleteJob{10, job_, "ann"});
  h_.Step(WorkerLeft{w_});
  Restart();
  EXPECT_GT(h_.Submit({.tasks = 1}), job_);
  EXPECT_GT(h_.Attach("x"), w_);
}

}  // namespace
}  // namespace tandem::master
