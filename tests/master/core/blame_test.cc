// Tasks that fail and leaves that crash.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/master/core/harness.h"

namespace tandem::master {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

class BlameTest : public testing::Test {
 protected:
  // Submits and returns the first grants: the whole job when it is small.
  std::vector<Grant> Start(JobBuilder builder) {
    builder_ = builder;
    if (!w_.valid()) {
      w_ = h_.Attach("w", 16);
      h_.Rate(w_, "map", 1e4);
      h_.Rate(w_, "count", 1e4);
    }
    job_ = h_.Submit(builder);
    return h_.Take<Grant>(w_);
  }
  RangeTree tree() const { return RangeTree(builder_.tasks, builder_.grain); }
  void CommitAll(const std::vector<Grant>& grants, std::vector<TaskFailure> failures = {}) {
    for (const Grant& grant : grants) {
      const LeafRun run = RunOf(grant, tree());
      const TaskRange tasks =
          tree().Tasks(LeafRange{run.leaves.first, run.leaves.first + run.leaves.count});
      std::vector<TaskFailure> of_run;
      for (const TaskFailure& failure : failures) {
        if (tasks.begin <= failure.task && failure.task < tasks.end) of_run.push_back(failure);
      }
      h_.CommitRun(w_, job_, run, of_run);
    }
  }
  // Grants and commits until nothing more comes.
  void Finish() {
    for (int i = 0; i < 50; ++i) {
      const std::vector<Grant> grants = h_.Take<Grant>(w_);
      if (grants.empty()) return;
      CommitAll(grants);
    }
  }
  JobStatus status() { return h_.Status(job_); }

