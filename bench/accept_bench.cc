// What it costs to accept a job of very many tasks: the time until it is durable, and the master's
// memory. No worker is there, so nothing else happens.
#include <cmath>

#include "bench/support/cluster.h"
#include "bench/support/process_stat.h"
#include "bench/support/report.h"
#include "common/base/strings.h"

namespace tandem::bench {
namespace {

constexpr double kMillisMax = 10;
constexpr double kGrowthMax = 1'000'000;  // bytes
constexpr int kJobs = 10;

void Measure(Cluster* cluster, int power, Report* report) {
  const auto tasks = static_cast<uint64_t>(std::llround(std::pow(10, power)));
  const JobSpec spec = cluster->Prepare("monte_carlo_pi", {}, {{"n", StrCat(tasks)}});
  std::vector<double> millis;
  const uint64_t before = OwnMemoryBytes(cluster->master_pid());
  for (int i = 0; i < kJobs; ++i) {
    const Stopwatch watch;
    const client::JobInfo job = Must(cluster->client().Submit(spec), "submit");
    millis.push_back(watch.Seconds() * 1e3);
    if (job.task_count != tasks) Die(StrCat("job ", job.id, " has another number of tasks"));
  }
  const uint64_t after = std::max(before, OwnMemoryBytes(cluster->master_pid()));
  const double sync = SyncProbe(cluster->folder()).MedianSeconds(20) * 1e3;
  report->Add({.measure = StrCat("accepting a job of 10^", power, " tasks"),
               .value = Median(millis),
               .unit = "ms",
               .bound = Bound::kAtMost,
               .threshold = kMillisMax,
               .note = StrCat("sync ", Readable(sync), " ms"),
               .details = {{"jobs", kJobs}, {"sync_ms", sync}}});
  report->Add({.measure = StrCat("master's memory, ", kJobs, " such jobs"),
               .value = static_cast<double>(after - before) / 1e6,
               .unit = "MB",
               .bound = Bound::kAtMost,
               .threshold = kGrowthMax / 1e6});
}

int Main(int argc, char** argv) {
  const Settings settings =
      ParseSettings(argc, argv, "What it costs to accept a job of very many tasks.");
  Report report(settings, "accept");
  Cluster cluster(settings, {.workers = 0});
  // Warms up: allocators, caches, prepared statements.
  const JobSpec small = cluster.Prepare("monte_carlo_pi", {}, {{"n", "1000"}});
  for (int i = 0; i < kJobs; ++i) Must(cluster.client().Submit(small), "submit");
  Measure(&cluster, 9, &report);
  Measure(&cluster, 15, &report);
  return report.Finish();
}

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) { return tandem::bench::Main(argc, argv); }
