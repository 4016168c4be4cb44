// Who is given what: priorities, fairness, recall, stealing, the outlook, and why a job waits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "common/base/strings.h"
#include "tests/master/core/harness.h"

namespace tandem::master {
namespace {

using testing::HasSubstr;

class SchedulingTest : public testing::Test {
 protected:
  uint64_t LeavesOf(const std::vector<Grant>& grants, JobId job) {
    uint64_t leaves = 0;
    for (const Grant& grant : grants) {
      if (grant.job == job) leaves += grant.count << grant.level;
    }
    return leaves;
  }
  // The worker runs whatever it was sent, all of it, at the speed it has measured.
  void RunAll(WorkerId w, uint64_t tasks, double tasks_per_second) {
    for (const Grant& grant : h_.Take<Grant>(w)) {
      const LeafRun run = RunOf(grant, RangeTree(tasks, 1));
      Report report;
      Commit commit;
      commit.job = grant.job;
      commit.runs = {run};
      commit.outputs = OutputOf(0);
      commit.tasks = run.leaves.count;
      commit.busy_ns =
          static_cast<uint64_t>(1e9 * static_cast<double>(run.leaves.count) / tasks_per_second);
      served_[grant.job] += run.leaves.count;
      report.commits.push_back(commit);
      h_.Report(w, report);
    }
  }

