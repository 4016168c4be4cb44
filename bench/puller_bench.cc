// What a pull costs with all its bookkeeping: asked for, taken, finished and learned from, on a
// server whose other devices are all busy; and what it costs to be told to pull nothing.
#include <cstdint>
#include <functional>
#include <vector>

#include "bench/support/measure.h"
#include "bench/support/process_stat.h"
#include "bench/support/report.h"
#include "bench/support/settings.h"
#include "common/base/strings.h"
#include "worker/core/puller.h"

namespace tandem::bench {
namespace {

using worker::PoolEnd;
using worker::PullDevice;
using worker::Puller;

constexpr double kPullMaxMicros = 1;

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

// The running piece of one device ends; it pulls the one after the next. Leaves pulled.
uint64_t Pull(Server* server, uint32_t device) {
  server->now += 100'000;
  Puller& puller = server->puller;
  puller.Finished(device, server->held[device]++, At(server->now), Puller::Launch::kWarm);
  const Puller::Decision pull = puller.Ask(device, At(server->now), {1'000'000'000, 0});
  puller.Took(device, server->held[device] + 1, 100, At(server->now));
  return pull.leaves;
}

// CPU time of one call, the median of several rounds; `leaves` are those that calls were to pull.
double Micros(int calls, uint64_t* leaves, const std::function<uint64_t(int)>& call) {
  constexpr int kRounds = 9;
  std::vector<double> micros;
  for (int round = 0; round < kRounds; ++round) {
    const double before = OwnCpuSeconds();
    for (int i = 0; i < calls; ++i) *leaves += call(i);
    micros.push_back((OwnCpuSeconds() - before) * 1e6 / calls);
  }
  return Median(micros);
}

int Main(int argc, char** argv) {
  const Settings settings = ParseSettings(argc, argv, "What a pull costs, with its bookkeeping.");
  Report report(settings, "puller");
  const int calls = settings.quick ? 10'000 : 300'000;
  for (const uint32_t devices : {2, 10, 16}) {
    Server server(devices);
    uint64_t leaves = 0;
    const double micros = Micros(
        calls, &leaves, [&](int i) { return Pull(&server, static_cast<uint32_t>(i) % devices); });
    if (leaves == 0) Die("no device was given anything to pull");
    report.Add({.measure = StrCat("a pull, with its bookkeeping, of ", devices, " devices"),
                .value = micros,
                .unit = "us",
                .bound = Bound::kAtMost,
                .threshold = kPullMaxMicros});
  }
  Server server(10);
  PullDevice slow;
  slow.seconds_per_leaf = 1;
  const uint32_t device = server.puller.AddDevice(slow);
  uint64_t leaves = 0;
  const double micros = Micros(calls, &leaves, [&](int) {
    return server.puller.Ask(device, At(server.now), {100, 0}).leaves;
  });
  if (leaves > 0) Die("a device that is too slow was given something to pull");
  report.Add(
      {.measure = "to be told to pull nothing, of 10 devices", .value = micros, .unit = "us"});
  return report.Finish();
}

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) { return tandem::bench::Main(argc, argv); }
