// Random life: workers that commit, crash, return, vanish and come back, masters that restart from
// any prefix of their log. After every Step the invariants hold and a replay gives the same state;
// in the end every task is done by exactly one record, and sums count each once.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "common/base/rng.h"
#include "common/base/strings.h"
#include "tests/master/core/harness.h"

namespace tandem::master {
namespace {

struct ModelWorker {
  std::string name;
  WorkerId id;
  uint64_t incarnation = 1;
  bool attached = false;
  std::vector<Grant> grants;
  std::vector<MergeGrant> merges;
};

class RandomLife {
 public:
  explicit RandomLife(uint64_t seed) : rng_(seed), h_(OptionsFor(rng_)) {
    for (const char* name : {"a", "b", "c"}) workers_.emplace_back().name = name;
  }

  void Run(int steps) {
    for (int i = 0; i < steps; ++i) Disturb();
    disturbed_ = false;
    for (ModelWorker& w : workers_) {
      if (!w.attached) Attach(w);
      if (w.attached) h_.Step(DrainWorker{1, w.id, false, ""});
    }
    for (int i = 0; i < 20'000 && !Finished(); ++i) Work(workers_[rng_.Below(workers_.size())]);
    ASSERT_TRUE(Finished()) << "no progress" << Stuck();
    Check();
  }

 private:
  static Options OptionsFor(Rng& rng) {
    Options options;
    options.merge_inputs_max = 2 + rng.Below(6);
    return options;
  }

  void Disturb() {
    ModelWorker& w = workers_[rng_.Below(workers_.size())];
    switch (rng_.Below(14)) {
      case 0:
        if (jobs_.size() < 5) Submit();
        break;
      case 1:
        if (!w.attached) Attach(w);
        break;
      case 2:
        if (w.attached && rng_.Chance(0.3)) {
          h_.Detach(w.id);
          w.attached = false;
        }
        break;
      case 3:
        h_.Advance(absl::Milliseconds(rng_.Below(2500)));
        break;
      case 4:
        if (rng_.Chance(0.2)) Restart();
        break;
      case 5:
        if (!jobs_.empty() && rng_.Chance(0.1)) {
          h_.Step(CancelJob{1, jobs_[rng_.Below(jobs_.size())], "ann"});
        }
        break;
      case 6:
        if (w.attached) h_.Step(DrainWorker{1, w.id, rng_.Chance(0.3), ""});
        break;
      case 7:
        if (w.attached) h_.Pulse(w.id);
        break;
      default:
        if (w.attached) Work(w);
    }
  }

  void Submit() {
    JobBuilder builder;
    builder.kernel = static_cast<TestKernel>(rng_.Below(3));
    builder.tasks = rng_.Below(200);
    builder.grain = 1 + rng_.Below(4);
    builder.retries = static_cast<uint32_t>(rng_.Below(3));
    builder.crash_limit = static_cast<uint32_t>(1 + rng_.Below(3));
    builder.allow_failed = rng_.Chance(0.7);
    builder.priority = static_cast<int32_t>(rng_.Below(2));
    if (rng_.Chance(0.5)) builder.max_lease_leaves = 1 + rng_.Below(3);
    const JobId id = h_.Submit(builder, std::to_string(++requests_));
    jobs_.push_back(id);
    builders_[id] = builder;
  }

  // Comes back with some of what it held, and a lie now and then.
  void Attach(ModelWorker& w) {
    std::vector<HeldLeaves> held;
    for (const Grant& grant : w.grants) {
      if (rng_.Chance(0.3)) continue;
      const auto builder = builders_.find(grant.job);
      if (builder == builders_.end()) continue;
      const LeafRun run = RunOf(grant, TreeOf(grant.job));
      held.push_back({grant.job, run.leaves, grant.attempt, {Epoch(epoch_), grant.first_n}});
    }
    w.grants.clear();
    w.merges.clear();
    const WorkerId id =
        h_.Attach(w.name, 1 + rng_.Below(4), 1 + rng_.Below(64), held, w.incarnation);
    if (!id.valid()) {
      h_.Advance(absl::Seconds(6));
      return;
    }
    w.id = id;
    w.attached = true;
    for (const Grant& grant : h_.welcome().adopted) w.grants.push_back(grant);
    h_.Step(DrainWorker{1, w.id, false, ""});
  }

  // The master dies; any suffix of its log that no reply waited for may be gone.
  void Restart() {
    h_.RestartFromPrefix(rng_.Below(4));
    ++epoch_;
    for (ModelWorker& w : workers_) w.attached = false;
    std::erase_if(jobs_, [&](JobId id) { return !h_.core().Status(id).has_value(); });
    std::erase_if(builders_,
                  [&](const auto& entry) { return !h_.core().Status(entry.first).has_value(); });
  }

  RangeTree TreeOf(JobId id) const {
    const JobBuilder& b = builders_.at(id);
    return RangeTree(b.tasks, b.grain);
  }

  void Work(ModelWorker& w) {
    for (Grant& grant : h_.Take<Grant>(w.id)) w.grants.push_back(std::move(grant));
    for (MergeGrant& merge : h_.Take<MergeGrant>(w.id)) w.merges.push_back(std::move(merge));
    if (!w.attached) return;
    Report report;
    if (!w.merges.empty()) {
      report.merges.push_back(Merge(w.merges.back()));
      w.merges.pop_back();
    } else if (!w.grants.empty()) {
      const size_t which = rng_.Below(w.grants.size());
      const Grant grant = w.grants[which];
      w.grants.erase(w.grants.begin() + static_cast<ptrdiff_t>(which));
      if (!builders_.contains(grant.job)) return;
      RunPart(w, grant, &report);
    } else {
      h_.Advance(absl::Milliseconds(20));
      h_.Pulse(w.id);
      return;
    }
    if (rng_.Chance(0.2)) {
      report.rates.push_back({"map", DeviceKind::kCpu, 1.0 + rng_.NextDouble() * 1e4, 0});
    }
    h_.Report(w.id, report);
    if (disturbed_ && rng_.Chance(0.1)) h_.Report(w.id, report);  // Delivered twice.
  }

  // Runs a node of the grant, and keeps what is left of it.
  void RunPart(ModelWorker& w, const Grant& grant, Report* report) {
    const RangeTree tree = TreeOf(grant.job);
    Grant one = grant;
    one.count = 1;
    if (grant.count > 1) {
      Grant rest = grant;
      rest.first_n += 1;
      rest.first_leaf += uint64_t{1} << grant.level;
      --rest.count;
      w.grants.push_back(rest);
    }
    const LeafRun run = RunOf(one, tree);
    const double dice = rng_.NextDouble();
    if (disturbed_ && dice < 0.08) {
      Crash crash;
      crash.job = grant.job;
      crash.run = run;
      crash.signal = "SIGSEGV";
      const TaskRange tasks =
          tree.Tasks(LeafRange{run.leaves.first, run.leaves.first + run.leaves.count});
      crash.task_known = rng_.Chance(0.5);
      crash.task = tasks.begin + rng_.Below(tasks.size());
      if (rng_.Chance(0.5)) crash.suspected_leaves = rng_.Below(300);
      report->crashes.push_back(crash);
      return;
    }
    if (disturbed_ && dice < 0.15) {
      report->returns.push_back({grant.job, run});
      return;
    }
    report->commits.push_back(Result(grant, run, tree));
  }

  Commit Result(const Grant& grant, LeafRun run, const RangeTree& tree) {
    Commit commit;
    commit.job = grant.job;
    commit.runs = {run};
    commit.busy_ns = 1000 * (1 + rng_.Below(100));
    const TaskRange tasks =
        tree.Tasks(LeafRange{run.leaves.first, run.leaves.first + run.leaves.count});
    uint64_t value = 0;
    for (uint64_t task = tasks.begin; task < tasks.end; ++task) {
      const bool skipped = std::find(grant.skip_tasks.begin(), grant.skip_tasks.end(), task) !=
                           grant.skip_tasks.end();
      if (skipped || rng_.Chance(disturbed_ ? 0.02 : 0)) {
        commit.failures.push_back({task, grant.attempt, skipped ? "CRASH_LIMIT" : "bad"});
      } else {
        value += task + 1;
        ++commit.tasks;
      }
    }
    commit.outputs = OutputOf(value);
    return commit;
  }

  MergeCommit Merge(const MergeGrant& grant) {
    MergeCommit done;
    done.job = grant.job;
    done.n = grant.n;
    uint64_t value = 0;
    for (const Partial& input : grant.inputs) {
      if (input.outputs != nullptr) value += ValueOf(input.outputs);
      done.tasks += input.tasks;
    }
    done.outputs = OutputOf(value);
    return done;
  }

  bool Finished() const {
    return std::all_of(jobs_.begin(), jobs_.end(),
                       [&](JobId id) { return h_.Status(id).state >= JobState::kSucceeded; });
  }

  // Why nobody is given what is left.
  std::string Stuck() const {
    std::string text;
    for (JobId job : jobs_) {
      const JobStatus status = h_.Status(job);
      if (status.state >= JobState::kSucceeded) continue;
      text += StrCat("\njob ", job, " kernel ", static_cast<int>(builders_.at(job).kernel), ": ",
                     status.tasks_done, " of ", status.task_count);
      for (const WorkerView& worker : h_.core().Workers()) {
        text += StrCat("\n  ", worker.name, " phase ", static_cast<int>(worker.phase),
                       worker.draining ? " drained" : "", " holds ", worker.leases,
                       " leases: ", h_.core().Explain(job, worker.id));
      }
    }
    return text;
  }

  // The log, read by an oracle that knows only what records mean.
  void Check() {
    std::map<JobId, std::vector<int>> times;
    std::map<JobId, uint64_t> failed_sum, failed;
    for (const Record& record : h_.journal()) {
      const auto* done = std::get_if<LeavesDone>(&record);
      if (done == nullptr) continue;
      const RangeTree tree = TreeOf(done->job);
      auto& count = times.try_emplace(done->job, tree.leaf_count()).first->second;
      for (const LeafInterval& leaves : done->leaves) {
        for (uint64_t i = 0; i < leaves.count; ++i) ++count.at(leaves.first + i);
      }
      failed[done->job] += done->tasks_failed;
      for (const TaskFailure& failure : done->failures) failed_sum[done->job] += failure.task + 1;
    }
    for (JobId id : jobs_) {
      const JobStatus status = h_.Status(id);
      const RangeTree tree = TreeOf(id);
      for (int n : times[id]) EXPECT_LE(n, 1) << "a leaf done twice";
      EXPECT_EQ(status.tasks_failed, failed[id]);
      if (status.state == JobState::kCancelled) continue;
      const bool whole = times[id].size() == tree.leaf_count() || tree.empty();
      EXPECT_TRUE(whole) << "job " << id;
      for (int n : times[id]) EXPECT_EQ(n, 1) << "job " << id;
      EXPECT_EQ(status.tasks_done, tree.task_count());
      const bool may_fail = builders_.at(id).allow_failed || status.tasks_failed == 0;
      EXPECT_EQ(status.state, may_fail ? JobState::kSucceeded : JobState::kFailed);
      if (status.state != JobState::kSucceeded) continue;
      if (builders_.at(id).kernel == TestKernel::kMap) continue;
      const uint64_t all = tree.task_count() * (tree.task_count() + 1) / 2;
      EXPECT_EQ(ValueOf(status.result), all - failed_sum[id]) << "job " << id;
    }
  }

  Rng rng_;
  CoreHarness h_;
  std::vector<ModelWorker> workers_;
  std::vector<JobId> jobs_;
  std::map<JobId, JobBuilder> builders_;
  uint64_t requests_ = 0;
  uint64_t epoch_ = 1;
  bool disturbed_ = true;
};

class RandomTest : public testing::TestWithParam<uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Seeds, RandomTest, testing::Range<uint64_t>(0, 8));

TEST_P(RandomTest, EveryTaskIsDoneOnceWhateverHappens) {
  for (uint64_t seed = 25 * GetParam(); seed < 25 * (GetParam() + 1); ++seed) {
    SCOPED_TRACE(seed);
    RandomLife(seed).Run(250);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace tandem::master