  CoreHarness h_;
  std::map<JobId, uint64_t> served_;
};

TEST_F(SchedulingTest, LargerPriorityGoesFirst) {
  const JobId low = h_.Submit({.tasks = 1000, .priority = 0});
  const JobId high = h_.Submit({.tasks = 2, .priority = 5});
  const WorkerId w = h_.Attach("w", 1, 2);
  const std::vector<Grant> grants = h_.Take<Grant>(w);
  EXPECT_EQ(LeavesOf(grants, high), 2u);
  EXPECT_EQ(LeavesOf(grants, low), 0u);
}

TEST_F(SchedulingTest, AnUrgentJobIsGrantedAtOnceAndWaitingLeavesOfOthersAreRecalled) {
  const WorkerId w = h_.Attach("w");
  h_.Rate(w, "map", 100);
  const JobId low = h_.Submit({.tasks = 100'000});
  EXPECT_GT(LeavesOf(h_.Take<Grant>(w), low), 0u);
  const JobId high = h_.Submit({.tasks = 10, .priority = 1});
  EXPECT_GT(LeavesOf(h_.Take<Grant>(w), high), 0u);
  const std::vector<Recall> recalls = h_.Take<Recall>(w);
  ASSERT_FALSE(recalls.empty());
  for (const Recall& recall : recalls) EXPECT_EQ(recall.job, low);
}

TEST_F(SchedulingTest, DevicesAddUpAndWhatAWorkerForgetsCountsNoMore) {
  const auto granted = [this](const std::vector<double>& rates, bool forgets) {
    CoreHarness h;
    const WorkerId w = h.Attach("w");
    Report report;
    for (const double rate : rates) {
      report.rates.push_back({"map", DeviceKind::kGpu, rate, 0, StrCat("cuda:GPU-", rate)});
    }
    h.Report(w, report);
    if (forgets) {
      Report forgot;
      forgot.forgot = 1;
      h.Report(w, forgot);
    }
    const JobId job = h.Submit({.tasks = 1'000'000});
    return LeavesOf(h.Take<Grant>(w), job);
  };
  const uint64_t unknown = granted({}, false);
  const uint64_t one = granted({1000}, false);
  ASSERT_LT(unknown, one);
  EXPECT_NEAR(static_cast<double>(granted({1000, 3000}, false)), 4.0 * static_cast<double>(one),
              static_cast<double>(one));
  EXPECT_EQ(granted({1000, 3000}, true), unknown);
}

TEST_F(SchedulingTest, JobsOfEqualPriorityShareTheDeviceTime) {
  const WorkerId w = h_.Attach("w");
  h_.Rate(w, "map", 1000);
  const JobId a = h_.Submit({.tasks = 100'000});
  for (int i = 0; i < 10; ++i) RunAll(w, 100'000, 1000);
  const uint64_t alone = served_[a];
  ASSERT_GT(alone, 0u);
  const JobId b = h_.Submit({.tasks = 100'000});
  for (int i = 0; i < 40; ++i) RunAll(w, 100'000, 1000);
  const double more_a = static_cast<double>(served_[a] - alone);
  const double of_b = static_cast<double>(served_[b]);
  EXPECT_NEAR(more_a / of_b, 1.0, 0.25) << "from when the second came, not before";
}

TEST_F(SchedulingTest, ManySmallJobsAreServedInOrder) {
  std::vector<JobId> jobs;
  for (int i = 0; i < 50; ++i) jobs.push_back(h_.Submit({.tasks = 1}));
  const WorkerId w = h_.Attach("w");
  h_.Rate(w, "map", 1e6);
  for (int i = 0; i < 200; ++i) RunAll(w, 1, 1e6);
  for (JobId job : jobs) EXPECT_EQ(h_.Status(job).state, JobState::kSucceeded);
}

TEST_F(SchedulingTest, TheOutlookFallsToNothingWhenAllIsHandedOut) {
  const WorkerId w = h_.Attach("w");
  h_.Rate(w, "map", 100);
  h_.Submit({.tasks = 1000});
  std::vector<Outlook> outlooks = h_.Take<Outlook>(w);
  ASSERT_FALSE(outlooks.empty());
  EXPECT_GT(outlooks.back().share_leaves, 100);
  for (int i = 0; i < 100; ++i) RunAll(w, 1000, 100);
  outlooks = h_.Take<Outlook>(w);
  ASSERT_FALSE(outlooks.empty());
  EXPECT_EQ(outlooks.back().share_leaves, 0);
}

TEST_F(SchedulingTest, AnIdleWorkerStealsUnstartedLeavesFromABusyOne) {
  const WorkerId busy = h_.Attach("busy");
  h_.Rate(busy, "map", 10);
  h_.Pulse(busy);
  const JobId job = h_.Submit({.tasks = 18});
  RunAll(busy, 18, 10);  // Now the job is measured.
  const uint64_t held = LeavesOf(h_.Take<Grant>(busy), job);
  ASSERT_GE(held, 4u);
  const WorkerId idle = h_.Attach("idle");
  h_.Rate(idle, "map", 10);
  std::vector<Recall> recalls;
  for (int i = 0; i < 40 && recalls.empty(); ++i) {
    RunAll(idle, 18, 10);  // What was still free; then the worker is idle.
    h_.Advance(absl::Milliseconds(100));
    h_.Pulse(busy);
    h_.Pulse(idle);
    recalls = h_.Take<Recall>(busy);
  }
  ASSERT_FALSE(recalls.empty());
  EXPECT_EQ(recalls[0].job, job);
  EXPECT_LT(recalls[0].leaves.count, held) << "what may have started stays";
}

TEST_F(SchedulingTest, AJobBehindAnotherOnABusyWorkerGoesToAnIdleOne) {
  const WorkerId busy = h_.Attach("busy");
  h_.Rate(busy, "map", 1e6);
  const JobId endless = h_.Submit({.tasks = 1});
  const JobId behind = h_.Submit({.tasks = 1});
  const std::vector<Grant> grants = h_.Take<Grant>(busy);
  ASSERT_EQ(LeavesOf(grants, endless) + LeavesOf(grants, behind), 2u);
  const WorkerId idle = h_.Attach("idle");
  std::map<JobId, int> recalled;
  uint64_t given = 0, again = 0;
  for (int i = 0; i < 40; ++i) {
    h_.Advance(absl::Milliseconds(100));
    h_.Pulse(busy);
    h_.Pulse(idle);
    for (const Recall& recall : h_.Take<Recall>(busy)) {
      ++recalled[recall.job];
      if (recall.job != behind) continue;  // that one runs
      Report report;
      for (const Grant& grant : grants) {
        if (grant.job == behind) report.returns.push_back({behind, {grant.first_n, {0, 1}}});
      }
      h_.Report(busy, report);
    }
    given += LeavesOf(h_.Take<Grant>(idle), behind);
    again += LeavesOf(h_.Take<Grant>(busy), behind);
  }
  // Which of the two runs only the worker knows; it is not asked again and again.
  EXPECT_EQ(recalled, (std::map<JobId, int>{{endless, 1}, {behind, 1}}));
  EXPECT_EQ(given, 1u);
  EXPECT_EQ(again, 0u);
}

// Tasks of one kernel may cost what their data makes them cost.
class RatesTest : public SchedulingTest {
 protected:
  // `leaves` from the first of the worker's grants are done after so long each.
  void Commit(WorkerId w, const Grant& grant, uint64_t leaves, absl::Duration leaf) {
    Report report;
    tandem::Commit commit;
    commit.job = grant.job;
    commit.runs = {{grant.first_n, {grant.first_leaf, leaves}}};
    commit.outputs = OutputOf(0);
    commit.tasks = leaves;
    commit.busy_ns =
        static_cast<uint64_t>(absl::ToInt64Nanoseconds(leaf * static_cast<double>(leaves)));
    report.commits.push_back(commit);
    h_.Report(w, report);
  }
  double QueuedSeconds() { return h_.core().Workers().at(0).queued_seconds; }
};

TEST_F(RatesTest, ADearJobOfACheapKernelIsLeasedInSmallAmountsUntilItIsMeasured) {
  const WorkerId w = h_.Attach("w");
  h_.Rate(w, "map", 1e9);
  const JobId dear = h_.Submit({.tasks = 1'000'000, .ns_per_task = 1000});
  std::vector<Grant> grants = h_.Take<Grant>(w);
  ASSERT_FALSE(grants.empty());
  uint64_t out = LeavesOf(grants, dear);
  EXPECT_LE(out, 10'000u) << "milliseconds by the hint, not a second by the kernel's rate";
  // A leaf takes 10 ms: what is out is worth that, and nothing more is given.
  Commit(w, grants[0], 10, absl::Milliseconds(10));
  EXPECT_EQ(LeavesOf(h_.Take<Grant>(w), dear), 0u);
  EXPECT_NEAR(QueuedSeconds(), static_cast<double>(out - 10) * 0.010, 0.1);
  // Of what follows no lease is predicted over a second, and the queue is two of them.
  uint64_t done = 10;
  for (const Grant& grant : grants) {
    const uint64_t size = uint64_t{1} << grant.level;
    for (uint64_t lease = 0; lease < grant.count; ++lease, done = 0) {
      Commit(w, {dear, grant.first_n + lease, grant.first_leaf + lease * size + done}, size - done,
             absl::Milliseconds(10));
    }
  }
  const std::vector<Grant> later = h_.Take<Grant>(w);
  ASSERT_FALSE(later.empty());
  for (const Grant& grant : later) EXPECT_LE(uint64_t{1} << grant.level, 100u);
  EXPECT_LE(QueuedSeconds(), 2.1);
}

TEST_F(RatesTest, ACheapJobOfADearKernelIsLeasedInLargeAmountsOnceItIsMeasured) {
  const WorkerId w = h_.Attach("w");
  h_.Rate(w, "map", 100);  // 10 ms a leaf.
  const JobId cheap = h_.Submit({.tasks = 100'000'000});
  const std::vector<Grant> grants = h_.Take<Grant>(w);
  ASSERT_FALSE(grants.empty());
  EXPECT_LE(LeavesOf(grants, cheap), 10u);
  for (const Grant& grant : grants) {
    Commit(w, grant, grant.count << grant.level, absl::Nanoseconds(100));
  }
  EXPECT_GE(LeavesOf(h_.Take<Grant>(w), cheap), 100'000u);
}

TEST_F(RatesTest, AWorkerThatComesLateGetsItsShareOfADearJobThatIsAllHandedOut) {
  const WorkerId busy = h_.Attach("busy");
  h_.Rate(busy, "map", 1e9);
  const JobId dear = h_.Submit({.tasks = 1024});
  std::vector<Grant> grants = h_.Take<Grant>(busy);
  uint64_t out = LeavesOf(grants, dear);
  ASSERT_EQ(out, 1024u) << "cheap, as far as anybody knows";
  Commit(busy, grants[0], 10, absl::Milliseconds(16));
  h_.Attach("late");
  const std::vector<Recall> recalls = h_.Take<Recall>(busy);
  ASSERT_FALSE(recalls.empty());
  uint64_t recalled = 0;
  for (const Recall& recall : recalls) recalled += recall.leaves.count;
  EXPECT_NEAR(static_cast<double>(recalled), 507, 50) << "about as fast as the other";
}

TEST_F(RatesTest, LeavesOfWhichNothingIsHeardAreTakenToNeedAsLongAgain) {
  const WorkerId silent = h_.Attach("silent");
  h_.Rate(silent, "map", 1e9);
  const JobId dear = h_.Submit({.tasks = 1024});
  ASSERT_EQ(LeavesOf(h_.Take<Grant>(silent), dear), 1024u);
  const WorkerId late = h_.Attach("late");
  EXPECT_TRUE(h_.Take<Recall>(silent).empty()) << "predicted to end in a microsecond";
  h_.Advance(absl::Milliseconds(100));
  h_.Pulse(late);
  uint64_t recalled = 0;
  for (const Recall& recall : h_.Take<Recall>(silent)) recalled += recall.leaves.count;
  EXPECT_EQ(recalled, 512u) << "half of what may take another tenth of a second";
}

TEST_F(RatesTest, WhatAJobTookLendsItsSpeedToNoOtherJob) {
  const WorkerId w = h_.Attach("w");
  h_.Rate(w, "map", 1e6);
  const JobId dear = h_.Submit({.tasks = 1000});
  const std::vector<Grant> grants = h_.Take<Grant>(w);
  ASSERT_FALSE(grants.empty());
  Commit(w, grants[0], 1, absl::Milliseconds(50));
  EXPECT_GT(QueuedSeconds(), 1);
  const JobId other = h_.Submit({.tasks = 4, .priority = 1});
  EXPECT_EQ(LeavesOf(h_.Take<Grant>(w), other), 4u);
  (void)dear;
}

TEST_F(SchedulingTest, AWaitingJobSaysWhy) {
  const JobId job = h_.Submit({.tasks = 1});
  EXPECT_EQ(h_.Status(job).wait_reason, WaitReason::kNoWorker);
  WorkerAttach bare;
  bare.token = 500;
  bare.name = "bare";
  bare.incarnation = 1;
  h_.Step(bare);
  EXPECT_EQ(h_.Status(job).wait_reason, WaitReason::kNoKernel);
  const JobId gpu = h_.Submit({.tasks = 1, .device = DeviceChoice::kGpu});
  const WorkerId w = h_.Attach("w");
  EXPECT_EQ(h_.Status(job).wait_reason, WaitReason::kNone);
  EXPECT_EQ(h_.Status(gpu).wait_reason, WaitReason::kResources);
  const JobId second = h_.Submit({.tasks = 1});
  const JobId third = h_.Submit({.tasks = 1});
  EXPECT_EQ(h_.Status(third).wait_reason, WaitReason::kPriority) << "others come first";
  (void)second;
  (void)w;
}

TEST_F(SchedulingTest, AKernelThatAWorkerLoadsLaterStartsItsJobs) {
  WorkerAttach bare;
  bare.token = 500;
  bare.name = "bare";
  bare.incarnation = 1;
  const Effects attached = h_.Step(bare);
  const WorkerId w = std::get<WelcomeWorker>(attached.to_workers.at(0).what).worker;
  const JobId job = h_.Submit({.tasks = 1});
  EXPECT_TRUE(h_.Take<Grant>(w).empty());
  const Effects effects = h_.Step(WorkerAnnounced{w, {KernelFor(TestKernel::kMap)}});
  EXPECT_EQ(LeavesOf(h_.Take<Grant>(w), job), 1u);
  ASSERT_EQ(effects.describes.size(), 1u);
  EXPECT_EQ(effects.describes[0].job, job);
  EXPECT_TRUE(std::holds_alternative<KernelAnnounced>(effects.records.at(0)));
}

TEST_F(SchedulingTest, WhatWaitsInAnAccumulatorDoesNotFillTheQueue) {
  const WorkerId w = h_.Attach("w");
  h_.Rate(w, "count", 1000);
  const JobId job = h_.Submit({.kernel = TestKernel::kExactSum, .tasks = 1'000'000});
  const uint64_t first = LeavesOf(h_.Take<Grant>(w), job);
  ASSERT_GT(first, 0u);
  Report report;
  report.backlogs.push_back({job, 0, 0});  // It had not heard of these when it said that.
  h_.Report(w, report);
  EXPECT_EQ(LeavesOf(h_.Take<Grant>(w), job), 0u);
  report = {};
  report.backlogs.push_back({job, 0, first});  // It has run them all; nothing is committed yet.
  h_.Report(w, report);
  EXPECT_GT(LeavesOf(h_.Take<Grant>(w), job), 0u);
}

// A reduction commits nothing for long; what waits in its accumulator tells as much.
TEST_F(SchedulingTest, BacklogsSayHowLongLeavesTakeBeforeThereIsACommit) {
  const WorkerId w = h_.Attach("w");
  h_.Rate(w, "count", 1e6);  // Other jobs were cheap.
  const JobId job = h_.Submit({.kernel = TestKernel::kExactSum, .tasks = 1'000'000});
  const uint64_t first = LeavesOf(h_.Take<Grant>(w), job);
  ASSERT_GT(first, 4u);
  EXPECT_THAT(h_.core().Explain(job, w), HasSubstr("(1e-06 s a leaf"));
  h_.Advance(absl::Milliseconds(800));
  Report report;
  report.backlogs.push_back({job, first - 4, first});
  h_.Report(w, report);
  EXPECT_THAT(h_.core().Explain(job, w), HasSubstr("(0.2 s a leaf"));
}

// Less than a lease of it waits, then all of it: the queue is as empty as the worker says.
TEST_F(SchedulingTest, PartsOfALeaseThatWaitInAnAccumulatorLeaveNothingBehind) {
  const WorkerId w = h_.Attach("w");
  h_.Rate(w, "count", 1000);
  const JobId job = h_.Submit({.kernel = TestKernel::kExactSum, .tasks = 1'000'000});
  const uint64_t first = LeavesOf(h_.Take<Grant>(w), job);
  ASSERT_GT(first, 4u);
  for (const uint64_t left : {first - 1, first / 2, uint64_t{1}}) {
    Report report;
    report.backlogs.push_back({job, left, first});
    h_.Report(w, report);
  }
  uint64_t granted = first + LeavesOf(h_.Take<Grant>(w), job);
  Report report;
  report.backlogs.push_back({job, 0, granted});
  h_.Report(w, report);
  EXPECT_GT(LeavesOf(h_.Take<Grant>(w), job), 0u);
  EXPECT_THAT(h_.core().Explain(job, w), Not(HasSubstr("queue 0 leases or 0.")));
}

TEST_F(SchedulingTest, AChoiceIsExplained) {
  const WorkerId w = h_.Attach("w");
  h_.Rate(w, "map", 100);
  const JobId job = h_.Submit({.tasks = 100'000});
  EXPECT_THAT(h_.core().Explain(job, w), HasSubstr("the queue is long enough"));
  EXPECT_EQ(h_.core().Explain(JobId(99), w), "");
}

TEST_F(SchedulingTest, OneStatusAJobInOneEffects) {
  const WorkerId w = h_.Attach("w");
  h_.Rate(w, "map", 1e6);
  const JobId job = h_.Submit({.tasks = 1000, .max_lease_leaves = 1});
  const Grant grant = h_.Take<Grant>(w).at(0);
  Effects effects;
  for (uint64_t i = 0; i < 10; ++i) {
    Commit commit;
    commit.job = job;
    commit.runs = {{grant.first_n + i, {i, 1}}};
    commit.outputs = OutputOf(i);
    Report report;
    report.number = i + 1;
    report.commits = {commit};
    h_.core().Step(WorkerReported{w, report}, h_.now(), &effects);
  }
  ASSERT_EQ(effects.statuses.size(), 1u);
  EXPECT_EQ(effects.statuses[0].tasks_done, 10u);
  ASSERT_EQ(effects.acks.size(), 1u);
  EXPECT_EQ(effects.acks[0].number, 10u);
  EXPECT_EQ(effects.records.size(), 10u);
}

}  // namespace
}  // namespace tandem::master
