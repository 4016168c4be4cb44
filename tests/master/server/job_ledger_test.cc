// The ledger against accounts worked out by hand.
#include "master/server/job_ledger.h"

#include <string>

#include "gtest/gtest.h"

namespace tandem::master {
namespace {

class TwoGroups final : public WorkerLooks {
 public:
  WorkerLook LookAt(WorkerId worker, v1::DeviceKind device) const override {
    return {.name = "w" + std::to_string(worker.value()),
            .groups = 2,
            .device = device == v1::DEVICE_KIND_UNSPECIFIED && known ? v1::DEVICE_CPU : device};
  }
  bool known = true;
};

constexpr uint64_t kMilli = 1'000'000;

class JobLedgerTest : public ::testing::Test {
 protected:
  MonoTime At(int64_t millis) const { return MonoTime::FromNanos(1'000 + millis * 1'000'000); }
  void Become(int64_t millis, JobState state, WaitReason wait = WaitReason::kNone) {
    JobStatus status;
    status.job = job_;
    status.state = state;
    status.wait_reason = wait;
    ledger_.Became(status, At(millis));
  }
  v1::JobUsage Body(uint64_t millis, uint64_t tasks = 1) const {
    v1::JobUsage usage;
    usage.set_job(job_.value());
    usage.set_device(v1::DEVICE_CPU);
    usage.mutable_usage()->set_body_ns(millis * kMilli);
    usage.mutable_usage()->set_tasks(tasks);
    return usage;
  }

  TwoGroups looks_;
  JobLedger ledger_{&looks_};
  const JobId job_{7};
  const WorkerId a_{1}, b_{2};
};

TEST_F(JobLedgerTest, TimeGoesToTheStateAndTheWaitItWasSpentIn) {
  ledger_.Accepted(job_, At(0));
  Become(10, JobState::kPending, WaitReason::kNoWorker);
  Become(40, JobState::kPending, WaitReason::kPriority);
  Become(50, JobState::kRunning);
  Become(150, JobState::kMerging);
  Become(170, JobState::kSucceeded);
  v1::JobAccount account;
  ASSERT_TRUE(account.ParseFromString(ledger_.Close(job_, At(170))));
  EXPECT_EQ(account.pending_ns(), 50 * kMilli);
  EXPECT_EQ(account.running_ns(), 100 * kMilli);
  EXPECT_EQ(account.merging_ns(), 20 * kMilli);
  ASSERT_EQ(account.waits_size(), 2);
  EXPECT_EQ(account.waits(0).reason(), v1::NO_WORKER);  // the longest first
  EXPECT_EQ(account.waits(0).ns(), 30 * kMilli);
  EXPECT_EQ(account.waits(1).reason(), v1::PRIORITY);
  EXPECT_EQ(account.waits(1).ns(), 10 * kMilli);
  EXPECT_FALSE(account.partial());
}

TEST_F(JobLedgerTest, AWorkersTimeForOthersIsToldApart) {
  ledger_.Accepted(job_, At(0));
  v1::JobUsage stranger = Body(1000);
  stranger.set_job(99);
  ledger_.Used(a_, stranger, At(1));  // before this job came: not counted against it
  ledger_.Granted(job_, a_, 4, At(10));
  ledger_.Used(a_, Body(30, 3), At(50));
  stranger.mutable_usage()->set_body_ns(20 * kMilli);
  ledger_.Used(a_, stranger, At(60));
  ledger_.Used(a_, Body(5, 1), At(70));
  const v1::JobAccount account = *ledger_.Find(job_, At(80));
  ASSERT_EQ(account.workers_size(), 1);
  const v1::WorkerUsage& worker = account.workers(0);
  EXPECT_EQ(worker.name(), "w1");
  EXPECT_EQ(worker.groups(), 2u);
  EXPECT_EQ(worker.leases(), 4u);
  EXPECT_EQ(worker.usage().body_ns(), 35 * kMilli);
  EXPECT_EQ(worker.usage().tasks(), 4u);
  EXPECT_EQ(worker.other_ns(), 20 * kMilli);
  EXPECT_EQ(worker.first_ns(), 10 * kMilli);
  EXPECT_EQ(worker.last_ns(), 70 * kMilli);
}

TEST_F(JobLedgerTest, WhatTheJobHasOnAnotherDeviceOfTheWorkerIsNotAnotherJobs) {
  ledger_.Accepted(job_, At(0));
  ledger_.Granted(job_, a_, 4, At(10));
  ledger_.Used(a_, Body(30, 3), At(50));
  v1::JobUsage elsewhere = Body(40, 5);
  elsewhere.set_device(v1::DEVICE_EMULATED);
  ledger_.Used(a_, elsewhere, At(60));
  ledger_.Used(a_, Body(5, 1), At(70));
  const v1::JobAccount account = *ledger_.Find(job_, At(80));
  ASSERT_EQ(account.workers_size(), 2);
  for (const v1::WorkerUsage& line : account.workers()) EXPECT_EQ(line.other_ns(), 0u);
}

TEST_F(JobLedgerTest, LeasesAndLeavesOfAWorkerStandOnTheFirstOfItsLines) {
  ledger_.Accepted(job_, At(0));
  ledger_.Granted(job_, a_, 4, At(10));
  ledger_.Used(a_, Body(30, 3), At(50));
  v1::JobUsage elsewhere = Body(400, 5);
  elsewhere.set_device(v1::DEVICE_EMULATED);
  ledger_.Used(a_, elsewhere, At(60));
  const WorkerId b(a_.value() + 1);
  ledger_.Granted(job_, b, 1, At(20));
  ledger_.Used(b, Body(100), At(60));
  ledger_.Granted(job_, a_, 2, At(65));
  Report report;
  Commit& commit = report.commits.emplace_back();
  commit.job = job_;
  commit.runs = {{1, {0, 5}}};
  report.returns.push_back({job_, {3, {7, 4}}});
  ledger_.Reported(a_, report, At(70));
  const v1::JobAccount account = *ledger_.Find(job_, At(80));
  ASSERT_EQ(account.workers_size(), 3);
  const v1::WorkerUsage& first = account.workers(0);
  EXPECT_EQ(first.worker(), a_.value());
  EXPECT_EQ(first.device(), v1::DEVICE_CPU);
  EXPECT_EQ(first.leases(), 6u);
  EXPECT_EQ(first.leaves(), 5u);
  EXPECT_EQ(first.returned_leaves(), 4u);
  const v1::WorkerUsage& second = account.workers(1);
  EXPECT_EQ(second.worker(), a_.value());  // beside the other, though b was busier than one of them
  EXPECT_EQ(second.device(), v1::DEVICE_EMULATED);
  EXPECT_EQ(second.leases() + second.leaves() + second.returned_leaves(), 0u);
  EXPECT_EQ(second.first_ns(), 10 * kMilli);  // from the worker's first grant
  EXPECT_EQ(account.workers(2).worker(), b.value());
}

TEST_F(JobLedgerTest, AWorkerWhoseDevicesBecomeKnownAfterItsFirstLeaseHasOneLine) {
  ledger_.Accepted(job_, At(0));
  looks_.known = false;
  ledger_.Granted(job_, a_, 4, At(10));
  looks_.known = true;
  ledger_.Used(a_, Body(30, 3), At(50));
  ledger_.Granted(job_, a_, 2, At(60));
  const v1::JobAccount account = *ledger_.Find(job_, At(80));
  ASSERT_EQ(account.workers_size(), 1);
  EXPECT_EQ(account.workers(0).device(), v1::DEVICE_CPU);
  EXPECT_EQ(account.workers(0).leases(), 6u);
  EXPECT_EQ(account.workers(0).usage().tasks(), 3u);
}

TEST_F(JobLedgerTest, ReportsCountLeavesReturnsAndCrashes) {
  ledger_.Accepted(job_, At(0));
  ledger_.Granted(job_, a_, 1, At(0));
  Report report;
  Commit& mine = report.commits.emplace_back();
  mine.job = job_;
  mine.runs = {{1, {0, 5}}, {2, {5, 2}}};
  report.returns.push_back({job_, {3, {7, 4}}});
  Crash& crash = report.crashes.emplace_back();
  crash.job = job_;
  crash.run = {4, {11, 1}};
  Commit& strangers = report.commits.emplace_back();
  strangers.job = JobId(99);
  strangers.runs = {{9, {0, 100}}};
  ledger_.Reported(a_, report, At(5));
  const v1::JobAccount account = *ledger_.Find(job_, At(5));
  EXPECT_EQ(account.workers(0).leaves(), 7u);
  EXPECT_EQ(account.workers(0).returned_leaves(), 4u);
  EXPECT_EQ(account.crashes(), 1u);
}

TEST_F(JobLedgerTest, WhatIsClosedOutlivesTheLedgerAsBytes) {
  ledger_.Accepted(job_, At(0));
  ledger_.Granted(job_, a_, 1, At(1));
  ledger_.Used(a_, Body(3), At(4));
  ledger_.CommitWaited(job_, absl::Milliseconds(2));
  ledger_.CommitWaited(job_, absl::Milliseconds(5));
  Become(4, JobState::kRunning);
  const std::string bytes = ledger_.Close(job_, At(9));
  ledger_.Used(a_, Body(100), At(10));  // too late to count
  JobLedger other(&looks_);
  other.Restore(job_, bytes);
  const v1::JobAccount account = *other.Find(job_, At(0));
  EXPECT_EQ(account.workers(0).usage().body_ns(), 3 * kMilli);
  EXPECT_EQ(account.commits(), 2u);
  EXPECT_EQ(account.commit_wait_ns(), 7 * kMilli);
  EXPECT_EQ(account.commit_wait_max_ns(), 5 * kMilli);
  EXPECT_EQ(account.running_ns(), 5 * kMilli);
  EXPECT_EQ(ledger_.Ended(job_), bytes);
  other.Forget(job_);
  EXPECT_FALSE(other.Find(job_, At(0)).has_value());
}

TEST_F(JobLedgerTest, AJobFromBeforeARestartSaysThatItIsCountedInPart) {
  ledger_.Accepted(job_, At(1000), absl::Milliseconds(600));
  ledger_.Granted(job_, a_, 1, At(1100));
  const v1::JobAccount account = *ledger_.Find(job_, At(1100));
  EXPECT_TRUE(account.partial());
  EXPECT_EQ(account.workers(0).first_ns(), 700 * kMilli);
}

TEST_F(JobLedgerTest, BeyondTheListedWorkersAllShareOneLine) {
  ledger_.Accepted(job_, At(0));
  const uint64_t workers = JobLedger::kWorkersListed + 3;
  for (uint64_t w = 1; w <= workers; ++w) {
    ledger_.Granted(job_, WorkerId(w), 1, At(static_cast<int64_t>(w)));
    ledger_.Used(WorkerId(w), Body(100 + w), At(500));
  }
  const v1::JobAccount account = *ledger_.Find(job_, At(500));
  ASSERT_EQ(account.workers_size(), static_cast<int>(JobLedger::kWorkersListed) + 1);
  EXPECT_EQ(account.workers(0).worker(), workers);  // the busiest first
  const v1::WorkerUsage& others = account.workers(JobLedger::kWorkersListed);
  EXPECT_EQ(others.worker(), 0u);
  EXPECT_EQ(others.leases(), 3u);
  EXPECT_EQ(others.groups(), 6u);
  EXPECT_EQ(others.usage().body_ns(), (101 + 102 + 103) * kMilli);
  EXPECT_EQ(others.first_ns(), 1 * kMilli);
}

TEST_F(JobLedgerTest, LeasesAreKnownAfterTheJobsEndToThisProcessAlone) {
  ledger_.Accepted(job_, At(0));
  ledger_.Granted(job_, a_, 1, At(1));
  Report report;
  LeaseSplit split{job_, 17, 1, {0, 5}, {{0, 5}}, {}};
  split.shares = {{DeviceKind::kEmulated,
                   "emulated:E",
                   5,
                   1,
                   {},
                   absl::Milliseconds(3),
                   {},
                   {},
                   {},
                   {},
                   "copy up"}};
  report.splits.push_back(split);
  split.job = JobId(99);  // of which nothing is known
  report.splits.push_back(split);
  ledger_.Reported(a_, report, At(5));
  const std::string bytes = ledger_.Close(job_, At(9));
  const std::vector<v1::LeaseSplit> leases = ledger_.Leases(job_);
  ASSERT_EQ(leases.size(), 1u);
  EXPECT_EQ(leases[0].worker(), a_.value());
  EXPECT_EQ(leases[0].worker_name(), "w1");
  EXPECT_EQ(leases[0].ended_ns(), 5 * kMilli);
  EXPECT_EQ(leases[0].lease(), 17u);
  EXPECT_EQ(leases[0].shares(0).end_ns(), 3 * kMilli);
  EXPECT_TRUE(ledger_.Leases(JobId(99)).empty());
  JobLedger other(&looks_);
  other.Restore(job_, bytes);
  EXPECT_TRUE(other.Leases(job_).empty());
  ledger_.Forget(job_);
  EXPECT_TRUE(ledger_.Leases(job_).empty());
}

TEST_F(JobLedgerTest, UnknownJobsAndWorkersAreNoFault) {
  ledger_.Granted(job_, a_, 1, At(0));
  ledger_.Used(a_, Body(1), At(0));
  ledger_.CommitWaited(job_, absl::Seconds(1));
  EXPECT_EQ(ledger_.Close(job_, At(0)), "");
  EXPECT_FALSE(ledger_.Find(job_, At(0)).has_value());
}

}  // namespace
}  // namespace tandem::master
