// Leaves that a worker's devices have not the memory for, what a job asks of their budgets, and
// jobs that are not to wait for a worker that may run them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include "common/base/error.h"
#include "tests/master/core/harness.h"

namespace tandem::master {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr uint64_t kMiB = uint64_t{1} << 20;

class LargeLeavesTest : public testing::Test {
 protected:
  WorkerId AttachWithGpu(const std::string& name, uint64_t budget) {
    DeviceInfo gpu;
    gpu.kind = DeviceKind::kEmulated;
    gpu.budget_bytes = budget;
    h_.further_devices = {gpu};
    const WorkerId worker = h_.Attach(name);
    h_.further_devices.clear();
    return worker;
  }
  void Submit(const JobBuilder& job) {
    tree_ = RangeTree(job.tasks, job.grain);
    job_ = h_.Submit(job);
  }
  // All leaves that the worker was given since the last time.
  std::vector<LeafRun> Taken(WorkerId worker) {
    std::vector<LeafRun> runs;
    for (const Grant& grant : h_.Take<Grant>(worker)) {
      const LeafRun all = RunOf(grant, tree_);
      for (uint64_t i = 0; i < all.leaves.count; ++i) {
        runs.push_back({all.n + (i >> grant.level), {all.leaves.first + i, 1}});
      }
    }
    return runs;
  }
  // Runs everything that there is for the worker; `too_large` are given back with that need.
  void RunAll(WorkerId worker, std::vector<uint64_t> too_large = {}, uint64_t need = 0,
              uint64_t budget = 0) {
    for (;;) {
      const std::vector<LeafRun> runs = Taken(worker);
      if (runs.empty()) return;
      for (const LeafRun& run : runs) {
        if (std::ranges::find(too_large, run.leaves.first) == too_large.end()) {
          h_.CommitRun(worker, job_, run);
          continue;
        }
        Report report;
        report.returns.push_back({job_, run, need, budget});
        h_.Report(worker, std::move(report));
      }
    }
  }
  JobStatus status() { return h_.Status(job_); }
  std::vector<TaskFailure> failures() const {
    std::vector<TaskFailure> all;
    for (const Record& record : h_.journal()) {
      const auto* done = std::get_if<LeavesDone>(&record);
      if (done != nullptr) all.insert(all.end(), done->failures.begin(), done->failures.end());
    }
    return all;
  }