  CoreHarness h_;
  JobBuilder builder_;
  WorkerId w_;
  JobId job_;
};

TEST_F(BlameTest, ATaskThatFailsIsDataAndItsNeighboursFinish) {
  std::vector<Grant> grants = Start({.tasks = 8});
  CommitAll(grants, {{3, 1, "truncated image"}});
  Finish();
  EXPECT_EQ(status().state, JobState::kFailed);
  EXPECT_EQ(status().tasks_done, 8u) << "all tasks ran";
  EXPECT_EQ(status().tasks_failed, 1u);
  EXPECT_THAT(status().reason, HasSubstr("TASK_FAILED: 1 of 8"));
}

TEST_F(BlameTest, AllowFailedMakesItASuccess) {
  CommitAll(Start({.tasks = 8, .allow_failed = true}), {{3, 1, "x"}});
  Finish();
  EXPECT_EQ(status().state, JobState::kSucceeded);
  EXPECT_EQ(status().tasks_failed, 1u);
}

TEST_F(BlameTest, MoreFailuresThanAllowedEndTheJobEarly) {
  const std::vector<Grant> grants = Start({.tasks = 1000, .max_task_failures = 1});
  const LeafRun run = RunOf(grants.at(0), tree());
  const uint64_t first = run.leaves.first;
  ASSERT_GE(run.leaves.count, 2u);
  h_.CommitRun(w_, job_, run, {{first, 1, "a"}, {first + 1, 1, "b"}});
  EXPECT_EQ(status().state, JobState::kFailed);
  EXPECT_THAT(status().reason, HasSubstr("max_task_failures = 1"));
  EXPECT_LT(status().tasks_done, 1000u);
  EXPECT_TRUE(h_.Take<Grant>(w_).empty());
}

TEST_F(BlameTest, AFailedTaskRunsAgainWhileRetriesAreLeft) {
  CommitAll(Start({.tasks = 4, .retries = 1}), {{2, 1, "flaky"}});
  Finish();
  EXPECT_EQ(status().state, JobState::kSucceeded);
  EXPECT_EQ(status().tasks_failed, 0u);
  EXPECT_EQ(status().retried_tasks, 1u);
}

TEST_F(BlameTest, TheRetryHasALargerAttemptAndNoRetriesAreLeftInTheEnd) {
  std::vector<Grant> grants = Start({.tasks = 1, .retries = 2});
  std::vector<uint32_t> attempts;
  for (int i = 0; i < 5 && !grants.empty(); ++i) {
    attempts.push_back(grants[0].attempt);
    h_.CommitRun(w_, job_, RunOf(grants[0], tree()), {{0, grants[0].attempt, "always"}});
    grants = h_.Take<Grant>(w_);
  }
  EXPECT_THAT(attempts, ElementsAre(1, 2, 3));
  EXPECT_EQ(status().state, JobState::kFailed);
}

TEST_F(BlameTest, OnlyTheFailedLeafRunsAgainAndItsNeighboursAreDone) {
  const std::vector<Grant> grants = Start({.tasks = 64, .grain = 2, .retries = 1});
  const LeafRun run = RunOf(grants.at(0), tree());
  ASSERT_GE(run.leaves.count, 2u);
  const Effects effects = h_.CommitRun(w_, job_, run, {{2 * run.leaves.first, 1, "flaky"}});
  const auto& done = std::get<LeavesDone>(effects.records.at(0));
  EXPECT_THAT(done.leaves, ElementsAre(LeafInterval{run.leaves.first + 1, run.leaves.count - 1}));
  EXPECT_THAT(done.covered, ElementsAre(run.leaves));
  EXPECT_TRUE(done.failures.empty());
  const auto& retried = std::get<LeavesRetried>(effects.records.at(1));
  EXPECT_EQ(retried.leaves, (LeafInterval{run.leaves.first, 1}));
  EXPECT_EQ(retried.failures, 1u);
}

TEST_F(BlameTest, FailuresOfTasksOutsideTheCommitAreIgnored) {
  const std::vector<Grant> grants = Start({.tasks = 4});
  h_.CommitRun(w_, job_, RunOf(grants.at(0), tree()), {{99, 1, "?"}, {3, 1, "?"}, {3, 1, "?"}});
  EXPECT_LE(status().tasks_failed, 1u);
}

TEST_F(BlameTest, ACrashGivesAStrikeAndTheLeafRunsAlone) {
  const std::vector<Grant> grants = Start({.tasks = 16, .grain = 4});
  const LeafRun run{grants.at(0).first_n, {grants[0].first_leaf, 1}};
  const Effects effects = h_.Crash(w_, job_, run);
  const auto& retried = std::get<LeavesRetried>(effects.records.at(0));
  EXPECT_EQ(retried.strikes, 1u);
  EXPECT_TRUE(retried.suspect);
  const std::vector<Grant> again = h_.Take<Grant>(w_);
  ASSERT_FALSE(again.empty());
  EXPECT_TRUE(again[0].suspect);
  EXPECT_EQ(again[0].first_leaf, run.leaves.first);
  EXPECT_EQ(again[0].count, 1u);
  EXPECT_EQ(again[0].attempt, 2u);
}

TEST_F(BlameTest, SuspectsRunOneAtATime) {
  const std::vector<Grant> grants = Start({.tasks = 64, .grain = 4});
  const LeafRun run = RunOf(grants.at(0), tree());
  ASSERT_GE(run.leaves.count, 2u);
  h_.Crash(w_, job_, {run.n, {run.leaves.first, 2}});
  int suspects = 0;
  for (const Grant& grant : h_.Take<Grant>(w_)) suspects += grant.suspect ? 1 : 0;
  EXPECT_EQ(suspects, 1);
}

TEST_F(BlameTest, ATaskThatCrashesAsOftenAsTheLimitIsGivenUpAndItsLeafGoesOn) {
  std::vector<Grant> grants = Start({.tasks = 4, .grain = 4, .crash_limit = 3});
  h_.Crash(w_, job_, RunOf(grants.at(0), tree()));
  for (int strike = 2; strike <= 3; ++strike) {
    grants = h_.Take<Grant>(w_);
    ASSERT_EQ(grants.size(), 1u);
    EXPECT_TRUE(grants[0].skip_tasks.empty());
    h_.Crash(w_, job_, RunOf(grants[0], tree()), /*task=*/2);
  }
  grants = h_.Take<Grant>(w_);
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_THAT(grants[0].skip_tasks, ElementsAre(2));
  h_.CommitRun(w_, job_, RunOf(grants[0], tree()), {{2, 4, "CRASH_LIMIT"}});
  EXPECT_EQ(status().tasks_failed, 1u);
  EXPECT_EQ(status().tasks_done, 4u);
}

TEST_F(BlameTest, AGivenUpTaskIsNotRetried) {
  std::vector<Grant> grants = Start({.tasks = 2, .grain = 2, .retries = 5, .crash_limit = 1});
  h_.Crash(w_, job_, RunOf(grants.at(0), tree()), 0);
  grants = h_.Take<Grant>(w_);
  ASSERT_EQ(grants.size(), 1u);
  h_.CommitRun(w_, job_, RunOf(grants[0], tree()), {{0, 2, "CRASH_LIMIT"}});
  EXPECT_EQ(status().state, JobState::kFailed);
  EXPECT_EQ(status().tasks_failed, 1u);
}

TEST_F(BlameTest, ALeafOfOneTaskIsGivenUpWithoutRunningAgain) {
  std::vector<Grant> grants = Start({.tasks = 1, .crash_limit = 3});
  for (int strike = 1; strike <= 3; ++strike) {
    ASSERT_EQ(grants.size(), 1u) << strike;
    h_.Crash(w_, job_, RunOf(grants[0], tree()));
    grants = h_.Take<Grant>(w_);
  }
  EXPECT_TRUE(grants.empty());
  EXPECT_EQ(status().state, JobState::kFailed);
  EXPECT_EQ(status().tasks_failed, 1u);
  bool named = false;
  for (const Record& record : h_.journal()) {
    const auto* done = std::get_if<LeavesDone>(&record);
    if (done == nullptr || done->failures.empty()) continue;
    named = true;
    EXPECT_THAT(done->failures[0].reason, HasSubstr("CRASH_LIMIT"));
    EXPECT_THAT(done->failures[0].reason, HasSubstr("SIGSEGV"));
  }
  EXPECT_TRUE(named);
}

TEST_F(BlameTest, StrikesSurviveARestart) {
  std::vector<Grant> grants = Start({.tasks = 1, .crash_limit = 2});
  h_.Crash(w_, job_, RunOf(grants.at(0), tree()));
  h_.Restart(true);
  w_ = h_.Attach("w");
  grants = h_.Take<Grant>(w_);
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_TRUE(grants[0].suspect);
  h_.Crash(w_, job_, RunOf(grants[0], tree()));
  EXPECT_EQ(status().state, JobState::kFailed);
}

TEST_F(BlameTest, AWorkerThatIsLostGivesNoStrikes) {
  Start({.tasks = 1, .crash_limit = 1});
  for (int i = 0; i < 3; ++i) {
    h_.Detach(w_);
    h_.Advance(absl::Seconds(2));
    w_ = h_.Attach("w");
  }
  const std::vector<Grant> grants = h_.Take<Grant>(w_);
  ASSERT_FALSE(grants.empty());
  EXPECT_FALSE(grants.back().suspect);
  EXPECT_EQ(status().tasks_failed, 0u);
}

TEST_F(BlameTest, NeighboursOfAKnownTaskGetNoBlame) {
  const std::vector<Grant> grants = Start({.tasks = 64, .grain = 4});
  const LeafRun run = RunOf(grants.at(0), tree());
  ASSERT_GE(run.leaves.count, 2u);
  h_.Crash(w_, job_, run, 4 * run.leaves.first);
  EXPECT_EQ(h_.core().counters().strikes, 1u);
}

TEST_F(BlameTest, AFatalFaultEndsTheJobAndALocalOneKeepsItOffThatWorker) {
  const std::vector<Grant> grants = Start({.tasks = 10});
  Report local;
  local.job_faults.push_back({job_, "PATH_CHANGED: /x", false});
  for (const Grant& grant : grants) local.returns.push_back({job_, RunOf(grant, tree())});
  h_.Report(w_, local);
  h_.Take<Grant>(w_);
  EXPECT_EQ(status().state, JobState::kRunning);
  const WorkerId other = h_.Attach("other");
  EXPECT_FALSE(h_.Take<Grant>(other).empty());
  EXPECT_TRUE(h_.Take<Grant>(w_).empty());
  Report fatal;
  fatal.job_faults.push_back({job_, "KERNEL_CHANGED: other hash", true});
  h_.Report(other, fatal);
  EXPECT_EQ(status().state, JobState::kFailed);
  EXPECT_EQ(status().reason, "KERNEL_CHANGED: other hash");
}

TEST_F(BlameTest, AWorkerThatCannotRunAJobNowIsAskedAgainLater) {
  const std::vector<Grant> grants = Start({.tasks = 4});
  Report fault;
  fault.job_faults.push_back({job_, "EXECUTOR_LOST: no memory", false});
  for (const Grant& grant : grants) fault.returns.push_back({job_, RunOf(grant, tree())});
  h_.Report(w_, fault);
  EXPECT_EQ(status().wait_reason, WaitReason::kUnsatisfiable);
  EXPECT_EQ(status().reason, "EXECUTOR_LOST: no memory");
  EXPECT_TRUE(h_.Take<Grant>(w_).empty());
  for (int second = 0; second < 12; ++second) {
    h_.Advance(absl::Seconds(1));
    h_.Pulse(w_);
  }
  Finish();
  EXPECT_EQ(status().state, JobState::kSucceeded);
  EXPECT_EQ(status().reason, "");
}

TEST_F(BlameTest, AJobThatEndsExecutorsBeforeItBeginsFailsAtItsCrashLimit) {
  std::vector<Grant> grants = Start({.tasks = 4, .crash_limit = 2});
  for (int i = 0; i < 2; ++i) {
    ASSERT_FALSE(grants.empty()) << i;
    Report fault;
    fault.job_faults.push_back({job_, "CRASH_LIMIT: the executor ended 8 times", false});
    for (const Grant& grant : grants) fault.returns.push_back({job_, RunOf(grant, tree())});
    h_.Report(w_, fault);
    for (int second = 0; second < 12; ++second) {
      h_.Advance(absl::Seconds(1));
      h_.Pulse(w_);
    }
    grants = h_.Take<Grant>(w_);
  }
  EXPECT_EQ(status().state, JobState::kFailed);
  EXPECT_THAT(status().reason, HasSubstr("CRASH_LIMIT"));
}

TEST_F(BlameTest, AJobOfWhichNothingButCrashesComesEndsBeforeEachOfItsTasksHasCrashed) {
  Start({.tasks = 100'000, .crash_limit = 1});
  int crashes = 0;
  for (; crashes < 1000 && status().state == JobState::kRunning; ++crashes) {
    if (crashes == 0) h_.Detach(w_), w_ = h_.Attach("w", 1);
    const std::vector<Grant> grants = h_.Take<Grant>(w_);
    for (const Grant& grant : grants) {
      const LeafRun run = RunOf(grant, tree());
      h_.Crash(w_, job_, {run.n, {run.leaves.first, 1}});
    }
  }
  EXPECT_EQ(status().state, JobState::kFailed);
  EXPECT_THAT(status().reason, HasSubstr("in a row"));
  EXPECT_LT(status().tasks_failed, 500u);
}

TEST_F(BlameTest, WhatADeadWorkerWasRunningGetsAStrikeAtItsReturnOnce) {
  const std::vector<Grant> grants = Start({.tasks = 16, .grain = 4});
  const uint64_t leaf = grants.at(0).first_leaf;
  h_.Detach(w_);
  w_ = h_.Attach("w", 16, 2048, {}, /*incarnation=*/2);
  h_.TellFormerLife(w_, {{job_, {leaf, 1}}});
  EXPECT_EQ(h_.core().counters().strikes, 1u);
  // It had been given the leaf again before it said so.
  EXPECT_THAT(h_.Take<Recall>(w_), SizeIs(1));
  const std::vector<Grant> again = h_.Take<Grant>(w_);
  ASSERT_FALSE(again.empty());
  EXPECT_EQ(again.back().first_leaf, leaf);
  EXPECT_TRUE(again.back().suspect);
  EXPECT_EQ(again.back().attempt, 2u);
  // The answer was lost: it says so again.
  h_.Detach(w_);
  w_ = h_.Attach("w", 16, 2048, {}, 2);
  h_.TellFormerLife(w_, {{job_, {leaf, 1}}});
  EXPECT_EQ(h_.core().counters().strikes, 1u);
  h_.Restart(true);
  w_ = h_.Attach("w", 16, 2048, {}, 3);
  h_.TellFormerLife(w_, {{job_, {leaf, 1}}});
  EXPECT_EQ(h_.core().counters().strikes, 1u) << "of this master";
  Finish();
  EXPECT_EQ(status().state, JobState::kSucceeded);
}

TEST_F(BlameTest, ATaskThatTakesItsWorkerDownIsGivenUpAtTheCrashLimit) {
  Start({.tasks = 1, .crash_limit = 3});
  for (uint64_t life = 2; life <= 4; ++life) {
    h_.Detach(w_);
    w_ = h_.Attach("w", 16, 2048, {}, life);
    h_.TellFormerLife(w_, {{job_, {0, 1}}});
  }
  EXPECT_EQ(status().state, JobState::kFailed);
  EXPECT_EQ(status().tasks_failed, 1u);
}

TEST_F(BlameTest, WhatADeadWorkerWasRunningMayBeElsewhereOrDoneMeanwhile) {
  std::vector<Grant> grants = Start({.tasks = 2, .crash_limit = 1});
  h_.Detach(w_);
  h_.Advance(absl::Seconds(2));
  const WorkerId other = h_.Attach("other", 16);
  grants = h_.Take<Grant>(other);
  ASSERT_FALSE(grants.empty());
  h_.CommitRun(other, job_, {grants[0].first_n, {0, 1}});
  w_ = h_.Attach("w", 16, 2048, {}, 2);
  h_.TellFormerLife(w_, {{job_, {0, 2}}, {JobId(99), {0, 1}}, {job_, {7, 1}}});
  EXPECT_EQ(status().tasks_failed, 0u) << "the second runs elsewhere: let it";
  for (size_t i = 0; i < grants.size(); ++i) {
    const LeafRun run = RunOf(grants[i], tree());
    if (run.leaves.first + run.leaves.count < 2) continue;
    h_.CommitRun(other, job_, {run.n + (1 - run.leaves.first), {1, 1}});
  }
  for (const Grant& grant : h_.Take<Grant>(other)) h_.CommitRun(other, job_, RunOf(grant, tree()));
  EXPECT_EQ(status().state, JobState::kSucceeded);
}

TEST_F(BlameTest, AnOverdueTaskThatIsKnownFailsAtOnceWithTimeLimit) {
  const std::vector<Grant> grants = Start({.tasks = 1, .time_limit = absl::Seconds(10)});
  h_.Crash(w_, job_, RunOf(grants.at(0), tree()), std::nullopt, /*overdue=*/true);
  EXPECT_EQ(status().state, JobState::kFailed);
  const auto& done = std::get<LeavesDone>(h_.journal().at(h_.journal().size() - 2));
  EXPECT_EQ(done.failures.at(0).reason,
            "TIME_LIMIT: it ran longer than the job's time limit of 10s");
}

TEST_F(BlameTest, OverdueLeavesRunAgainAloneWithoutAStrikeUntilTheTaskIsKnown) {
  std::vector<Grant> grants =
      Start({.tasks = 4, .grain = 4, .crash_limit = 1, .time_limit = absl::Seconds(10)});
  h_.Crash(w_, job_, RunOf(grants.at(0), tree()), std::nullopt, true);
  grants = h_.Take<Grant>(w_);
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_TRUE(grants[0].suspect);
  EXPECT_TRUE(grants[0].skip_tasks.empty());
  h_.Crash(w_, job_, RunOf(grants[0], tree()), /*task=*/2, true);
  h_.Restart(true);
  w_ = h_.Attach("w");
  grants = h_.Take<Grant>(w_);
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_THAT(grants[0].skip_tasks, ElementsAre(2));
  h_.CommitRun(w_, job_, RunOf(grants[0], tree()), {{2, 3, "CRASH_LIMIT: skipped"}});
  EXPECT_EQ(status().tasks_failed, 1u);
  bool named = false;
  for (const Record& record : h_.journal()) {
    const auto* done = std::get_if<LeavesDone>(&record);
    if (done == nullptr || done->failures.empty()) continue;
    named = true;
    EXPECT_THAT(done->failures[0].reason, HasSubstr("TIME_LIMIT"));
  }
  EXPECT_TRUE(named);
}

}  // namespace
}  // namespace tandem::master
