// How near a CPU and a paced emulated device come to what both could do together: one job of `spin`
// on either alone, then on both; ideal is 1 / (1 / Tc + 1 / Tg).
//
// One core is for kernels; the master, the worker, and the executor that feeds the device and
// computes its results by a shorter way, keep to the others in all runs. A grid's time is the
// model's: so many nanoseconds a task, whatever its work, in which a thread sleeps; on the CPU
// uneven tasks are as long as their work.
//
// The same with first sizes that are wrong: the worker is stopped, what it has learned of its
// devices is made twenty times as slow or as fast as it was, and a worker that believes it has the
// next job.
#include <sched.h>
#include <sys/types.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "bench/support/bare.h"
#include "bench/support/cluster.h"
#include "bench/support/report.h"
#include "common/base/strings.h"
#include "tbb/global_control.h"
#include "worker/server/learned_file.h"

namespace tandem::bench {
namespace {

constexpr double kEvenMax = 1.02, kUnevenMax = 1.05, kWrongMax = 1.05;
constexpr double kWrong = 20;           // times
constexpr uint32_t kStepsATask = 7000;  // some eight microseconds
constexpr int64_t kGrain = 32;
constexpr double kLongSeconds = 10;
constexpr double kHintNanos = 1000;  // what the kernel says of a task: the model's time on one core

constexpr int kKernelsCore = 0;

// The process's threads keep off the core that kernels run on.
void KeepOffKernelsCore(pid_t pid) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (core != kKernelsCore) CPU_SET(core, &cores);
  }
  for (const auto& thread : std::filesystem::directory_iterator(StrCat("/proc/", pid, "/task"))) {
    const pid_t id = std::stoi(thread.path().filename().string());
    if (sched_setaffinity(id, sizeof(cores), &cores) != 0) Die("this needs a second core");
  }
}

// The executors of a cluster's emulated devices.
std::vector<pid_t> EmulatedExecutors(const std::string& folder) {
  std::vector<pid_t> found;
  for (const auto& process : std::filesystem::directory_iterator("/proc")) {
    const std::string name = process.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream file(process.path() / "cmdline", std::ios::binary);
    const std::string line{std::istreambuf_iterator<char>(file), {}};
    if (line.find(folder) != std::string::npos && line.find("emulated:") != std::string::npos) {
      found.push_back(std::stoi(name));
    }
  }
  return found;
}

// What was learned, as if all had taken so many times as long.
std::vector<worker::KeptDevice> Slower(std::vector<worker::KeptDevice> learned, double times) {
  const auto slow = [times](worker::RateModel::Sums* line) {
    line->s *= times;
    line->ns *= times;
    line->fixed *= times;
  };
  for (worker::KeptDevice& device : learned) {
    slow(&device.learned.model.up);
    slow(&device.learned.model.down);
    for (worker::DeviceModelState::Kernel& kernel : device.learned.model.kernels) {
      slow(&kernel.grid);
      slow(&kernel.host);
    }
  }
  return learned;
}

// Steps of each task: all alike, or log-normal with a mean of kStepsATask.
std::vector<uint32_t> Work(int64_t tasks, bool uneven) {
  constexpr double kSigma = 1;
  std::mt19937_64 random(7);
  std::lognormal_distribution<double> steps(std::log(kStepsATask) - kSigma * kSigma / 2, kSigma);
  std::vector<uint32_t> work(static_cast<size_t>(tasks));
  for (uint32_t& w : work) w = static_cast<uint32_t>(uneven ? steps(random) : kStepsATask);
  return work;
}

// Of a task on one core, in a bare loop.
double SecondsATask() {
  // Two threads of one core would seem to take longer each.
  const tbb::global_control one(tbb::global_control::max_allowed_parallelism, 1);
  constexpr int64_t kTasks = 20'000;
  (void)BareSpin(kTasks / 10, kStepsATask);
  const Stopwatch watch;
  (void)BareSpin(kTasks, kStepsATask);
  return watch.Seconds() / kTasks;
}

// Workers that start from now on have emulated devices that are so many times as fast as a core.
const Settings& Emulating(const Settings& settings, double speed, double seconds_a_task) {
  const double cores = speed * kHintNanos * 1e-9 / seconds_a_task;
  setenv("TANDEM_EMULATED", StrCat("cores=", cores).c_str(), 1);
  return settings;
}

class Hybrid {
 public:
  Hybrid(const Settings& settings, double speed, double seconds_a_task)
      : settings_(settings),
        speed_(speed),
        seconds_a_task_(seconds_a_task),
        cluster_(Emulating(settings, speed, seconds_a_task),
                 {.worker_flags = {"--cores", StrCat(kKernelsCore), "--emulated-gpus", "1"}}) {
    KeepOffKernelsCore(cluster_.master_pid());
  }

