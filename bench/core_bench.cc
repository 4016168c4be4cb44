// The master's core alone: what a lease costs in grants, commits and records, without a wire, a
// disk or a worker. One iteration is one lease of one task.
#include <benchmark/benchmark.h>

#include "tests/master/core/harness.h"

namespace tandem::master {
namespace {

// A core with one attached worker that has measured its speed, and one endless map of one-task
// leases.
struct Bench {
  MasterCore core{Options()};
  MonoTime now = MonoTime::FromNanos(1'000'000'000);
  Effects effects;
  WorkerId worker;
  JobId job;
  uint64_t report = 0;

  explicit Bench(uint64_t max_leases) {
    core.Recovered(Epoch(1), now);
    WorkerAttach attach;
    attach.token = 1;
    attach.name = "w";
    attach.incarnation = 1;
    attach.max_leases = max_leases;
    attach.kernels = {KernelFor(TestKernel::kMap)};
    core.Step(attach, now, &effects);
    worker = std::get<WelcomeWorker>(effects.to_workers.at(0).what).worker;
    WorkerReported rates{worker, {}};
    rates.report.rates.push_back({"map", DeviceKind::kCpu, 1e7, 0});
    core.Step(rates, now, &effects);
    core.Step(WorkerPulsed{worker, absl::Microseconds(200)}, now, &effects);
    effects = Effects();
    JobBuilder builder;
    builder.tasks = uint64_t{1} << 50;
    builder.max_lease_leaves = 1;
    core.Step(SubmitJob{2, builder.Build(), "", 1, absl::UnixEpoch()}, now, &effects);
    job = *effects.replies.at(0).result;
    core.Step(JobDurable{job}, now, &effects);
  }
};

void Clear(Effects* effects) {
  effects->records.clear();
  effects->to_workers.clear();
  effects->describes.clear();
  effects->acks.clear();
  effects->statuses.clear();
  effects->replies.clear();
}

// range(0): leases in flight; range(1): leases in one commit, 16 commits in one report.
void BM_GrantAndCommit(benchmark::State& state) {
  Bench bench(static_cast<uint64_t>(state.range(0)));
  const auto commit_leases = static_cast<uint64_t>(state.range(1));
  std::vector<Grant> grants;
  const OutputsHandle outputs = OutputOf(1);
  uint64_t leases = 0;
  WorkerReported event{bench.worker, {}};
  const auto collect = [&] {
    for (const ToWorker& message : bench.effects.to_workers) {
      if (const auto* grant = std::get_if<Grant>(&message.what)) grants.push_back(*grant);
    }
    Clear(&bench.effects);
  };
  collect();
  while (state.KeepRunningBatch(static_cast<benchmark::IterationCount>(16 * commit_leases))) {
    const uint64_t wanted = leases + 16 * commit_leases;
    while (leases < wanted) {
      event.report.number = ++bench.report;
      event.report.commits.clear();
      while (!grants.empty() && event.report.commits.size() < 16) {
        Grant& grant = grants.front();
        const uint64_t count = std::min(grant.count, commit_leases);
        Commit& commit = event.report.commits.emplace_back();
        commit.job = bench.job;
        commit.runs.push_back({grant.first_n, {grant.first_leaf, count}});
        commit.outputs = outputs;
        commit.busy_ns = 100 * count;
        leases += count;
        grant.first_n += count;
        grant.first_leaf += count;
        grant.count -= count;
        if (grant.count == 0) grants.erase(grants.begin());
      }
      bench.now += absl::Microseconds(10);
      bench.core.Step(event, bench.now, &bench.effects);
      collect();
    }
  }
  state.SetItemsProcessed(static_cast<int64_t>(leases));
}
BENCHMARK(BM_GrantAndCommit)
    ->ArgNames({"in_flight", "a_commit"})
    ->Args({1, 1})
    ->Args({16, 1})
    ->Args({256, 1})
    ->Args({2048, 1})
    ->Args({2048, 64});

void BM_AcceptJob(benchmark::State& state) {
  MonoTime now = MonoTime::FromNanos(1'000'000'000);
  JobBuilder builder;
  builder.tasks = static_cast<uint64_t>(state.range(0));
  const auto bound = builder.Build();
  Options options;
  options.limits.jobs_max = UINT64_MAX;
  MasterCore core(options);
  core.Recovered(Epoch(1), now);
  Effects effects;
  for (auto _ : state) {
    core.Step(SubmitJob{1, bound, "", 1, absl::UnixEpoch()}, now, &effects);
    effects = Effects();
  }
}
BENCHMARK(BM_AcceptJob)->Arg(1'000'000'000)->Arg(1'000'000'000'000'000)->Iterations(20'000);

// A record is a commit of 64 leases.
void BM_Replay(benchmark::State& state) {
  JobBuilder builder;
  builder.tasks = uint64_t{1} << 50;
  for (auto _ : state) {
    MasterCore core{Options()};
    core.Replay(JobAccepted{JobId(1), builder.Build(), "", 1, absl::UnixEpoch()});
    for (uint64_t i = 0; i < 100'000; ++i) {
      LeavesDone done;
      done.job = JobId(1);
      done.leaves.push_back({64 * i, 64});
      core.Replay(done);
    }
    benchmark::DoNotOptimize(core.DurableHash());
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()) * 100'000);
}
BENCHMARK(BM_Replay);

}  // namespace
}  // namespace tandem::master
