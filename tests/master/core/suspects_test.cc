// How one guilty task is found among many that were lost with it, and at what price.
#include "master/core/suspects.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/rng.h"
#include "tests/master/core/harness.h"

namespace tandem::master {
namespace {

using Task = std::pair<JobId, uint64_t>;

// A worker with one executor that is lost with everything in it whenever a guilty task is. What is
// granted and may run together makes one launch, as a GPU's would: nothing in it is told apart.
class OneLaunchAtATime {
 public:
  OneLaunchAtATime(CoreHarness* h, WorkerId worker) : h_(h), worker_(worker) {}

  void Watch(JobId job, const JobBuilder& builder) { jobs_[job] = builder; }
  void Condemn(JobId job, uint64_t task) { guilty_.insert({job, task}); }
  void Use(WorkerId worker) { worker_ = worker; }

  // Runs what comes until nothing does, or so many launches.
  void Run(uint64_t launches_max = 100'000) {
    for (uint64_t i = 0; i < launches_max; ++i) {
      for (Grant& grant : h_->Take<Grant>(worker_)) waiting_.push_back(std::move(grant));
      if (waiting_.empty()) return;
      Launch(TakeNext());
    }
  }
  void Forget() { waiting_.clear(); }

  uint64_t launches() const { return launches_; }
  uint64_t losses() const { return losses_; }
  uint64_t leases() const { return leases_; }
  // Of the first launch that was lost.
  uint64_t company() const { return company_; }
  const std::vector<uint64_t>& sizes() const { return sizes_; }  // of launches of suspects

 private:
  std::vector<Grant> TakeNext() {
    std::vector<Grant> launch, rest;
    const Grant first = waiting_.front();
    for (Grant& grant : waiting_) {
      const bool joins = grant.suspect == first.suspect && grant.suspect_set == first.suspect_set &&
                         (!first.suspect || first.suspect_set != 0 || launch.empty());
      (joins ? launch : rest).push_back(std::move(grant));
    }
    waiting_ = std::move(rest);
    return launch;
  }

  RangeTree TreeOf(JobId job) const { return {jobs_.at(job).tasks, jobs_.at(job).grain}; }
  TaskRange TasksOf(const Grant& grant) const {
    const LeafRun run = RunOf(grant, TreeOf(grant.job));
    return TreeOf(grant.job).Tasks(
        LeafRange{run.leaves.first, run.leaves.first + run.leaves.count});
  }
  // The first guilty task that runs in the grant.
  std::optional<uint64_t> GuiltyIn(const Grant& grant) const {
    const TaskRange tasks = TasksOf(grant);
    auto it = guilty_.lower_bound({grant.job, tasks.begin});
    for (; it != guilty_.end() && it->first == grant.job && it->second < tasks.end; ++it) {
      if (std::ranges::count(grant.skip_tasks, it->second) == 0) return it->second;
    }
    return std::nullopt;
  }

  void Launch(const std::vector<Grant>& launch) {
    ++launches_;
    uint64_t leaves = 0;
    bool lost = false;
    std::set<std::string> owners;
    for (const Grant& grant : launch) {
      leaves += RunOf(grant, TreeOf(grant.job)).leaves.count;
      leases_ += grant.count;
      lost |= GuiltyIn(grant).has_value();
      owners.insert(jobs_.at(grant.job).owner);
    }
    if (launch.front().suspect) {
      sizes_.push_back(leaves);
      EXPECT_EQ(owners.size(), 1u) << "suspects of two owners in one executor";
    }
    if (!lost) return Commit(launch);
    if (++losses_ == 1) company_ = leaves;
    tandem::Report report;
    for (const Grant& grant : launch) {
      tandem::Crash crash;
      crash.job = grant.job;
      crash.run = RunOf(grant, TreeOf(grant.job));
      crash.signal = "SIGTRAP";
      crash.suspected_leaves = leaves;
      const bool alone = grant.suspect && launch.size() == 1 && leaves == 1;
      crash.task_known = alone;  // It runs task by task.
      crash.task = alone ? *GuiltyIn(grant) : 0;
      report.crashes.push_back(std::move(crash));
    }
    h_->Report(worker_, std::move(report));
  }