  void Measure(bool uneven, Report* report) {
    const double seconds = settings_.quick ? 0.1 : 2;
    const auto tasks = static_cast<int64_t>(seconds / seconds_a_task_ * (1 + speed_));
    const std::string path = StrCat(cluster_.folder(), "/work.raw");
    const std::vector<uint32_t> work = Work(tasks, uneven);
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(work.data()),
               static_cast<std::streamsize>(work.size() * sizeof(uint32_t)));
    // In turn, so that all see the same machine. The first of each warms up.
    std::vector<double> cpu_seconds, device_seconds, both_seconds;
    for (int i = 0; i <= runs(); ++i) {
      KeepOffKernelsCoreAll();
      const double both = Seconds(path, DeviceChoice::kAuto);
      if (i == 0) continue;
      const double device = Seconds(path, DeviceChoice::kGpu);
      // What takes long is measured as well once.
      const bool again = cpu_seconds.empty() || cpu_seconds.back() < kLongSeconds;
      const double cpu = again ? Seconds(path, DeviceChoice::kCpu) : cpu_seconds.back();
      cpu_seconds.push_back(cpu);
      device_seconds.push_back(device);
      both_seconds.push_back(both);
    }
    const double cpu = Median(cpu_seconds), device = Median(device_seconds),
                 both = Median(both_seconds), ideal = 1 / (1 / cpu + 1 / device);
    report->Add(
        {.measure = StrCat("CPU + emulated device ", speed_, " x, ", uneven ? "uneven" : "even",
                           ", of ideal"),
         .value = both / ideal,
         .unit = "x",
         .bound = Bound::kAtMost,
         .threshold = uneven ? kUnevenMax : kEvenMax,
         .note = StrCat("CPU ", Readable(cpu), " s, device ", Readable(device), " s, both ",
                        Readable(both), " s, ideal ", Readable(ideal), " s"),
         .details = {
             {"cpu_s", cpu_seconds}, {"device_s", device_seconds}, {"both_s", both_seconds}}});
    for (const double times : {kWrong, 1 / kWrong}) {
      MeasureWrong(path, times, uneven ? "uneven" : "even", ideal, report);
    }
  }

 private:
  int runs() const { return settings_.quick ? 1 : 3; }

  // The worker only when its executors are there: they would have their cores from it.
  void KeepOffKernelsCoreAll() {
    const std::vector<pid_t> executors = EmulatedExecutors(cluster_.folder());
    for (const pid_t pid : executors) KeepOffKernelsCore(pid);
    if (executors.empty()) return;
    for (const pid_t pid : cluster_.worker_pids()) KeepOffKernelsCore(pid);
  }

  // With workers that believe that all takes so many times as long as it does.
  void MeasureWrong(const std::string& path, double times, const char* tasks, double ideal,
                    Report* report) {
    const std::string file = StrCat(cluster_.worker_folder(1), "/learned");
    std::vector<worker::KeptDevice> learned;
    cluster_.RestartWorkers(
        [&] { learned = Must(worker::LearnedKeeper(file).Read(absl::Now()), "what was learned"); });
    if (learned.size() != 2) Die("the worker has not learned of both devices");
    std::vector<double> seconds;
    for (int i = 0; i < runs(); ++i) {
      cluster_.RestartWorkers([&] {
        worker::LearnedKeeper(file).Save(
            worker::EncodeLearned(Slower(learned, times), absl::Now()));
      });
      StartExecutors();
      seconds.push_back(Seconds(path, DeviceChoice::kAuto));
    }
    // The next measurement is again of those who know.
    cluster_.RestartWorkers(
        [&] { worker::LearnedKeeper(file).Save(worker::EncodeLearned(learned, absl::Now())); });
    StartExecutors();
    report->Add(
        {.measure = StrCat("… first sizes by rates ", kWrong, " x too ",
                           times > 1 ? "slow, " : "fast, ", tasks),
         .value = Median(seconds) / ideal,
         .unit = "x",
         .bound = Bound::kAtMost,
         .threshold = kWrongMax,
         .note = StrCat("both ", Readable(Median(seconds)), " s, ideal ", Readable(ideal), " s"),
         .details = {{"both_s", seconds}, {"ideal_s", ideal}, {"speed", speed_}}});
  }

  // By jobs of another kernel, of which nothing is learned for this one.
  void StartExecutors() {
    for (const DeviceChoice device : {DeviceChoice::kCpu, DeviceChoice::kGpu}) {
      JobSpec spec;
      spec.device = device;
      cluster_.Run(cluster_.Prepare("noop", spec, {{"n", "1"}}));
    }
    KeepOffKernelsCoreAll();
  }

  double Seconds(const std::string& path, DeviceChoice device) {
    JobSpec spec;
    spec.device = device;
    spec.grain = kGrain;
    spec = cluster_.Prepare("spin", spec, {{"work", "@" + path}});
    const Stopwatch watch;
    cluster_.Run(spec);
    return watch.Seconds();
  }

  const Settings settings_;
  const double speed_;
  const double seconds_a_task_;
  Cluster cluster_;
};

int Main(int argc, char** argv) {
  const Settings settings = ParseSettings(
      argc, argv, "How near a CPU and a paced emulated device come to what both could do.");
  Report report(settings, "hybrid");
  const double seconds_a_task = SecondsATask();
  for (const double speed : {1.0, 4.0, 20.0}) {
    Hybrid hybrid(settings, speed, seconds_a_task);
    for (const bool uneven : {false, true}) hybrid.Measure(uneven, &report);
  }
  return report.Finish();
}

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) { return tandem::bench::Main(argc, argv); }
