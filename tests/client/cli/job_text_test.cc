#include "client/cli/job_text.h"

#include <gtest/gtest.h>

#include "absl/time/clock.h"

namespace tandem::cli {
namespace {

client::JobInfo Job(client::JobState state) {
  client::JobInfo job;
  job.id = JobId(7);
  job.state = state;
  job.spec.kernel = "noop@00000000000000aa";
  job.spec.split_axis = "n";
  job.spec.grain = 10;
  job.task_count = 1000;
  job.tasks_done = 250;
  job.leaf_count = 100;
  return job;
}

TEST(WaitTextTest, EachReasonSaysWhatWouldEndTheWait) {
  for (const char* reason : {"NO_WORKER", "NO_KERNEL", "RESOURCES", "DEPENDENCY", "QUOTA",
                             "PRIORITY", "UNSATISFIABLE", "DRAINED"}) {
    EXPECT_NE(WaitText(reason), "") << reason;
  }
  EXPECT_EQ(WaitText(""), "");
}

TEST(ProgressLineTest, SaysHowFarAndWhyItWaits) {
  client::JobInfo job = Job(client::JobState::kRunning);
  EXPECT_EQ(ProgressLine(job), "job 7 RUNNING: 250 of 1.00 k tasks (25.0%)");
  job.tasks_failed = 2;
  job.wait_reason = "NO_WORKER";
  job.submitted = absl::Now() - absl::Hours(1);
  EXPECT_NE(ProgressLine(job).find(", 2 failed, for 1h; waits (NO_WORKER): no worker is attached"),
            std::string::npos)
      << ProgressLine(job);
}

TEST(EndLineTest, SaysHowItEnded) {
  client::JobInfo job = Job(client::JobState::kSucceeded);
  job.tasks_done = 1000;
  job.submitted = absl::FromUnixSeconds(100);
  job.ended = absl::FromUnixSeconds(102);
  EXPECT_EQ(EndLine(job), "job 7 SUCCEEDED; 1.00 k tasks, 2s (500 tasks/s)");
  EXPECT_EQ(ProgressLine(job), EndLine(job));
}

TEST(JobRecordTest, AWaitIsExplainedUntilTheJobHasEnded) {
  client::JobInfo job = Job(client::JobState::kPending);
  job.wait_reason = "NO_WORKER";
  EXPECT_NE(JobRecord(job).Render(Format::kTable).find("waits       no worker is attached"),
            std::string::npos)
      << JobRecord(job).Render(Format::kTable);
  job.state = client::JobState::kCancelled;
  EXPECT_EQ(JobRecord(job).Render(Format::kTable).find("waits"), std::string::npos);
  EXPECT_EQ(JobRecord(job).Render(Format::kName), "7\n");
}

TEST(PlanRecordTest, TellsBytesOfWhatGoesInAndOut) {
  client::JobPlan plan;
  plan.spec.kernel = "kmer_count@00000000000000aa";
  plan.operands.push_back({"base", "sliced along n", 4000});
  plan.outputs.push_back({"count", TensorSpec{DType::kU32, {int64_t{1} << 30}}, true, -1});
  const std::string text = PlanRecord(plan, 4000).Render(Format::kTable);
  EXPECT_NE(text.find("count u32[1073741824]: 4GiB, reduced"), std::string::npos) << text;
  EXPECT_NE(text.find("to upload   3.91KiB"), std::string::npos) << text;
}

}  // namespace
}  // namespace tandem::cli