  void Commit(const std::vector<Grant>& launch) {
    tandem::Report report;
    for (const Grant& grant : launch) {
      for (uint64_t i = 0; i < grant.count; ++i) {  // A partial is one node's.
        Grant lease = grant;
        lease.first_n += i;
        lease.first_leaf += i << grant.level;
        lease.count = 1;
        CommitLease(lease, &report);
      }
    }
    h_->Report(worker_, std::move(report));
  }

  void CommitLease(const Grant& lease, tandem::Report* report) {
    tandem::Commit commit;
    commit.job = lease.job;
    commit.runs.push_back(RunOf(lease, TreeOf(lease.job)));
    commit.outputs = OutputOf(1);
    for (uint64_t task : lease.skip_tasks) {
      commit.failures.push_back({task, lease.attempt, "CRASH_LIMIT"});
    }
    commit.tasks = TasksOf(lease).size() - lease.skip_tasks.size();
    commit.busy_ns = commit.tasks;
    report->commits.push_back(std::move(commit));
  }

  CoreHarness* h_;
  WorkerId worker_;
  std::map<JobId, JobBuilder> jobs_;
  std::set<Task> guilty_;
  std::vector<Grant> waiting_;
  uint64_t launches_ = 0, losses_ = 0, leases_ = 0, company_ = 0;
  std::vector<uint64_t> sizes_;
};

uint64_t Log2(uint64_t n) {
  return static_cast<uint64_t>(std::ceil(std::log2(static_cast<double>(n))));
}

class SuspectsTest : public testing::Test {
 protected:
  SuspectsTest() : w_(h_.Attach("w", 16)), world_(&h_, w_) {
    h_.Rate(w_, "map", 1e13);  // All of a job is in flight at once.
    h_.Rate(w_, "sum", 1e13);
  }
  JobId Start(const JobBuilder& builder) {
    const JobId job = h_.Submit(builder);
    world_.Watch(job, builder);
    return job;
  }
  // Tasks that failed, as the journal says.
  std::set<Task> Failed() const {
    std::set<Task> failed;
    for (const Record& record : h_.journal()) {
      const auto* done = std::get_if<LeavesDone>(&record);
      if (done == nullptr) continue;
      for (const TaskFailure& failure : done->failures) failed.insert({done->job, failure.task});
    }
    return failed;
  }
  void ExpectOnlyFailed(const std::set<Task>& guilty) {
    EXPECT_EQ(Failed(), guilty);
    for (JobId job : h_.core().Jobs()) {
      const JobStatus status = h_.Status(job);
      EXPECT_EQ(status.tasks_done, status.task_count) << "job " << job;
    }
  }

