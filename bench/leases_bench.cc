// What a lease costs: a million leases of one task each, whose eight bytes are in the result and
// checked, through master, worker and executor as processes, durable; at 1, 16, 256 and 2,048
// leases in flight; and the master's memory meanwhile.
#include <atomic>
#include <cstring>
#include <thread>

#include "absl/time/clock.h"
#include "bench/support/cluster.h"
#include "bench/support/process_stat.h"
#include "bench/support/report.h"
#include "common/base/strings.h"
#include "kernels/noop/noop_ref.h"

namespace tandem::bench {
namespace {

constexpr uint64_t kSeed = 20'26;
constexpr uint64_t kMostInFlight = 2048;
constexpr double kRateMin = 400'000, kCpuMicrosMax = 4;
constexpr double kMemoryGrowthMax = 4 << 20;

JobSpec OneTaskLeases(Cluster* cluster, uint64_t tasks) {
  JobSpec spec;
  spec.grain = 1;
  spec.max_lease_leaves = 1;
  return cluster->Prepare("noop", spec, {{"n", StrCat(tasks)}, {"seed", StrCat(kSeed)}});
}

void Check(Cluster* cluster, const client::JobInfo& job, uint64_t tasks) {
  if (job.leases < tasks) {
    Die(StrCat("job ", job.id, " took ", job.leases, " leases for ", tasks, " tasks"));
  }
  const std::string bytes = cluster->Read(job.id, "value");
  const std::vector<uint64_t> expected =
      kernels::NoopReference(kSeed, 0, static_cast<int64_t>(tasks));
  if (bytes.size() != expected.size() * sizeof(uint64_t) ||
      std::memcmp(bytes.data(), expected.data(), bytes.size()) != 0) {
    Die(StrCat("job ", job.id, ": the outputs are not what the reference says"));
  }
}

// The largest memory of a process while the object lives.
class MemoryPeak {
 public:
  explicit MemoryPeak(pid_t pid) : pid_(pid), thread_([this] { Watch(); }) {}
  ~MemoryPeak() {
    done_ = true;
    thread_.join();
  }
  uint64_t bytes() const { return bytes_; }

 private:
  void Watch() {
    while (!done_) {
      bytes_ = std::max<uint64_t>(bytes_, OwnMemoryBytes(pid_));
      absl::SleepFor(absl::Milliseconds(20));
    }
  }
  const pid_t pid_;
  std::atomic<bool> done_{false};
  std::atomic<uint64_t> bytes_{0};
  std::thread thread_;
};

struct Sample {
  double rate = 0;
  CpuUse micros;  // a lease
  std::map<std::string, uint64_t> counters;
  double memory_growth = 0;
};

Sample Measure(Cluster* cluster, uint64_t tasks) {
  const JobSpec spec = OneTaskLeases(cluster, tasks);
  const auto counters_before = cluster->Counters();
  const uint64_t memory_before = OwnMemoryBytes(cluster->master_pid());
  client::JobInfo job;
  Sample sample;
  {
    const MemoryPeak peak(cluster->master_pid());
    const CpuUse before = cluster->Cpu();
    const Stopwatch watch;
    job = cluster->Run(spec);
    const auto n = static_cast<double>(tasks);
    sample.rate = n / watch.Seconds();
    const CpuUse used = cluster->Cpu() - before;
    const double scale = 1e6 / n;
    sample.micros = {used.master * scale, used.workers * scale, used.executors * scale,
                     used.client * scale};
    sample.memory_growth =
        static_cast<double>(std::max(peak.bytes(), memory_before) - memory_before);
  }
  for (const auto& [name, value] : cluster->Counters()) {
    const auto it = counters_before.find(name);
    sample.counters[name] = value - (it == counters_before.end() ? 0 : it->second);
  }
  Check(cluster, job, tasks);
  return sample;
}

nlohmann::ordered_json Details(const Sample& sample, uint64_t in_flight, uint64_t tasks,
                               double sync_seconds) {
  return {{"in_flight", in_flight},
          {"tasks", tasks},
          {"cpu_us_a_lease",
           {{"all", sample.micros.all()},
            {"master", sample.micros.master},
            {"worker", sample.micros.workers},
            {"executor", sample.micros.executors},
            {"client", sample.micros.client}}},
          {"counters", sample.counters},
          {"master_memory_growth_bytes", sample.memory_growth},
          {"sync_ms", sync_seconds * 1e3}};
}

std::string Note(const Sample& sample) {
  return StrCat("CPU ", Readable(sample.micros.all()), " us: master ",
                Readable(sample.micros.master), ", worker ", Readable(sample.micros.workers),
                ", executor ", Readable(sample.micros.executors), ", client ",
                Readable(sample.micros.client), "; ", sample.counters.at("journal_commits_total"),
                " commits, ", HumanSize(sample.counters.at("journal_bytes_total")));
}

Sample Middle(std::vector<Sample> samples) {
  std::sort(samples.begin(), samples.end(),
            [](const Sample& a, const Sample& b) { return a.rate < b.rate; });
  return samples[samples.size() / 2];
}

void Bench(const Settings& settings, Report* report) {
  const uint64_t most_tasks = settings.quick ? 200'000 : 1'000'000;
  for (const uint64_t in_flight : {uint64_t{1}, uint64_t{16}, uint64_t{256}, kMostInFlight}) {
    const bool most = in_flight == kMostInFlight;
    const uint64_t tasks = most ? most_tasks : std::min(most_tasks, in_flight * 500);
    Cluster cluster(settings, {.worker_flags = {"--max-leases", StrCat(in_flight)}});
    const double sync_seconds = SyncProbe(cluster.folder()).MedianSeconds(20);
    Measure(&cluster, std::max<uint64_t>(tasks / (most ? 1 : 10), 10));  // warms up
    std::vector<Sample> samples;
    for (int i = 0; i < (most && !settings.quick ? 3 : 1); ++i) {
      samples.push_back(Measure(&cluster, tasks));
    }
    const Sample middle = Middle(samples);
    Row row{.measure = StrCat("leases of one task, ", in_flight, " in flight"),
            .value = middle.rate,
            .unit = "1/s",
            .note = StrCat(Note(middle), "; sync ", Readable(sync_seconds * 1e3), " ms"),
            .details = Details(middle, in_flight, tasks, sync_seconds)};
    if (most) {
      row.bound = Bound::kAtLeast;
      row.threshold = kRateMin;
    }
    report->Add(row);
    if (!most) continue;
    report->Add({.measure = "CPU of a lease, all processes",
                 .value = middle.micros.all(),
                 .unit = "us",
                 .bound = Bound::kAtMost,
                 .threshold = kCpuMicrosMax});
    report->Add({.measure = StrCat("master's memory over ", most_tasks, " leases, growth"),
                 .value = samples.back().memory_growth / (1 << 20),
                 .unit = "MiB",
                 .bound = Bound::kAtMost,
                 .threshold = kMemoryGrowthMax / (1 << 20)});
  }
}

int Main(int argc, char** argv) {
  const Settings settings = ParseSettings(argc, argv, "What a lease of one task costs.");
  Report report(settings, "leases");
  Bench(settings, &report);
  return report.Finish();
}

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) { return tandem::bench::Main(argc, argv); }
