#include "bench/support/whole_job.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "bench/support/cluster.h"
#include "bench/support/measure.h"
#include "common/base/strings.h"

namespace tandem::bench {
namespace {

constexpr double kTogetherMax = 1.05;      // of ideal
constexpr double kPartsALaunchLeast = 10;  // parts a launch
constexpr double kSecondsLeast = 1;
constexpr absl::Duration kCountersPatience = absl::Seconds(30), kPoll = absl::Milliseconds(50);
constexpr char kWorker[] = "w1";

bool HasGpu(Cluster* cluster) {
  const client::WorkerSummary worker = Must(cluster->client().GetWorker(kWorker), "the worker");
  return std::ranges::any_of(
      worker.devices, [](const DeviceInfo& device) { return device.kind == DeviceKind::kGpu; });
}

// Seconds of spin over so many tasks of as many steps each.
double Seconds(Cluster* cluster, int64_t tasks, uint32_t steps, DeviceChoice device) {
  const std::string path = StrCat(cluster->folder(), "/work.raw");
  const std::vector<uint32_t> work(static_cast<size_t>(tasks), steps);
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(work.data()),
             static_cast<std::streamsize>(work.size() * sizeof(uint32_t)));
  JobSpec spec;
  spec.device = device;
  spec = cluster->Prepare("spin", spec, {{"work", "@" + path}});
  const Stopwatch watch;
  cluster->Run(spec);
  return watch.Seconds();
}

// So many tasks that the device alone has work for a while; also warms it up.
int64_t TasksFor(Cluster* cluster, uint32_t steps, DeviceChoice device, bool quick) {
  int64_t tasks = quick ? 256 : 1024;
  while (Seconds(cluster, tasks, steps, device) < kSecondsLeast && !quick) tasks *= 2;
  return tasks;
}

void Together(const Settings& settings, Cluster* cluster, Report* report) {
  const uint32_t steps = settings.quick ? 100 : 1'000'000;
  const int64_t cpu_tasks = TasksFor(cluster, steps, DeviceChoice::kCpu, settings.quick);
  const int64_t tasks = TasksFor(cluster, steps, DeviceChoice::kGpu, settings.quick);
  std::vector<double> cpu, gpu, both;
  for (int i = 0; i < (settings.quick ? 1 : 3); ++i) {
    // What takes a CPU long is told from a part of it.
    cpu.push_back(Seconds(cluster, cpu_tasks, steps, DeviceChoice::kCpu) *
                  static_cast<double>(tasks) / static_cast<double>(cpu_tasks));
    gpu.push_back(Seconds(cluster, tasks, steps, DeviceChoice::kGpu));
    both.push_back(Seconds(cluster, tasks, steps, DeviceChoice::kAuto));
  }
  const double ideal = 1 / (1 / Median(cpu) + 1 / Median(gpu));
  report->Add(
      {.measure = "a whole job, CPUs and GPUs together, of ideal",
       .value = Median(both) / ideal,
       .unit = "x",
       .bound = Bound::kAtMost,
       .threshold = kTogetherMax,
       .note = StrCat("CPUs ", Readable(Median(cpu)), " s, GPUs ", Readable(Median(gpu)),
                      " s, both ", Readable(Median(both)), " s, ideal ", Readable(ideal), " s"),
       .details = {{"cpu_s", cpu}, {"gpu_s", gpu}, {"both_s", both}, {"tasks", tasks}}});
}

// Jobs of one task with a scalar of their own, held back until all are there.
void Merged(const Settings& settings, Cluster* cluster, Report* report) {
  const int jobs = settings.quick ? 20 : 1000;
  client::Client& client = cluster->client();
  Must(client.DrainWorker(kWorker).status(), "draining");
  std::vector<JobId> submitted;
  for (int i = 0; i < jobs; ++i) {
    JobSpec spec;
    spec.device = DeviceChoice::kGpu;
    spec = cluster->Prepare("monte_carlo_pi", spec, {{"n", "1"}, {"seed", StrCat(i)}});
    submitted.push_back(Must(client.Submit(spec), "submit").id);
  }
  std::map<std::string, uint64_t> before = cluster->Counters();
  const Stopwatch watch;
  Must(client.ResumeWorker(kWorker).status(), "resuming");
  for (const JobId job : submitted) {
    const client::JobInfo ended =
        Must(client.Wait(job, [](const client::JobInfo&) { return true; }), "wait for a job");
    if (ended.state != client::JobState::kSucceeded) Die(StrCat("job ", job, ": ", ended.reason));
  }
  const double seconds = watch.Seconds();
  std::map<std::string, uint64_t> after;
  const auto grown = [&](const char* name) {
    return static_cast<double>(after[name] - before[name]);
  };
  // Workers tell their counters with a heartbeat.
  for (const absl::Time give_up = absl::Now() + kCountersPatience;
       after = cluster->Counters(), grown("worker_parts_total") < jobs;) {
    if (absl::Now() > give_up) Die("the worker does not count what its executors ran");
    absl::SleepFor(kPoll);
  }
  const double parts = grown("worker_parts_total"), batches = grown("worker_batches_total");
  report->Add({.measure = StrCat(jobs, " jobs of a task at once, leases a launch"),
               .value = parts / std::max(batches, 1.0),
               .unit = "",
               .bound = Bound::kAtLeast,
               .threshold = kPartsALaunchLeast,
               .note = StrCat(Readable(batches), " launches; all ended within ",
                              Readable(seconds * 1e3), " ms"),
               .details = {{"seconds", seconds}, {"launches", batches}}});
}

}  // namespace

void MeasureWholeJobs(const Settings& settings, Report* report) {
  Cluster cluster(settings, {});
  if (!HasGpu(&cluster)) Die("the worker found no GPU; `tandem doctor` says why");
  Together(settings, &cluster, report);
  Merged(settings, &cluster, report);
}

}  // namespace tandem::bench