  CoreHarness h_;
  WorkerId w_;
  OneLaunchAtATime world_;
};

// By hand: 8 are lost together, then 4, 2 and 1 of them; what runs alone has no company to halve.
TEST_F(SuspectsTest, EachLossHalvesWhatMayRunTogether) {
  const auto level = [](uint64_t lost, bool suspect, uint8_t before) {
    Retry retry;
    retry.suspect = suspect;
    retry.level = before;
    return static_cast<int>(LevelAfterLoss(retry, lost, /*overdue=*/false));
  };
  EXPECT_EQ(level(1, false, 0), 0);
  EXPECT_EQ(level(2, false, 0), 0);
  EXPECT_EQ(level(3, false, 0), 1);
  EXPECT_EQ(level(4, false, 0), 1);
  EXPECT_EQ(level(8, false, 0), 2);
  EXPECT_EQ(level(9, false, 0), 3);
  EXPECT_EQ(level(8, true, 3), 2);
  EXPECT_EQ(level(8, true, 2), 1) << "each loss of suspects tells something";
  EXPECT_EQ(level(1, true, 7), 0) << "a page that names few of them tells more";
  EXPECT_EQ(level(1u << 20, true, 0), 0);
  EXPECT_LE(level(~uint64_t{0}, false, 0), 40);
}

TEST_F(SuspectsTest, WhatTakesItsTimeLimitEachTimeIsLostFourTimesInsteadOfSeventeen) {
  std::vector<int> levels;
  Retry retry;
  for (uint64_t lost = 100'000; lost > 1; lost = uint64_t{1} << retry.level) {
    retry.level = LevelAfterLoss(retry, lost, /*overdue=*/true);
    retry.suspect = true;
    levels.push_back(retry.level);
  }
  EXPECT_THAT(levels, testing::ElementsAre(8, 4, 0));
  EXPECT_EQ(LevelAfterLoss({}, 16, true), 0);
}

TEST_F(SuspectsTest, OneGuiltyTaskOfAHundredThousandCostsAboutItsLogarithm) {
  for (const uint64_t guilty : {0u, 49'999u, 77'777u, 99'999u}) {
    const JobId job = Start({.tasks = 100'000});
    OneLaunchAtATime world(&h_, w_);
    world.Watch(job, {.tasks = 100'000});
    world.Condemn(job, guilty);
    world.Run();
    ASSERT_GE(world.company(), 50'000u);
    const uint64_t n = Log2(world.company());
    EXPECT_LE(world.losses(), n + 3) << guilty;
    EXPECT_LE(world.launches(), 2 * n + 2 * 3 + 2) << guilty;
    EXPECT_LE(world.leases(), 3 * 2 * n + 2048) << "nodes, not leaves";
    EXPECT_EQ(h_.Status(job).tasks_failed, 1u);
    EXPECT_EQ(h_.Status(job).tasks_done, 100'000u);
    EXPECT_TRUE(Failed().contains({job, guilty}));
  }
  EXPECT_EQ(Failed().size(), 4u);
}

TEST_F(SuspectsTest, TwoGuiltyTasksCostTwiceThat) {
  for (const uint64_t other : {1u, 2u, 60'000u}) {
    const JobId job = Start({.tasks = 100'000});
    OneLaunchAtATime world(&h_, w_);
    world.Watch(job, {.tasks = 100'000});
    world.Condemn(job, 12'345);
    world.Condemn(job, 12'345 + other);
    world.Run();
    EXPECT_LE(world.losses(), 2 * (Log2(world.company()) + 3));
    EXPECT_LE(world.launches(), 4 * (Log2(world.company()) + 3));
    EXPECT_EQ(h_.Status(job).tasks_failed, 2u);
    EXPECT_EQ(h_.Status(job).tasks_done, 100'000u);
  }
}

TEST_F(SuspectsTest, ManyJobsThatSharedALaunchAreBisectedAsOne) {
  std::set<Task> guilty;
  for (int i = 0; i < 700; ++i) {
    const JobId job = Start({.tasks = 1});
    if (i != 321) continue;
    world_.Condemn(job, 0);
    guilty.insert({job, 0});
  }
  world_.Run();
  ASSERT_GE(world_.company(), 500u);
  EXPECT_LE(world_.losses(), Log2(world_.company()) + 3);
  EXPECT_LE(world_.launches(), 2 * (Log2(world_.company()) + 3));
  ExpectOnlyFailed(guilty);
}

TEST_F(SuspectsTest, SuspectsOfOtherOwnersStayApart) {
  std::set<Task> guilty;
  for (int i = 0; i < 40; ++i) {
    JobBuilder builder{.tasks = 1 + static_cast<uint64_t>(i) % 3};
    builder.owner = i % 2 == 0 ? "ann" : "bob";
    const JobId job = Start(builder);
    if (i != 11 && i != 12) continue;
    world_.Condemn(job, 0);
    guilty.insert({job, 0});
  }
  world_.Run();
  ExpectOnlyFailed(guilty);
}

TEST_F(SuspectsTest, AfterARestartTheBisectionGoesOnWhereItWas) {
  const JobId job = Start({.tasks = 100'000});
  world_.Condemn(job, 31'415);
  world_.Run(1 + 9);
  const uint64_t before = world_.sizes().back();
  ASSERT_LT(before, 100'000u / 8);
  for (const bool snapshot : {false, true}) {
    h_.Restart(snapshot);
    world_.Forget();
    w_ = h_.Attach("w", 16);
    world_.Use(w_);
    h_.Rate(w_, "map", 1e13);
    world_.Run(1);
    EXPECT_LE(world_.sizes().back(), before);
  }
  world_.Run();
  EXPECT_LE(world_.losses(), Log2(world_.company()) + 3);
  EXPECT_LE(world_.launches(), 2 * (Log2(world_.company()) + 3) + 2);
  ExpectOnlyFailed({{job, 31'415}});
}

TEST_F(SuspectsTest, WhateverTheCrashLimitNobodyIsGivenUpForItsCompany) {
  for (const uint32_t limit : {1u, 2u, 7u}) {
    const JobId job = Start({.tasks = 1000, .grain = 3, .crash_limit = limit});
    OneLaunchAtATime world(&h_, w_);
    world.Watch(job, {.tasks = 1000, .grain = 3});
    world.Condemn(job, 500);
    world.Run();
    EXPECT_EQ(h_.Status(job).tasks_failed, 1u) << limit;
    EXPECT_EQ(h_.Status(job).tasks_done, 1000u) << limit;
    EXPECT_LE(world.losses(), Log2(world.company()) + limit + 1);
    EXPECT_TRUE(Failed().contains({job, 500}));
  }
}

TEST_F(SuspectsTest, NodesOfAnOrderedSumStayNodes) {
  JobBuilder builder{.kernel = TestKernel::kOrderedSum, .tasks = 3000, .grain = 2};
  builder.max_lease_leaves = 64;
  const JobId job = Start(builder);
  world_.Condemn(job, 1001);
  world_.Run();
  EXPECT_LE(world_.losses(), Log2(world_.company()) + 3);
  EXPECT_EQ(Failed(), (std::set<Task>{{job, 1001}}));
}

TEST_F(SuspectsTest, OfLeavesInCompanyOnlyTheFirstStrikeCounts) {
  const JobId job = Start({.tasks = 64});
  world_.Condemn(job, 5);
  world_.Run();
  uint32_t most = 0, lone = 0;
  for (const Record& record : h_.journal()) {
    const auto* retried = std::get_if<LeavesRetried>(&record);
    if (retried == nullptr) continue;
    most = std::max(most, retried->strikes);
    if (retried->task_known) {
      EXPECT_EQ(retried->task, 5u);
      lone = std::max(lone, retried->task_strikes);
    }
  }
  EXPECT_EQ(most, 1u);
  EXPECT_EQ(lone, 2u) << "with the first: three, the limit";
}

// Whoever is guilty, and however many: all others end well, and they alone do not.
TEST_F(SuspectsTest, RandomGuiltFailsAloneWithinItsBound) {
  Rng rng(20261201);
  for (int round = 0; round < 60; ++round) {
    OneLaunchAtATime world(&h_, w_);
    std::set<Task> guilty;
    std::vector<JobId> jobs;
    const uint64_t count = rng.Between(1, 12);
    for (uint64_t i = 0; i < count; ++i) {
      JobBuilder builder{.tasks = rng.Between(1, 400), .grain = rng.Between(1, 4)};
      if (rng.Chance(0.3)) builder.max_lease_leaves = rng.Between(1, 16);
      const JobId job = Start(builder);
      world.Watch(job, builder);
      jobs.push_back(job);
      if (!rng.Chance(0.3)) continue;
      const uint64_t task = rng.Below(builder.tasks);
      world.Condemn(job, task);
      guilty.insert({job, task});
    }
    world.Run();
    std::set<Task> failed;
    for (const Task& task : Failed()) {
      if (std::ranges::count(jobs, task.first) > 0) failed.insert(task);
    }
    EXPECT_EQ(failed, guilty) << "round " << round;
    const uint64_t n = Log2(std::max<uint64_t>(world.company(), 2));
    EXPECT_LE(world.losses(), guilty.size() * (n + 4)) << "round " << round;
  }
}

}  // namespace
}  // namespace tandem::master
