// What a pull costs with all its bookkeeping: asked for, taken, finished and learned from, on a
// server whose other devices are all busy; and what it costs to be told to pull nothing.
#include <benchmark/benchmark.h>

#include <vector>

#include "worker/core/puller.h"

namespace tandem::worker {
namespace {

MonoTime At(int64_t nanos) { return MonoTime::FromNanos(1'000'000'000 + nanos); }

struct Server {
  explicit Server(uint32_t devices) {
    for (uint32_t i = 0; i < devices; ++i) {
      PullDevice told;
      told.end = i < 2 ? PoolEnd::kBack : PoolEnd::kFront;
      told.seconds_per_leaf = 1e-5 * (i + 1);
      told.fixed_seconds = 20e-6;
      puller.AddDevice(told);
      for (int k = 0; k < 3; ++k) {
        puller.Took(i, ++piece, 100, At(now));
        now += 1'000'000 * (i + 1);
        if (k == 0) puller.Finished(i, piece, At(now), Puller::Launch::kWarm);
      }
      held.push_back(piece - 1);
    }
  }
  Puller puller;
  std::vector<Puller::PieceId> held;
  Puller::PieceId piece = 0;
  int64_t now = 0;
};

void Pull(benchmark::State& state) {
  const auto devices = static_cast<uint32_t>(state.range(0));
  Server server(devices);
  uint32_t device = 0;
  for (auto _ : state) {
    server.now += 100'000;
    // The running piece of one device ends; it pulls the one after the next.
    server.puller.Finished(device, server.held[device]++, At(server.now), Puller::Launch::kWarm);
    const Puller::Decision pull = server.puller.Ask(device, At(server.now), {1'000'000'000, 0});
    benchmark::DoNotOptimize(pull);
    server.puller.Took(device, server.held[device] + 1, 100, At(server.now));
    if (++device == devices) device = 0;
  }
}
BENCHMARK(Pull)->Arg(2)->Arg(10)->Arg(16);

void Decline(benchmark::State& state) {
  Server server(static_cast<uint32_t>(state.range(0)));
  PullDevice slow;
  slow.seconds_per_leaf = 1;
  const uint32_t device = server.puller.AddDevice(slow);
  for (auto _ : state) {
    const Puller::Decision pull = server.puller.Ask(device, At(server.now), {100, 0});
    benchmark::DoNotOptimize(pull);
  }
}
BENCHMARK(Decline)->Arg(10);

}  // namespace
}  // namespace tandem::worker

BENCHMARK_MAIN();
