// Partials: taken whole or not at all, merged as leases, the last one is the result.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/master/core/harness.h"

namespace tandem::master {
namespace {

using testing::HasSubstr;

class ReductionsTest : public testing::Test {
 protected:
  void Start(JobBuilder builder, Options options = {}) {
    builder_ = builder;
    h_ = std::make_unique<CoreHarness>(options);
    w_ = h_->Attach("w", 4);
    h_->Rate(w_, KernelFor(builder.kernel).name, 1e4);
    job_ = h_->Submit(builder);
  }
  RangeTree tree() const { return RangeTree(builder_.tasks, builder_.grain); }
  Commit PartialOf(std::vector<LeafRun> runs, std::vector<TaskFailure> failures = {}) {
    Commit commit;
    commit.job = job_;
    commit.runs = std::move(runs);
    uint64_t tasks = 0, value = 0;
    for (const LeafRun& run : commit.runs) {
      const TaskRange range =
          tree().Tasks(LeafRange{run.leaves.first, run.leaves.first + run.leaves.count});
      tasks += range.size();
      for (uint64_t task = range.begin; task < range.end; ++task) value += task + 1;
    }
    for (const TaskFailure& failure : failures) value -= failure.task + 1;
    commit.tasks = tasks - failures.size();
    commit.failures = std::move(failures);
    commit.outputs = OutputOf(value);
    return commit;
  }
  Effects Send(Commit commit) {
    Report report;
    report.commits.push_back(std::move(commit));
    return h_->Report(w_, std::move(report));
  }
  // Answers a merge as an executor would.
  Effects Merge(const MergeGrant& grant) {
    MergeCommit done;
    done.job = grant.job;
    done.n = grant.n;
    uint64_t value = 0;
    for (const Partial& input : grant.inputs) {
      if (input.outputs != nullptr) value += ValueOf(input.outputs);
      done.tasks += input.tasks;
      done.failed += input.failed;
    }
    done.outputs = OutputOf(value);
    Report report;
    report.merges.push_back(std::move(done));
    return h_->Report(w_, std::move(report));
  }
  // A partial a lease of the grant, from the `from`-th on.
  void SendLeases(const Grant& grant, uint64_t from = 0) {
    for (uint64_t i = from; i < grant.count; ++i) {
      Grant one = grant;
      one.first_n += i;
      one.first_leaf += i << grant.level;
      one.count = 1;
      Send(PartialOf({RunOf(one, tree())}));
    }
  }
  // A partial a lease, and every merge that is asked for, until nothing more comes.
  void Finish() {
    for (int i = 0; i < 1000; ++i) {
      const std::vector<Grant> grants = h_->Take<Grant>(w_);
      const std::vector<MergeGrant> merges = h_->Take<MergeGrant>(w_);
      if (grants.empty() && merges.empty()) return;
      for (const Grant& grant : grants) SendLeases(grant);
      for (const MergeGrant& merge : merges) Merge(merge);
    }
  }
  JobStatus status() { return h_->Status(job_); }
  uint64_t SumOfAll() const { return builder_.tasks * (builder_.tasks + 1) / 2; }

