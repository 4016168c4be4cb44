#include "master/server/explain_notes.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "master/server/explain_job.h"

namespace tandem::master {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

worker::v1::LateRun LateAt(uint64_t first_leaf, uint64_t leaf_count) {
  worker::v1::LateRun run;
  run.set_job(7);
  run.set_first_leaf(first_leaf);
  run.set_leaf_count(leaf_count);
  run.set_device("cuda:GPU-a");
  run.set_running_ns(12'345'000'000);
  return run;
}

TEST(ExplainNotesTest, LateTasksAreNamedWithTheirDeviceAndForHowLong) {
  const v1::Finding finding = ExplainLateTasks(LateAt(2, 3), "w1", 100, 1000);
  EXPECT_EQ(finding.token(), "LATE");
  EXPECT_THAT(finding.what(),
              StartsWith("tasks [200,500) have run on cuda:GPU-a of worker w1 for 12.3s"));
  EXPECT_THAT(finding.advice(), HasSubstr("--time-limit"));
  EXPECT_THAT(finding.advice(), HasSubstr("tandem job cancel 7"));
}

TEST(ExplainNotesTest, TheLastLeafIsShortAndNoneIsBeyondTheJob) {
  EXPECT_THAT(ExplainLateTasks(LateAt(9, 1), "w", 100, 950).what(), StartsWith("tasks [900,950) "));
  EXPECT_THAT(ExplainLateTasks(LateAt(~uint64_t{0} - 1, 1), "w", 100, 950).what(),
              StartsWith("tasks [950,950) "));
}

TEST(ExplainNotesTest, ASuspectThatRunsTaskByTaskIsNamedAlone) {
  worker::v1::LateRun run = LateAt(2, 3);
  run.set_task_plus_1(223);
  EXPECT_THAT(ExplainLateTasks(run, "w", 100, 1000).what(), StartsWith("task 222 has run on "));
}

TEST(ExplainNotesTest, OfAWorkerTheLeavesAreNamed) {
  EXPECT_THAT(ExplainLateLeaves(LateAt(2, 3)).what(),
              StartsWith("leaves [2,5) of job 7 have run on cuda:GPU-a for 12.3s"));
}

TEST(ExplainNotesTest, WhatIsLateComesBeforeWhatWasSlow) {
  JobFacts job;
  job.state = v1::RUNNING;
  job.task_count = 1000;
  job.leaf_count = 10;
  job.grain = 100;
  job.late.push_back(ExplainLateTasks(LateAt(2, 3), "w", 100, 1000));
  EXPECT_EQ(ExplainJob(job).front().token(), "LATE");
}

}  // namespace
}  // namespace tandem::master
