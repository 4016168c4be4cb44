// The life of a job in the core, event by event.
#include "master/core/core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/error.h"
#include "tests/master/core/harness.h"

namespace tandem::master {
namespace {

TEST(CoreTest, MapIsGrantedCommittedAndDone) {
  CoreHarness h;
  const WorkerId w = h.Attach("w");
  const JobBuilder builder{.tasks = 3};
  const JobId job = h.Submit(builder);
  uint64_t leaves = 0;
  Effects last;
  for (int round = 0; round < 10 && leaves < 3; ++round) {
    for (const Grant& grant : h.Take<Grant>(w)) {
      const LeafRun run = RunOf(grant, RangeTree(3, 1));
      leaves += run.leaves.count;
      last = h.CommitRun(w, job, run);
    }
  }
  EXPECT_EQ(leaves, 3u);
  ASSERT_EQ(last.statuses.size(), 1u);
  EXPECT_EQ(last.statuses[0].state, JobState::kSucceeded);
  EXPECT_EQ(last.statuses[0].tasks_done, 3u);
  ASSERT_EQ(last.drops.size(), 1u);
  EXPECT_EQ(last.drops[0].job, job);
  EXPECT_EQ(last.acks.size(), 1u);
}

TEST(CoreTest, ExactSumEndsWithItsOnlyPartialAsResult) {
  CoreHarness h;
  const WorkerId w = h.Attach("w");
  const JobId job = h.Submit({.kernel = TestKernel::kExactSum, .tasks = 4});
  uint64_t leaves = 0;
  while (leaves < 4) {
    const std::vector<Grant> grants = h.Take<Grant>(w);
    ASSERT_FALSE(grants.empty());
    for (const Grant& grant : grants) {
      const LeafRun run = RunOf(grant, RangeTree(4, 1));
      leaves += run.leaves.count;
      h.CommitRun(w, job, run);
    }
  }
  EXPECT_EQ(h.Status(job).state, JobState::kMerging);
  const std::vector<MergeGrant> merges = h.Take<MergeGrant>(w);
  ASSERT_EQ(merges.size(), 1u);
  MergeCommit done{.job = job, .n = merges[0].n, .outputs = nullptr, .error = ""};
  uint64_t value = 0;
  for (const Partial& input : merges[0].inputs) {
    value += ValueOf(input.outputs);
    done.tasks += input.tasks;
  }
  done.outputs = OutputOf(value);
  Report report;
  report.merges.push_back(done);
  h.Report(w, report);
  EXPECT_EQ(h.Status(job).state, JobState::kSucceeded);
  EXPECT_EQ(ValueOf(h.Status(job).result), 4u);
}

}  // namespace
}  // namespace tandem::master