  JobBuilder builder_;
  std::unique_ptr<CoreHarness> h_;
  WorkerId w_;
  JobId job_;
};

class EitherReductionTest : public ReductionsTest,
                            public testing::WithParamInterface<TestKernel> {};
INSTANTIATE_TEST_SUITE_P(ExactOrOrdered, EitherReductionTest,
                         testing::Values(TestKernel::kExactSum, TestKernel::kOrderedSum,
                                         TestKernel::kOwnMerge),
                         [](const auto& param) {
                           return param.param == TestKernel::kExactSum     ? "Exact"
                                  : param.param == TestKernel::kOrderedSum ? "Ordered"
                                                                           : "OwnMerge";
                         });

TEST_P(EitherReductionTest, EveryTaskIsCountedOnce) {
  for (uint64_t tasks : {1, 2, 3, 63, 64, 65, 1000}) {
    Start({.kernel = GetParam(), .tasks = tasks, .grain = 3});
    Finish();
    ASSERT_EQ(status().state, JobState::kSucceeded) << tasks;
    EXPECT_EQ(ValueOf(status().result), SumOfAll()) << tasks;
  }
}

TEST_P(EitherReductionTest, AJobWithoutTasksAsksForTheIdentity) {
  Start({.kernel = GetParam(), .tasks = 0});
  EXPECT_EQ(status().state, JobState::kMerging);
  const std::vector<MergeGrant> merges = h_->Take<MergeGrant>(w_);
  ASSERT_EQ(merges.size(), 1u);
  EXPECT_TRUE(merges[0].inputs.empty());
  Merge(merges[0]);
  EXPECT_EQ(status().state, JobState::kSucceeded);
  EXPECT_EQ(ValueOf(status().result), 0u);
}

TEST_P(EitherReductionTest, FewPartialsAreKeptHoweverManyLeasesThereAre) {
  Options options;
  options.merge_inputs_max = 8;
  Start({.kernel = GetParam(), .tasks = 2000, .max_lease_leaves = 1}, options);
  size_t most = 0;
  for (int i = 0; i < 3000 && status().state != JobState::kSucceeded; ++i) {
    for (const Grant& grant : h_->Take<Grant>(w_)) {
      for (uint64_t j = 0; j < grant.count; ++j) {
        Send(PartialOf({{grant.first_n + j, {grant.first_leaf + j, 1}}}));
        for (const MergeGrant& merge : h_->Take<MergeGrant>(w_)) Merge(merge);
        std::vector<Record> snapshot;
        h_->core().Snapshot(&snapshot);
        most = std::max(most, snapshot.size());
      }
    }
    if (i > 20) break;
  }
  EXPECT_LE(most, 64u);
}

TEST_P(EitherReductionTest, AMergeThatFailsIsTriedAgainAndThenTheJobFails) {
  Start({.kernel = GetParam(), .tasks = 2, .max_lease_leaves = 1});
  for (const Grant& grant : h_->Take<Grant>(w_)) {
    for (uint64_t j = 0; j < grant.count; ++j) {
      Send(PartialOf({{grant.first_n + j, {grant.first_leaf + j, 1}}}));
    }
  }
  for (int i = 0; i < 3; ++i) {
    for (const Grant& grant : h_->Take<Grant>(w_)) Send(PartialOf({RunOf(grant, tree())}));
    const std::vector<MergeGrant> merges = h_->Take<MergeGrant>(w_);
    ASSERT_EQ(merges.size(), 1u) << i;
    MergeCommit failed;
    failed.job = job_;
    failed.n = merges[0].n;
    failed.error = "EXECUTOR_LOST: SIGSEGV";
    Report report;
    report.merges.push_back(failed);
    h_->Report(w_, report);
  }
  EXPECT_EQ(status().state, JobState::kFailed);
  EXPECT_THAT(status().reason, HasSubstr("EXECUTOR_LOST: SIGSEGV"));
}

TEST_P(EitherReductionTest, AMergeThatLostATaskIsNotTaken) {
  Start({.kernel = GetParam(), .tasks = 2, .max_lease_leaves = 1});
  std::vector<MergeGrant> merges;
  for (int i = 0; i < 5 && merges.empty(); ++i) {
    for (const Grant& grant : h_->Take<Grant>(w_)) {
      for (uint64_t j = 0; j < grant.count; ++j) {
        Send(PartialOf({{grant.first_n + j, {grant.first_leaf + j, 1}}}));
      }
    }
    merges = h_->Take<MergeGrant>(w_);
  }
  ASSERT_EQ(merges.size(), 1u);
  merges[0].inputs.pop_back();
  Merge(merges[0]);
  EXPECT_EQ(status().state, JobState::kMerging);
  Finish();
  EXPECT_EQ(ValueOf(status().result), SumOfAll());
}

TEST_P(EitherReductionTest, AMergeOfALostWorkerIsDoneByAnother) {
  Start({.kernel = GetParam(), .tasks = 2, .max_lease_leaves = 1});
  for (int i = 0; i < 5; ++i) {
    for (const Grant& grant : h_->Take<Grant>(w_)) {
      for (uint64_t j = 0; j < grant.count; ++j) {
        Send(PartialOf({{grant.first_n + j, {grant.first_leaf + j, 1}}}));
      }
    }
  }
  const std::vector<MergeGrant> first = h_->Take<MergeGrant>(w_);
  ASSERT_EQ(first.size(), 1u);
  h_->Detach(w_);
  h_->Advance(absl::Seconds(2));
  const WorkerId lost = w_;
  w_ = h_->Attach("other");
  const std::vector<MergeGrant> second = h_->Take<MergeGrant>(w_);
  ASSERT_EQ(second.size(), 1u);
  EXPECT_NE(second[0].n, first[0].n);
  w_ = lost;
  Merge(first[0]);
  EXPECT_EQ(status().state, JobState::kMerging) << "late";
  w_ = h_->Attach("other", 1, 2048, {}, 1);
  Finish();
  EXPECT_EQ(ValueOf(status().result), SumOfAll());
}

TEST_P(EitherReductionTest, WithFailuresTheJobFailsWithoutMerging) {
  Start({.kernel = GetParam(), .tasks = 2, .grain = 2});
  const std::vector<Grant> grants = h_->Take<Grant>(w_);
  Send(PartialOf({RunOf(grants.at(0), tree())}, {{1, 1, "bad"}}));
  EXPECT_EQ(status().state, JobState::kFailed);
  EXPECT_TRUE(h_->Take<MergeGrant>(w_).empty());
}

TEST_P(EitherReductionTest, AllowedFailuresAreLeftOutOfTheValue) {
  Start({.kernel = GetParam(), .tasks = 2, .grain = 2, .allow_failed = true});
  const std::vector<Grant> grants = h_->Take<Grant>(w_);
  Send(PartialOf({RunOf(grants.at(0), tree())}, {{1, 1, "bad"}}));
  EXPECT_EQ(status().state, JobState::kSucceeded);
  EXPECT_EQ(ValueOf(status().result), 1u);
}

TEST_P(EitherReductionTest, AFailureThatMayBeRetriedVoidsThePartialAndTheLeafRunsAlone) {
  Start({.kernel = GetParam(), .tasks = 64, .retries = 1});
  const std::vector<Grant> grants = h_->Take<Grant>(w_);
  Grant one = grants.at(0);
  one.count = 1;
  const LeafRun run = RunOf(one, tree());
  ASSERT_GE(run.leaves.count, 2u);
  Send(PartialOf({run}, {{run.leaves.first, 1, "flaky"}}));
  EXPECT_EQ(status().tasks_done, 0u);
  EXPECT_EQ(h_->core().counters().voided_commits, 1u);
  for (const Grant& grant : grants) SendLeases(grant, grant.first_n == one.first_n ? 1 : 0);
  Finish();
  EXPECT_EQ(status().state, JobState::kSucceeded);
  EXPECT_EQ(ValueOf(status().result), SumOfAll());
}

TEST_P(EitherReductionTest, ALeafThatIsGivenUpHasNoValue) {
  Start({.kernel = GetParam(),
         .tasks = 3,
         .crash_limit = 1,
         .allow_failed = true,
         .max_lease_leaves = 1});
  const std::vector<Grant> grants = h_->Take<Grant>(w_);
  const uint64_t lost = grants.at(0).first_leaf;
  h_->Crash(w_, job_, {grants[0].first_n, {lost, 1}});
  for (size_t i = 0; i < grants.size(); ++i) {
    for (uint64_t j = i == 0 ? 1 : 0; j < grants[i].count; ++j) {
      Send(PartialOf({{grants[i].first_n + j, {grants[i].first_leaf + j, 1}}}));
    }
  }
  Finish();
  EXPECT_EQ(status().state, JobState::kSucceeded);
  EXPECT_EQ(ValueOf(status().result), SumOfAll() - (lost + 1));
  EXPECT_EQ(status().tasks_failed, 1u);
}

TEST_F(ReductionsTest, WhereTheOrderCountsAMergeNamesLeavesWithoutAValueToo) {
  for (const TestKernel kernel : {TestKernel::kOrderedSum, TestKernel::kOwnMerge}) {
    Start({.kernel = kernel,
           .tasks = 4,
           .crash_limit = 1,
           .allow_failed = true,
           .max_lease_leaves = 1});
    const std::vector<Grant> grants = h_->Take<Grant>(w_);
    const uint64_t lost = grants.at(0).first_leaf;
    h_->Crash(w_, job_, {grants[0].first_n, {lost, 1}});
    for (size_t i = 0; i < grants.size(); ++i) SendLeases(grants[i], i == 0 ? 1 : 0);
    const std::vector<MergeGrant> merges = h_->Take<MergeGrant>(w_);
    ASSERT_EQ(merges.size(), 1u);
    uint64_t covered = 0;
    for (const Partial& input : merges[0].inputs) covered += input.leaves.at(0).count;
    EXPECT_EQ(covered, 4u);
    Merge(merges[0]);
    EXPECT_EQ(status().state, JobState::kSucceeded);
    EXPECT_EQ(ValueOf(status().result), SumOfAll() - (lost + 1));
  }
}

TEST_P(EitherReductionTest, IfEveryLeafIsGivenUpTheResultIsTheIdentity) {
  Start({.kernel = GetParam(), .tasks = 1, .crash_limit = 1, .allow_failed = true});
  const std::vector<Grant> grants = h_->Take<Grant>(w_);
  h_->Crash(w_, job_, RunOf(grants.at(0), tree()));
  Finish();
  EXPECT_EQ(status().state, JobState::kSucceeded);
  EXPECT_EQ(ValueOf(status().result), 0u);
}

TEST_P(EitherReductionTest, PartialsSurviveARestart) {
  Start({.kernel = GetParam(), .tasks = 4, .max_lease_leaves = 1});
  const std::vector<Grant> grants = h_->Take<Grant>(w_);
  Send(PartialOf({{grants.at(0).first_n, {grants[0].first_leaf, 1}}}));
  for (bool from_snapshot : {true, false}) {
    h_->Restart(from_snapshot);
    w_ = h_->Attach("w");
  }
  EXPECT_EQ(status().tasks_done, 1u);
  Finish();
  EXPECT_EQ(ValueOf(status().result), SumOfAll());
}

TEST_F(ReductionsTest, APartialOverLeavesThatAreNotAllHeldIsVoid) {
  Start({.kernel = TestKernel::kExactSum, .tasks = 100, .max_lease_leaves = 1});
  const Grant grant = h_->Take<Grant>(w_).at(0);
  ASSERT_GE(grant.count, 4u);
  Send(PartialOf({{grant.first_n, {0, 1}}}));
  Send(PartialOf({{grant.first_n, {0, 1}}, {grant.first_n + 2, {2, 2}}}));
  EXPECT_EQ(status().tasks_done, 1u) << "leaf 0 counts once, so 2 and 3 run again";
  EXPECT_EQ(h_->core().counters().voided_commits, 1u);
}

TEST_F(ReductionsTest, AnExactPartialMayCoverSeveralRuns) {
  Start({.kernel = TestKernel::kExactSum, .tasks = 100, .max_lease_leaves = 1});
  const Grant grant = h_->Take<Grant>(w_).at(0);
  Send(PartialOf({{grant.first_n, {0, 1}}, {grant.first_n + 2, {2, 2}}}));
  EXPECT_EQ(status().tasks_done, 3u);
}

TEST_F(ReductionsTest, AnOrderedPartialThatIsNoNodeIsVoid) {
  Start({.kernel = TestKernel::kOrderedSum, .tasks = 100, .max_lease_leaves = 1});
  const Grant grant = h_->Take<Grant>(w_).at(0);
  ASSERT_GE(grant.count, 3u);
  Send(PartialOf({{grant.first_n + 1, {1, 2}}}));
  EXPECT_EQ(status().tasks_done, 0u);
  EXPECT_EQ(h_->core().counters().voided_commits, 1u);
}

TEST_F(ReductionsTest, APartialThatCountsOtherTasksThanItsLeavesHaveIsVoid) {
  Start({.kernel = TestKernel::kExactSum, .tasks = 100, .max_lease_leaves = 1});
  const Grant grant = h_->Take<Grant>(w_).at(0);
  Commit commit = PartialOf({{grant.first_n, {0, 2}}});
  commit.tasks = 1;
  Send(commit);
  EXPECT_EQ(status().tasks_done, 0u);
}

}  // namespace
}  // namespace tandem::master