  CoreHarness h_;
  JobId job_;
  RangeTree tree_;
};

TEST_F(LargeLeavesTest, WhereNoDeviceIsLargerOnlyTheLeafsTasksFailWithNeedAndBudget) {
  const WorkerId small = AttachWithGpu("small", 8 * kMiB);
  Submit({.tasks = 40, .grain = 4, .device = DeviceChoice::kGpu});
  RunAll(small, {3}, 12 * kMiB, 8 * kMiB);
  EXPECT_EQ(status().state, JobState::kFailed);
  EXPECT_THAT(status().reason, StartsWith("TASK_FAILED: 4 of 40"));
  EXPECT_EQ(status().tasks_done, 40u) << "the others went on";
  ASSERT_EQ(failures().size(), 4u);
  EXPECT_EQ(failures()[0].task, 12u);
  for (const TaskFailure& failure : failures()) {
    EXPECT_THAT(failure.reason, StartsWith("GPU_OOM: "));
    EXPECT_THAT(failure.reason, HasSubstr("12MiB"));
    EXPECT_THAT(failure.reason, HasSubstr("8MiB"));
  }
}

TEST_F(LargeLeavesTest, FailedTasksAreAllowedAndCountedLikeOthers) {
  const WorkerId small = AttachWithGpu("small", 8 * kMiB);
  Submit({.tasks = 40, .grain = 4, .allow_failed = true, .device = DeviceChoice::kGpu});
  RunAll(small, {3}, 12 * kMiB, 8 * kMiB);
  EXPECT_EQ(status().state, JobState::kSucceeded);
  EXPECT_EQ(status().tasks_failed, 4u);
  Submit({.tasks = 40, .grain = 4, .max_task_failures = 5, .device = DeviceChoice::kGpu});
  RunAll(small, {3, 4}, 12 * kMiB, 8 * kMiB);
  EXPECT_EQ(status().state, JobState::kFailed);
  EXPECT_THAT(status().reason, HasSubstr("max_task_failures = 5"));
}

TEST_F(LargeLeavesTest, AnOrderedReductionHasNoValueOfTheLeafAndGoesOn) {
  const WorkerId small = AttachWithGpu("small", 8 * kMiB);
  Submit({.kernel = TestKernel::kOrderedSum,
          .tasks = 4,
          .allow_failed = true,
          .max_lease_leaves = 1,
          .device = DeviceChoice::kGpu});
  for (const LeafRun& run : Taken(small)) {
    if (run.leaves.first != 2) continue;
    Report report;
    report.returns.push_back({job_, run, 9 * kMiB, 8 * kMiB});
    h_.Report(small, std::move(report));
  }
  EXPECT_EQ(status().tasks_failed, 1u);
}

TEST_F(LargeLeavesTest, ALargerDeviceOfAnotherWorkerHasItsChanceFirst) {
  const WorkerId small = AttachWithGpu("small", 8 * kMiB);
  Submit({.tasks = 10, .device = DeviceChoice::kGpu});
  const WorkerId large = AttachWithGpu("large", 16 * kMiB);
  h_.Take<Grant>(large);
  RunAll(small, {0}, 12 * kMiB, 8 * kMiB);
  EXPECT_EQ(status().tasks_failed, 0u);
  RunAll(large);
  // What it was granted before and never said a word of comes back with it.
  h_.Detach(large);
  AttachWithGpu("large", 16 * kMiB);
  RunAll(large);
  RunAll(small);
  EXPECT_EQ(status().state, JobState::kSucceeded);
}

TEST_F(LargeLeavesTest, ALargeLeafIsOfferedToNobodyElse) {
  const WorkerId small = AttachWithGpu("small", 8 * kMiB);
  Submit({.tasks = 1, .device = DeviceChoice::kGpu});
  const std::vector<LeafRun> runs = Taken(small);
  ASSERT_EQ(runs.size(), 1u);
  const WorkerId large = AttachWithGpu("large", 16 * kMiB);
  Report report;
  report.returns.push_back({job_, runs[0], 12 * kMiB, 8 * kMiB});
  h_.Report(small, std::move(report));
  EXPECT_THAT(Taken(small), IsEmpty());
  const std::vector<LeafRun> given = Taken(large);
  ASSERT_EQ(given.size(), 1u);
  // It is too large there as well, and nobody else is left.
  Report again;
  again.returns.push_back({job_, given[0], 20 * kMiB, 16 * kMiB});
  h_.Report(large, std::move(again));
  EXPECT_EQ(status().state, JobState::kFailed);
  ASSERT_EQ(failures().size(), 1u);
  EXPECT_THAT(failures()[0].reason, HasSubstr("16MiB"));
}

TEST_F(LargeLeavesTest, WhenTheLargerWorkerIsGoneForGoodItFails) {
  const WorkerId small = AttachWithGpu("small", 8 * kMiB);
  Submit({.tasks = 1, .device = DeviceChoice::kGpu});
  const std::vector<LeafRun> runs = Taken(small);
  const WorkerId large = AttachWithGpu("large", 16 * kMiB);
  h_.Detach(large);
  Report report;
  report.returns.push_back({job_, runs.at(0), 12 * kMiB, 8 * kMiB});
  h_.Report(small, std::move(report));
  EXPECT_EQ(status().tasks_failed, 0u) << "it may come back";
  EXPECT_EQ(status().wait_reason, WaitReason::kUnsatisfiable);
  EXPECT_THAT(status().reason, StartsWith("GPU_OOM: "));
  h_.Step(WorkerLeft{large});
  EXPECT_EQ(status().state, JobState::kFailed);
  EXPECT_THAT(failures().at(0).reason, StartsWith("GPU_OOM: "));
}

TEST_F(LargeLeavesTest, AfterARestartOfTheMasterItWaitsForWorkersThatItKnew) {
  const WorkerId small = AttachWithGpu("small", 8 * kMiB);
  AttachWithGpu("large", 16 * kMiB);
  Submit({.tasks = 2, .max_lease_leaves = 1, .device = DeviceChoice::kGpu});
  h_.Restart();
  AttachWithGpu("small", 8 * kMiB);
  EXPECT_EQ(status().tasks_failed, 0u);
  const WorkerId large = AttachWithGpu("large", 16 * kMiB);
  RunAll(small, {0, 1}, 12 * kMiB, 8 * kMiB);
  RunAll(large);
  EXPECT_EQ(status().state, JobState::kSucceeded);
}

TEST_F(LargeLeavesTest, AJobIsGivenToNoWorkerWhoseBudgetsAreSmallerThanItAsksFor) {
  const WorkerId small = AttachWithGpu("small", 8 * kMiB);
  Submit({.tasks = 10, .device = DeviceChoice::kGpu, .gpu_memory_bytes = 12 * kMiB});
  EXPECT_THAT(Taken(small), IsEmpty());
  EXPECT_EQ(status().wait_reason, WaitReason::kResources);
  EXPECT_THAT(status().reason, StartsWith("NO_GPU: "));
  EXPECT_THAT(status().reason, HasSubstr("12MiB"));
  EXPECT_THAT(status().reason, HasSubstr("8MiB, of small"));
  EXPECT_EQ(h_.core().JobsAt(small, 10).at(0).fit, JobAtWorkerView::Fit::kNoDevice);
  // Others behind it are served.
  const JobId behind = h_.Submit({.tasks = 1, .device = DeviceChoice::kGpu});
  EXPECT_EQ(h_.Take<Grant>(small).at(0).job, behind);
  const WorkerId large = AttachWithGpu("large", 12 * kMiB);
  RunAll(large);
  EXPECT_EQ(status().state, JobState::kSucceeded);
}

TEST_F(LargeLeavesTest, WhereTheCpuWillDoTheMemoryOfDevicesDoesNotMatter) {
  const WorkerId small = AttachWithGpu("small", 8 * kMiB);
  Submit({.tasks = 10, .gpu_memory_bytes = 12 * kMiB});
  RunAll(small);
  EXPECT_EQ(status().state, JobState::kSucceeded);
}

TEST_F(LargeLeavesTest, AJobThatIsNotToWaitFailsWithTheReason) {
  Submit({.tasks = 1, .fail_unsatisfiable = true});
  EXPECT_EQ(status().state, JobState::kFailed);
  EXPECT_THAT(status().reason, StartsWith("UNSATISFIABLE: no worker is attached"));
  h_.Attach("plain");
  Submit({.tasks = 1, .device = DeviceChoice::kGpu, .fail_unsatisfiable = true});
  EXPECT_EQ(status().state, JobState::kFailed);
  EXPECT_THAT(status().reason, StartsWith("NO_GPU: "));
  const WorkerId small = AttachWithGpu("small", 8 * kMiB);
  Submit({.tasks = 1,
          .device = DeviceChoice::kGpu,
          .gpu_memory_bytes = 12 * kMiB,
          .fail_unsatisfiable = true});
  EXPECT_THAT(status().reason, StartsWith("NO_GPU: "));
  EXPECT_THAT(status().reason, HasSubstr("8MiB"));
  Submit({.tasks = 10, .device = DeviceChoice::kGpu, .fail_unsatisfiable = true});
  EXPECT_EQ(status().state, JobState::kRunning) << "somebody may run it";
  Report report;
  report.job_faults.push_back({job_, "PATH_UNREADABLE: /x", false});
  for (const LeafRun& run : Taken(small)) report.returns.push_back({job_, run});
  h_.Report(small, std::move(report));
  EXPECT_EQ(status().state, JobState::kFailed);
  EXPECT_THAT(status().reason, StartsWith("PATH_UNREADABLE: /x"));
}

TEST_F(LargeLeavesTest, AJobThatIsNotToWaitIsPatientWithAWorkerThatIsAwayForAMoment) {
  const WorkerId gpu = AttachWithGpu("gpu", 8 * kMiB);
  h_.Detach(gpu);
  Submit({.tasks = 1, .device = DeviceChoice::kGpu, .fail_unsatisfiable = true});
  EXPECT_EQ(status().state, JobState::kPending);
  h_.Advance(absl::Minutes(1));
  EXPECT_EQ(status().state, JobState::kFailed);
  EXPECT_THAT(status().reason, HasSubstr("--fail-unsatisfiable"));
}

TEST_F(LargeLeavesTest, BusyOrDrainedWorkersAreWaitedFor) {
  const WorkerId plain = h_.Attach("plain", 1, 1);
  h_.Submit({.tasks = 100});
  Submit({.tasks = 1, .fail_unsatisfiable = true});
  EXPECT_EQ(status().wait_reason, WaitReason::kPriority);
  h_.Step(DrainWorker{1, plain, true});
  EXPECT_EQ(status().wait_reason, WaitReason::kDrained);
  EXPECT_EQ(status().state, JobState::kPending);
}

}  // namespace
}  // namespace tandem::master
