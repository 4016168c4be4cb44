// METG(50 %): the smallest task that still leaves half of the machine's time to the tasks
// themselves, as Task Bench defines it (Slaughter et al.: Task Bench, SC 2020). Independent tasks
// of spin, whose length is swept downwards; once with a lease a task, once with ranges leased
// freely.
//
//   efficiency  = work of all tasks at the bare loop's speed / (cores * wall time)
//   granularity = cores * wall time / tasks
//
// METG is the granularity where the efficiency crosses one half, between two points of the sweep.
#include <unistd.h>

#include <cmath>
#include <optional>

#include "bench/support/bare.h"
#include "bench/support/cluster.h"
#include "bench/support/report.h"
#include "common/base/strings.h"

namespace tandem::bench {
namespace {

constexpr double kHalf = 0.5;
constexpr double kOneTaskMaxMicros = 5, kFreeMaxMicros = 0.05;

struct Way {
  const char* name;
  uint64_t grain;             // 0: the kernel's
  uint64_t max_lease_leaves;  // 0: the policy's choice
  uint32_t work_from, work_to;
  double wall_seconds;  // aimed at
  double tasks_max;
  double max_micros;
};

struct Point {
  uint32_t work = 0;
  double granularity = 0;  // seconds
  double efficiency = 0;
};

double Cores() { return static_cast<double>(sysconf(_SC_NPROCESSORS_ONLN)); }

// Seconds that one step of spin takes a core, all cores at work.
double StepSeconds() {
  constexpr int64_t kTasks = 512;
  constexpr uint32_t kWork = 1 << 20;
  std::vector<double> seconds;
  for (int i = 0; i < 5; ++i) {
    const Stopwatch watch;
    BareSpin(kTasks, kWork);
    seconds.push_back(watch.Seconds());
  }
  return Median(seconds) * Cores() / (static_cast<double>(kTasks) * kWork);
}

Point Measure(Cluster* cluster, const Way& way, uint32_t work, double step, int times) {
  const double task = work * step;
  const auto tasks = static_cast<uint64_t>(
      std::min(way.tasks_max, way.wall_seconds * Cores() / (task + way.max_micros * 1e-6 * kHalf)));
  JobSpec spec;
  spec.grain = way.grain;
  spec.max_lease_leaves = way.max_lease_leaves;
  spec = cluster->Prepare("spin", spec,
                          {{"work", StrCat("constant(", work, ")")}, {"n", StrCat(tasks)}});
  std::vector<double> walls;
  for (int i = 0; i < times; ++i) {
    const Stopwatch watch;
    cluster->Run(spec);
    walls.push_back(watch.Seconds());
  }
  const auto n = static_cast<double>(tasks);
  const double spent = Median(walls) * Cores();
  return {work, spent / n, task * n / spent};
}

// Where the efficiency crosses one half, in the logarithms of both points' granularities.
double Crossing(const Point& above, const Point& below) {
  const double share = (above.efficiency - kHalf) / (above.efficiency - below.efficiency);
  return above.granularity * std::pow(below.granularity / above.granularity, share);
}

void Sweep(Cluster* cluster, const Way& way, double step, int times, Report* report) {
  std::vector<Point> points;
  nlohmann::ordered_json curve = nlohmann::ordered_json::array();
  std::optional<double> metg;
  for (uint32_t work = way.work_from; work >= way.work_to && !metg.has_value(); work /= 2) {
    const Point point = Measure(cluster, way, work, step, times);
    curve.push_back({{"steps", work},
                     {"granularity_us", point.granularity * 1e6},
                     {"efficiency", point.efficiency}});
    if (point.efficiency < kHalf) {
      metg = points.empty() ? point.granularity : Crossing(points.back(), point);
    }
    points.push_back(point);
  }
  // Still efficient with the smallest tasks: METG is below their granularity.
  const double seconds = metg.value_or(points.back().granularity);
  report->Add({.measure = StrCat("METG(50 %), ", way.name),
               .value = seconds * 1e6,
               .unit = "us",
               .bound = Bound::kAtMost,
               .threshold = way.max_micros,
               .note = StrCat("largest tasks: efficiency ", Readable(points.front().efficiency),
                              " at ", Readable(points.front().granularity * 1e6), " us"),
               .details = {{"step_ns", step * 1e9}, {"curve", curve}}});
}

int Main(int argc, char** argv) {
  const Settings settings = ParseSettings(argc, argv, "The smallest task that is worth its lease.");
  Report report(settings, "metg");
  Cluster cluster(settings, {});
  const double step = StepSeconds();
  const int times = settings.quick ? 1 : 3;
  const double wall = settings.quick ? 0.3 : 1;
  Sweep(&cluster, {"one-task leases", 1, 1, 1 << 15, 64, wall, 1e6, kOneTaskMaxMicros}, step, times,
        &report);
  Sweep(&cluster, {"ranges leased freely", 0, 0, 1 << 12, 1, wall, 5e7, kFreeMaxMicros}, step,
        times, &report);
  return report.Finish();
}

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) { return tandem::bench::Main(argc, argv); }
