// Each rule of ExplainJob: just above its threshold it speaks, just below it is silent.
#include "master/server/explain_job.h"

#include <cmath>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem::master {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr uint64_t kSecond = 1'000'000'000;

// A job of ten seconds on two workers of two core groups each, of which nothing is to be said.
JobFacts Quiet() {
  JobFacts job;
  job.state = v1::SUCCEEDED;
  job.kernel = "spin";
  job.task_count = 10'000;
  job.leaf_count = 1'000;
  job.grain = 10;
  job.account.set_running_ns(10 * kSecond);
  job.account.set_commits(100);
  for (uint64_t w = 1; w <= 2; ++w) {
    v1::WorkerUsage* worker = job.account.add_workers();
    worker->set_worker(w);
    worker->set_name("w" + std::to_string(w));
    worker->set_groups(2);
    worker->set_last_ns(10 * kSecond);
    worker->set_leaves(500);
    worker->mutable_usage()->set_pieces(100);
    worker->mutable_usage()->set_tasks(5'000);
    // 65 % of 2 groups × 10 s.
    worker->mutable_usage()->set_body_ns(13 * kSecond);
    worker->mutable_usage()->set_host_ns(2 * kSecond);
  }
  return job;
}

v1::Usage* UsageOf(JobFacts* job, int worker = 0) {
  return job->account.mutable_workers(worker)->mutable_usage();
}

std::vector<std::string> Tokens(const JobFacts& job) {
  std::vector<std::string> tokens;
  for (const v1::Finding& finding : ExplainJob(job)) tokens.push_back(finding.token());
  return tokens;
}

v1::Finding Find(const JobFacts& job, const std::string& token) {
  for (const v1::Finding& finding : ExplainJob(job)) {
    if (finding.token() == token) return finding;
  }
  ADD_FAILURE() << "no finding " << token;
  return {};
}

TEST(ExplainJob, OfAQuietJobNothingStandsOut) {
  EXPECT_THAT(Tokens(Quiet()), testing::ElementsAre("BALANCED"));
}

// Another device at the second worker had three quarters of the tasks.
JobFacts Shared(v1::DeviceKind kind) {
  JobFacts job = Quiet();
  job.account.mutable_workers(0)->set_device(v1::DEVICE_CPU);
  v1::WorkerUsage* other = job.account.mutable_workers(1);
  other->set_device(kind);
  other->set_groups(1);
  v1::Usage* usage = other->mutable_usage();
  usage->set_tasks(1'234'567);
  usage->set_host_ns(kSecond);
  usage->set_body_ns(8 * kSecond);
  usage->set_grid_ns(3 * kSecond);
  usage->set_up_ns(6 * kSecond);
  usage->set_bytes_up(uint64_t{5} << 30);
  usage->set_down_ns(kSecond);
  return job;
}

TEST(ExplainJob, WhatEachKindOfDeviceHadAndWhatBindsItIsSaidFirst) {
  const JobFacts job = Shared(v1::DEVICE_GPU);
  const std::vector<v1::Finding> findings = ExplainJob(job);
  ASSERT_EQ(findings[0].token(), "DEVICES");
  EXPECT_EQ(findings[0].what(),
            "tasks [0,10000): gpu 1,234,567 in 9s, cpu 5,000 in 7.5s; gpu is bound by copy up "
            "(5GiB)");
  EXPECT_THAT(findings[0].advice(), HasSubstr("copied once"));
}

TEST(ExplainJob, AnEmulatedDeviceIsNeverCalledAGpu) {
  const v1::Finding finding = Find(Shared(v1::DEVICE_EMULATED), "DEVICES");
  EXPECT_THAT(finding.what(), HasSubstr("emulated 1,234,567"));
  EXPECT_THAT(finding.what(), Not(HasSubstr("gpu")));
}

TEST(ExplainJob, TheStageThatTakesLongestBindsADevice) {
  JobFacts job = Shared(v1::DEVICE_GPU);
  UsageOf(&job, 1)->set_host_ns(7 * kSecond);
  EXPECT_THAT(Find(job, "DEVICES").what(), HasSubstr("bound by host stages"));
  UsageOf(&job, 1)->set_grid_ns(8 * kSecond);
  EXPECT_THAT(Find(job, "DEVICES").what(), HasSubstr("bound by its grids"));
  UsageOf(&job, 1)->set_down_ns(9 * kSecond);
  EXPECT_THAT(Find(job, "DEVICES").what(), HasSubstr("bound by copy down"));
}

TEST(ExplainJob, OperandsOnTheirWayBindADeviceThatWaitsForThem) {
  JobFacts job = Shared(v1::DEVICE_GPU);
  UsageOf(&job, 1)->set_stall_ns(7 * kSecond);
  UsageOf(&job, 1)->set_fetched_bytes(uint64_t{2} << 30);
  EXPECT_THAT(Find(job, "DEVICES").what(),
              HasSubstr("gpu is bound by operands on their way (2GiB)"));
}

TEST(ExplainJob, NothingBindsADeviceThatHadNothingToRun) {
  JobFacts job = Shared(v1::DEVICE_GPU);
  v1::Usage* usage = UsageOf(&job, 1);
  usage->clear_host_ns();
  usage->clear_up_ns();
  usage->clear_down_ns();
  usage->set_grid_ns(5 * kSecond);  // of the ten of the job
  usage->set_body_ns(4 * kSecond);
  const v1::Finding finding = Find(job, "DEVICES");
  EXPECT_THAT(finding.what(), HasSubstr("; gpu had nothing to run for 50% of its time"));
  EXPECT_THAT(finding.what(), Not(HasSubstr("bound by")));
  EXPECT_THAT(finding.advice(), HasSubstr("tandem worker explain"));
  usage->set_grid_ns(5 * kSecond + 1);
  EXPECT_THAT(Find(job, "DEVICES").what(), HasSubstr("gpu is bound by its grids"));
  usage->set_grid_ns(kSecond);  // by its own clock; by its executor's it was busy
  usage->set_body_ns(5 * kSecond + 1);
  EXPECT_THAT(Find(job, "DEVICES").what(), HasSubstr("gpu is bound by its grids"));
  usage->set_body_ns(4 * kSecond);
  usage->set_grid_ns(4 * kSecond);
  job.account.mutable_workers(1)->set_first_ns(3 * kSecond);  // its first grant: 4 s of 7 s
  EXPECT_THAT(Find(job, "DEVICES").what(), HasSubstr("gpu is bound by its grids"));
}

TEST(ExplainJob, AWorkerIsOneHoweverManyKindsOfDevicesItHas) {
  JobFacts job = Quiet();
  for (int w : {0, 1}) UsageOf(&job, w)->set_body_ns(15 * kSecond);
  v1::WorkerUsage* gpu = job.account.add_workers();
  gpu->set_worker(2);
  gpu->set_name("w2");
  gpu->set_device(v1::DEVICE_GPU);
  gpu->set_groups(1);
  gpu->set_last_ns(7 * kSecond);  // not the worker's end
  gpu->mutable_usage()->set_pieces(10);
  gpu->mutable_usage()->set_tasks(100);
  gpu->mutable_usage()->set_body_ns(9 * kSecond);
  EXPECT_THAT(Find(job, "COMPUTE").what(), HasSubstr("of 2 workers"));
  EXPECT_THAT(Tokens(job), Not(Contains("STRAGGLER")));
}

TEST(ExplainJob, OfCpusAloneNoDevicesAreTold) {
  EXPECT_THAT(Tokens(Shared(v1::DEVICE_CPU)), Not(Contains("DEVICES")));
}

TEST(ExplainJob, AJobThatNobodyHasHadSaysSo) {
  JobFacts job = Quiet();
  job.account.clear_workers();
  EXPECT_THAT(Tokens(job), testing::ElementsAre("NOT_STARTED"));
}

TEST(ExplainJob, AWaitThatGoesOnComesFirstWithWhatEndsIt) {
  JobFacts job = Quiet();
  job.state = v1::PENDING;
  job.wait_reason = v1::DRAINED;
  const std::vector<v1::Finding> findings = ExplainJob(job);
  EXPECT_EQ(findings[0].token(), "DRAINED");
  EXPECT_THAT(findings[0].advice(), HasSubstr("tandem worker resume"));
}

TEST(ExplainJob, EveryReasonToWaitHasWordsAndAdvice) {
  for (int reason = v1::NO_WORKER; reason <= v1::DRAINED; ++reason) {
    const WaitText text = ExplainWait(static_cast<v1::WaitReason>(reason));
    EXPECT_STRNE(text.what, "") << reason;
    EXPECT_STRNE(text.advice, "") << reason;
  }
}

TEST(ExplainJob, AFailureComesFirstWithItsReason) {
  JobFacts job = Quiet();
  job.state = v1::FAILED;
  job.reason = "TASK_FAILED: 3 tasks failed";
  const std::vector<v1::Finding> findings = ExplainJob(job);
  EXPECT_EQ(findings[0].token(), "FAILED");
  EXPECT_THAT(findings[0].what(), HasSubstr("3 tasks failed"));
}

TEST(ExplainJob, WaitsArePartOfTheWholeTime) {
  JobFacts job = Quiet();
  job.account.set_pending_ns(10 * kSecond);
  v1::WaitTime* wait = job.account.add_waits();
  wait->set_reason(v1::NO_WORKER);
  wait->set_ns(3 * kSecond + 1);  // 15 % of 20 s
  const v1::Finding finding = Find(job, "NO_WORKER");
  EXPECT_NEAR(finding.share(), 0.15, 1e-6);
  EXPECT_THAT(finding.what(), HasSubstr("no worker is attached"));
  EXPECT_THAT(finding.advice(), HasSubstr("tandem worker start"));
  wait->set_ns(3 * kSecond - 1);
  EXPECT_THAT(Tokens(job), Not(Contains("NO_WORKER")));
}

TEST(ExplainJob, OperandsThatCoreGroupsWaitFor) {
  JobFacts job = Quiet();
  UsageOf(&job)->set_stall_ns(4 * kSecond + 1);  // 10 % of 4 groups × 10 s
  UsageOf(&job)->set_fetched_bytes(uint64_t{3} << 30);
  const v1::Finding finding = Find(job, "OPERAND_FETCH");
  EXPECT_NEAR(finding.share(), 0.10, 1e-6);
  EXPECT_THAT(finding.what(), HasSubstr("3GiB over the network"));
  EXPECT_THAT(finding.advice(), HasSubstr("path:"));
  UsageOf(&job)->set_path_bytes(uint64_t{4} << 30);
  EXPECT_THAT(Find(job, "OPERAND_FETCH").advice(), HasSubstr("@FILE"));
  UsageOf(&job)->set_stall_ns(4 * kSecond - 1);
  EXPECT_THAT(Tokens(job), Not(Contains("OPERAND_FETCH")));
}

TEST(ExplainJob, HostStagesAreAShareOfWhatExecutorsWorked) {
  JobFacts job = Quiet();
  for (int w : {0, 1}) {
    UsageOf(&job, w)->set_body_ns(7 * kSecond);
    UsageOf(&job, w)->set_host_ns(3 * kSecond);
  }
  UsageOf(&job)->set_host_ns(3 * kSecond + 1000);
  EXPECT_THAT(Find(job, "HOST_STAGES").what(), HasSubstr("30%"));
  UsageOf(&job)->set_host_ns(3 * kSecond - 1000);
  EXPECT_THAT(Tokens(job), Not(Contains("HOST_STAGES")));
}

// Half of the core groups' time is idle, for whatever reason.
JobFacts Idle() {
  JobFacts job = Quiet();
  for (int w : {0, 1}) {
    UsageOf(&job, w)->set_body_ns(9 * kSecond);
    UsageOf(&job, w)->set_host_ns(1 * kSecond);
  }
  return job;
}

TEST(ExplainJob, IdlenessWithoutACauseIsSaidAsSuch) {
  EXPECT_NEAR(Find(Idle(), "IDLE").share(), 0.5, 1e-6);
  JobFacts job = Idle();
  for (int w : {0, 1}) UsageOf(&job, w)->set_body_ns(13 * kSecond + 1);
  EXPECT_THAT(Tokens(job), Not(Contains("IDLE")));
}

TEST(ExplainJob, WorkThatWasNeverReportedIsNotCalledIdleness) {
  JobFacts job = Idle();
  job.account.set_crashes(3);
  const v1::Finding crashed = Find(job, "UNREPORTED");
  EXPECT_NEAR(crashed.share(), 0.5, 1e-6);
  EXPECT_THAT(crashed.what(), HasSubstr("3 runs of leaves"));
  EXPECT_THAT(crashed.advice(), HasSubstr("tandem job failures"));
  EXPECT_THAT(Tokens(job), Not(Contains("IDLE")));

  job = Idle();
  job.state = v1::CANCELLED;
  EXPECT_THAT(Find(job, "UNREPORTED").what(), HasSubstr("when the job was cancelled"));

  job = Idle();
  job.state = v1::RUNNING;  // Its pieces are too short to make up for what was idle.
  EXPECT_THAT(Tokens(job), Contains("IDLE"));
  for (int w : {0, 1}) UsageOf(&job, w)->set_pieces(2);  // 5 s each, on four core groups.
  EXPECT_THAT(Find(job, "UNREPORTED").what(), HasSubstr("counted when they end"));
}

TEST(ExplainJob, AJobOfWhichNothingIsReportedYetHasNotTooFewLeaves) {
  JobFacts job = Quiet();
  job.state = v1::RUNNING;
  job.leaf_count = 1;
  for (int w : {0, 1}) UsageOf(&job, w)->Clear();
  const v1::Finding finding = Find(job, "UNREPORTED");
  EXPECT_THAT(finding.what(), HasSubstr("work of other jobs may be before it"));
  EXPECT_THAT(finding.advice(), HasSubstr("tandem worker explain"));
  EXPECT_THAT(Tokens(job), Not(Contains("FEW_LEAVES")));
  UsageOf(&job, 0)->set_pieces(1);
  EXPECT_THAT(Tokens(job), Contains("FEW_LEAVES"));
}

TEST(ExplainJob, TooFewLeavesForTheCoreGroups) {
  JobFacts job = Idle();
  job.leaf_count = 7;  // below twice the four core groups
  const v1::Finding finding = Find(job, "FEW_LEAVES");
  EXPECT_THAT(finding.what(), HasSubstr("7 leaves"));
  EXPECT_THAT(finding.advice(), HasSubstr("--grain: 312"));  // 10,000 tasks over 32 leaves
  job.leaf_count = 8;
  EXPECT_THAT(Tokens(job), Not(Contains("FEW_LEAVES")));
}

TEST(ExplainJob, OutputsUnderWayMostOfTheTime) {
  JobFacts job = Idle();
  UsageOf(&job)->set_push_ns(5 * kSecond);  // half of the running time
  UsageOf(&job)->set_pushes(50);
  UsageOf(&job)->set_pushed_output_bytes(uint64_t{1} << 30);
  EXPECT_THAT(Find(job, "OUTPUT_PUSH").what(), HasSubstr("1GiB in 50 pushes"));
  UsageOf(&job)->set_push_ns(5 * kSecond - 1);
  EXPECT_THAT(Tokens(job), Not(Contains("OUTPUT_PUSH")));
}

TEST(ExplainJob, PiecesThatCostMoreToHandOutThanToRun) {
  JobFacts job = Idle();
  // 20 s in 100,001 pieces: just below 200 us each.
  UsageOf(&job)->set_pieces(100'001);
  UsageOf(&job, 1)->set_pieces(0);
  EXPECT_THAT(Find(job, "SMALL_PIECES").advice(), HasSubstr("--grain"));
  job.max_lease_leaves = 1;
  EXPECT_THAT(Find(job, "SMALL_PIECES").advice(), HasSubstr("--max-lease 1"));
  UsageOf(&job)->set_pieces(99'999);
  EXPECT_THAT(Tokens(job), Not(Contains("SMALL_PIECES")));
}

TEST(ExplainJob, AWorkerThatWorksOnAlone) {
  JobFacts job = Quiet();
  job.account.mutable_workers(0)->set_last_ns(10 * kSecond - 3 * kSecond / 2 - 1);
  EXPECT_THAT(Find(job, "STRAGGLER").what(), HasSubstr("worker w2"));
  job.account.mutable_workers(0)->set_last_ns(10 * kSecond - 3 * kSecond / 2 + 1);
  EXPECT_THAT(Tokens(job), Not(Contains("STRAGGLER")));
}

TEST(ExplainJob, MergingAfterTheLastTask) {
  JobFacts job = Quiet();
  job.account.set_running_ns(17 * kSecond);
  for (int w : {0, 1}) {
    UsageOf(&job, w)->set_body_ns(23 * kSecond);
    job.account.mutable_workers(w)->set_last_ns(17 * kSecond);
  }
  job.account.set_merging_ns(3 * kSecond);
  UsageOf(&job)->set_merges(12);
  EXPECT_THAT(Find(job, "MERGING").what(), HasSubstr("12 merges"));
  job.account.set_merging_ns(3 * kSecond - 1000);
  EXPECT_THAT(Tokens(job), Not(Contains("MERGING")));
}

TEST(ExplainJob, ADiskThatIsSlowToSync) {
  JobFacts job = Quiet();
  job.account.set_commit_wait_max_ns(3 * kSecond / 2);
  job.account.set_commit_wait_ns(4 * kSecond);
  const v1::Finding finding = Find(job, "COMMIT");
  EXPECT_THAT(finding.what(), HasSubstr("1.5s"));
  EXPECT_THAT(finding.what(), HasSubstr("40ms in the mean"));
  job.account.set_commit_wait_max_ns(3 * kSecond / 2 - 1);
  EXPECT_THAT(Tokens(job), Not(Contains("COMMIT")));
}

TEST(ExplainJob, WorkersThatWorkedForOthersToo) {
  JobFacts job = Quiet();
  job.account.mutable_workers(1)->set_other_ns(8 * kSecond);  // 20 % of 40 s
  EXPECT_THAT(Find(job, "SHARED_WORKERS").advice(), HasSubstr("--priority"));
  job.account.mutable_workers(1)->set_other_ns(8 * kSecond - 1);
  EXPECT_THAT(Tokens(job), Not(Contains("SHARED_WORKERS")));
}

TEST(ExplainJob, LeavesThatWereTakenBack) {
  JobFacts job = Quiet();
  job.account.mutable_workers(0)->set_returned_leaves(250);
  EXPECT_THAT(Find(job, "RECALLED").what(), HasSubstr("250 leaves of 1000"));
  job.account.mutable_workers(0)->set_returned_leaves(249);
  EXPECT_THAT(Tokens(job), Not(Contains("RECALLED")));
}

TEST(ExplainJob, ComputingIsWhatItShouldBe) {
  JobFacts job = Quiet();
  for (int w : {0, 1}) UsageOf(&job, w)->set_body_ns(14 * kSecond);  // 70 %
  const v1::Finding finding = Find(job, "COMPUTE");
  EXPECT_THAT(finding.what(), HasSubstr("4 core groups of 2 workers"));
  EXPECT_THAT(finding.advice(), HasSubstr("6.67s"));  // four of six core groups' time
  for (int w : {0, 1}) UsageOf(&job, w)->set_body_ns(14 * kSecond - 1);
  EXPECT_THAT(Tokens(job), Not(Contains("COMPUTE")));
}

TEST(ExplainJob, TasksThatRanAgain) {
  JobFacts job = Quiet();
  job.retried_tasks = 205;  // 2 % of 10,205
  EXPECT_THAT(Find(job, "RETRIES").what(), HasSubstr("205 tasks"));
  job.retried_tasks = 204;
  EXPECT_THAT(Tokens(job), Not(Contains("RETRIES")));
  job.account.set_crashes(1);
  EXPECT_THAT(Find(job, "RETRIES").what(), HasSubstr("1 crash"));
}

TEST(ExplainJob, OfAShortJobOneSeesTheFixedCosts) {
  JobFacts job = Quiet();
  job.account.set_running_ns(kSecond / 10 - 1);
  EXPECT_THAT(Tokens(job), testing::ElementsAre("SHORT"));
  job.account.set_running_ns(kSecond / 10);
  EXPECT_THAT(Tokens(job), Not(Contains("SHORT")));
}

TEST(ExplainJob, TheWeightiestComesFirst) {
  JobFacts job = Quiet();
  UsageOf(&job)->set_stall_ns(5 * kSecond);                   // 12.5 %
  job.account.mutable_workers(1)->set_other_ns(9 * kSecond);  // 22.5 %
  const std::vector<v1::Finding> findings = ExplainJob(job);
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_EQ(findings[0].token(), "SHARED_WORKERS");
  EXPECT_EQ(findings[1].token(), "OPERAND_FETCH");
}

}  // namespace
}  // namespace tandem::master
