// Who may commit what: leases, numbers, late and partial commits.
#include <gtest/gtest.h>

#include "tests/master/core/harness.h"

namespace tandem::master {
namespace {

constexpr uint64_t kTasks = 100'000;

// A worker that has measured its speed, a job of one-leaf leases, and its first large grant.
class LeasesTest : public testing::Test {
 protected:
  void SetUp() override {
    w_ = h_.Attach("w");
    h_.Rate(w_, "map", 1e6);
    h_.Pulse(w_);
    job_ = h_.Submit({.tasks = kTasks, .max_lease_leaves = 1});
    const std::vector<Grant> grants = h_.Take<Grant>(w_);
    ASSERT_EQ(grants.size(), 1u);
    grant_ = grants[0];
    ASSERT_GE(grant_.count, 100u);
  }
  uint64_t done() { return h_.Status(job_).tasks_done; }

  CoreHarness h_;
  WorkerId w_;
  JobId job_;
  Grant grant_;
};

TEST_F(LeasesTest, ThousandsOfLeasesAreOneGrant) {
  EXPECT_EQ(grant_.first_leaf, 0u);
  EXPECT_EQ(grant_.level, 0u);
  EXPECT_EQ(grant_.attempt, 1u);
}

TEST_F(LeasesTest, PartOfAGrantIsCommittedAndTheRestStaysLeased) {
  h_.CommitRun(w_, job_, {grant_.first_n + 10, {10, 5}});
  EXPECT_EQ(done(), 5u);
  h_.CommitRun(w_, job_, {grant_.first_n, {0, 10}});
  h_.CommitRun(w_, job_, {grant_.first_n + 15, {15, 5}});
  EXPECT_EQ(done(), 20u);
  EXPECT_EQ(h_.core().counters().stale_commits, 0u);
}

TEST_F(LeasesTest, ADuplicateReportCountsOnce) {
  h_.CommitRun(w_, job_, {grant_.first_n, {0, 10}});
  const Effects again = h_.CommitRun(w_, job_, {grant_.first_n, {0, 10}});
  EXPECT_EQ(done(), 10u);
  EXPECT_TRUE(again.records.empty());
  EXPECT_EQ(again.acks.size(), 1u) << "its bytes may go all the same";
  EXPECT_EQ(h_.core().counters().stale_commits, 1u);
}

TEST_F(LeasesTest, AnOverlappingCommitTakesOnlyWhatIsStillHeld) {
  h_.CommitRun(w_, job_, {grant_.first_n + 4, {4, 2}});
  const Effects effects = h_.CommitRun(w_, job_, {grant_.first_n, {0, 10}});
  const auto& done_record = std::get<LeavesDone>(effects.records.at(0));
  EXPECT_EQ(done_record.leaves, (LeafIntervals{{0, 4}, {6, 4}}));
  EXPECT_EQ(done_record.covered, (LeafIntervals{{0, 10}}));
  EXPECT_EQ(done(), 10u);
}

TEST_F(LeasesTest, AWrongNumberCommitsNothing) {
  h_.CommitRun(w_, job_, {grant_.first_n + 1, {0, 10}});
  EXPECT_EQ(done(), 0u);
  EXPECT_EQ(h_.core().counters().stale_commits, 1u);
}

TEST_F(LeasesTest, NobodyCommitsWhatAnotherHolds) {
  const WorkerId thief = h_.Attach("thief");
  h_.CommitRun(thief, job_, {grant_.first_n, {0, 10}});
  EXPECT_EQ(done(), 0u);
}

TEST_F(LeasesTest, RunsBeyondTheJobOrOutOfOrderAreDropped) {
  h_.CommitRun(w_, job_, {grant_.first_n, {0, 0}});
  h_.CommitRun(w_, job_, {grant_.first_n, {kTasks - 1, 2}});
  h_.CommitRun(w_, job_, {grant_.first_n, {1, UINT64_MAX}});
  Report report;
  Commit gap;
  gap.job = job_;
  gap.runs = {{grant_.first_n, {0, 1}}, {grant_.first_n + 2, {2, 1}}};
  gap.outputs = OutputOf(1);
  report.commits = {gap, Commit{}};
  h_.Report(w_, report);
  EXPECT_EQ(done(), 0u);
  EXPECT_EQ(h_.core().counters().malformed, 4u);
}

TEST_F(LeasesTest, LateReportFromOldLeaseIsIgnored) {
  h_.Detach(w_);
  h_.Advance(absl::Seconds(2));  // Beyond the reconnect grace: the leases are void.
  ASSERT_EQ(h_.Attach("w"), w_) << "it keeps its number";
  EXPECT_TRUE(h_.welcome().adopted.empty());
  const Effects late = h_.CommitRun(w_, job_, {grant_.first_n, {0, 10}});
  EXPECT_EQ(done(), 0u);
  EXPECT_EQ(h_.core().counters().stale_commits, 1u);
  EXPECT_EQ(late.acks.size(), 1u);
}

TEST_F(LeasesTest, LostLeavesComeBackWithALargerAttempt) {
  h_.CommitRun(w_, job_, {grant_.first_n, {0, 10}});
  h_.Detach(w_);
  h_.Advance(absl::Seconds(2));
  const WorkerId other = h_.Attach("other");
  h_.Rate(other, "map", 1e6);
  const std::vector<Grant> grants = h_.Take<Grant>(other);
  ASSERT_FALSE(grants.empty());
  EXPECT_EQ(grants[0].first_leaf, 10u) << "what was done stays done";
  EXPECT_EQ(grants[0].attempt, 2u);
  EXPECT_GT(grants[0].first_n, grant_.first_n);
  EXPECT_EQ(h_.Status(job_).retried_tasks, grant_.count - 10);
}

TEST_F(LeasesTest, ReturnedLeavesAreGrantedAgainAtTheSameAttempt) {
  Report report;
  report.returns.push_back({job_, {grant_.first_n, {0, grant_.count}}});
  h_.Report(w_, report);
  EXPECT_TRUE(h_.Take<Grant>(w_).empty()) << "not at once to the one who gave them back unasked";
  h_.Advance(absl::Milliseconds(60));
  uint64_t leaves = 0;
  for (const Grant& grant : h_.Take<Grant>(w_)) {
    EXPECT_EQ(grant.attempt, 1u);
    EXPECT_GT(grant.first_n, grant_.first_n);
    if (grant.first_leaf < grant_.count) leaves += grant.count;
  }
  EXPECT_EQ(leaves, grant_.count);
  EXPECT_EQ(h_.Status(job_).retried_tasks, 0u);
}

TEST_F(LeasesTest, NoMoreLeasesAreOutThanTheWorkerTakes) {
  const WorkerId small = h_.Attach("small", 1, 16);
  h_.Rate(small, "map", 1e9);
  uint64_t out = 0;
  for (const Grant& grant : h_.Take<Grant>(small)) out += grant.count;
  EXPECT_LE(out, 16u);
  EXPECT_GE(out, 8u);
}

TEST(LeasesOfHugeJobsTest, AJobOfTenToTheFifteenTasksIsOneRecordAndAFewIntervals) {
  CoreHarness h;
  const WorkerId w = h.Attach("w");
  h.Rate(w, "map", 1e9);
  const size_t before = h.journal().size();
  const JobId job = h.Submit({.tasks = 1'000'000'000'000'000, .grain = 1000});
  EXPECT_EQ(h.journal().size(), before + 2) << "its acceptance, and the numbers it reserves";
  for (int round = 0; round < 100; ++round) {
    for (const Grant& grant : h.Take<Grant>(w)) {
      EXPECT_LE(uint64_t{1000} << grant.level, 1'000'000'000u) << "a second at most";
      h.CommitRun(w, job, RunOf(grant, RangeTree(1'000'000'000'000'000, 1000)));
    }
  }
  std::vector<Record> snapshot;
  h.core().Snapshot(&snapshot);
  EXPECT_LE(snapshot.size(), 8u) << "ids, kernels, a worker, the job and what is done of it";
  EXPECT_GT(h.Status(job).tasks_done, 1'000'000'000u);
}

}  // namespace
}  // namespace tandem::master
