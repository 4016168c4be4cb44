// What the worker's core costs: a pull with all its bookkeeping (grant, piece, finish, report,
// acknowledgement), and the share of one one-task lease in it.
#include <benchmark/benchmark.h>

#include <string>
#include <variant>
#include <vector>

#include "worker/core/worker_core.h"

namespace tandem::worker {
namespace {

constexpr uint64_t kLeaves = uint64_t{1} << 40;

JobDescribed Job() {
  JobDescribed job;
  job.job = JobId(1);
  job.owner = "bench";
  job.kernel = "noop@0";
  job.task_count = kLeaves;
  job.grain = 1;
  job.appends = true;
  job.cost_ns_per_task = 1;
  return job;
}

// Each round grants `leases` leases of one leaf, finishes what was handed out, acknowledges.
void GrantRunReport(benchmark::State& state) {
  const auto leases = static_cast<uint64_t>(state.range(0));
  WorkerCore core({}, 1);
  MonoTime now = MonoTime::FromNanos(1'000'000'000);
  Effects effects;
  core.Step(Connected{}, now, &effects);
  core.Step(Job(), now, &effects);
  core.Step(Welcomed{WorkerId(1), Epoch(1), absl::Seconds(5), absl::Seconds(1), {}}, now, &effects);
  core.Step(Granted{{JobId(1), 1, 0, 0, 1, 1, false, {}}}, now, &effects);
  core.Settle(now, &effects);
  core.Step(ExecutorReady{1, 2, 2, DeviceKind::kCpu}, now, &effects);
  core.Settle(now, &effects);
  uint64_t next = 1;
  uint64_t pieces = 0;
  for (auto _ : state) {
    now = now.PlusNanos(100'000);
    std::vector<Event> events;
    for (auto& effect : effects.to_executors) {
      const auto* run = std::get_if<RunPiece>(&effect);
      if (run == nullptr) continue;
      PieceFinished done{1,  run->piece,       absl::Nanoseconds(run->leaves.count), {}, false, {},
                         {}, run->leaves.count};
      done.outputs.push_back({0, std::string(8 * run->leaves.count, 'x'), 0, 0});
      events.push_back(std::move(done));
      ++pieces;
    }
    if (!effects.reports.empty()) events.push_back(ReportAcked{effects.reports.back().number});
    events.push_back(Granted{{JobId(1), next + 1, next, 0, leases, 1, false, {}}});
    next += leases;
    effects = Effects();
    for (Event& event : events) core.Step(std::move(event), now, &effects);
    core.Settle(now, &effects);
    benchmark::DoNotOptimize(effects);
  }
  state.counters["per_lease"] = benchmark::Counter(
      static_cast<double>(next), benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  state.counters["per_pull"] = benchmark::Counter(
      static_cast<double>(pieces), benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK(GrantRunReport)->Arg(1)->Arg(16)->Arg(256)->Arg(1024);

}  // namespace
}  // namespace tandem::worker

BENCHMARK_MAIN();
