// How long the smallest job takes, from submit until its bytes are read: one task, warm, durable;
// against syncs measured in turn with it on the same file system.
#include "bench/support/cluster.h"
#include "bench/support/report.h"
#include "common/base/strings.h"

namespace tandem::bench {
namespace {

constexpr double kOwnSecondsMax = 1e-3;
constexpr double kSyncs = 2;

struct Times {
  std::vector<double> submit, read, sync;
};

Times Measure(Cluster* cluster, int jobs) {
  const JobSpec spec = cluster->Prepare("noop", {}, {{"n", "1"}});
  SyncProbe probe(cluster->folder());
  Times times;
  const auto run = [&] {
    const Stopwatch watch;
    const client::JobInfo submitted = Must(cluster->client().Submit(spec), "submit");
    times.submit.push_back(watch.Seconds());
    const std::string bytes = cluster->Read(submitted.id, "value", {.when_ended = true});
    times.read.push_back(watch.Seconds());
    if (bytes.size() != sizeof(uint64_t)) Die("a result has not eight bytes");
    times.sync.push_back(probe.Seconds());
  };
  for (int i = 0; i < jobs / 10; ++i) run();
  times = {};
  for (int i = 0; i < jobs; ++i) run();
  return times;
}

void AddRows(const Times& times, Report* report) {
  const double sync = Median(times.sync);
  const auto ms = [](const std::vector<double>& seconds, double share) {
    return Quantile(seconds, share) * 1e3;
  };
  report->Add({.measure = "one-task job, submit to result, p50",
               .value = ms(times.read, 0.5),
               .unit = "ms",
               .bound = Bound::kAtMost,
               .threshold = (kOwnSecondsMax + kSyncs * sync) * 1e3,
               .note = StrCat("1 ms + two syncs of ", Readable(sync * 1e3), " ms; submit ",
                              Readable(ms(times.submit, 0.5))),
               .details = {{"jobs", times.read.size()},
                           {"submit_p50_ms", ms(times.submit, 0.5)},
                           {"sync_p50_ms", sync * 1e3},
                           {"sync_p99_ms", ms(times.sync, 0.99)}}});
  report->Add({.measure = "one-task job, submit to result, p99",
               .value = ms(times.read, 0.99),
               .unit = "ms",
               .note = StrCat("a sync's p99: ", Readable(ms(times.sync, 0.99)), " ms")});
}

int Main(int argc, char** argv) {
  const Settings settings = ParseSettings(argc, argv, "How long the smallest job takes.");
  Report report(settings, "latency");
  Cluster cluster(settings, {});
  AddRows(Measure(&cluster, settings.quick ? 100 : 1000), &report);
  return report.Finish();
}

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) { return tandem::bench::Main(argc, argv); }
