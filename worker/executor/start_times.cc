#include "worker/executor/start_times.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/synchronization/notification.h"
#include "absl/types/span.h"
#include "common/base/status_macros.h"
#include "common/probe/device_report.h"
#include "worker/device/device.h"
#include "worker/executor/kernel_table.h"
#include "worker/ring/launch.h"

namespace tandem::worker {
namespace {

constexpr std::string_view kStart = "--start=", kSince = "--since=";
constexpr unsigned kSecondsMax = 120;  // One that nobody waits for any more ends itself.
constexpr char kKernel[] = "noop";
constexpr int64_t kTasks = 20'000;  // so much that it needs memory of the device

// As abi.h lays out `axis n, seed:u64 -> value[n]:u64`.
struct Args {
  uint64_t seed;
  void* value;
  int64_t n, split;
};

class NoLog final : public StartLog {
 public:
  void Begin(uint32_t, uint64_t, uint64_t, uint64_t, uint64_t) override {}
  void End(uint32_t) override {}
};

class Parts {
 public:
  Parts(StartReport* report, MonoTime since) : report_(*report), last_(since) {}

  // What of the part that is under way is one by itself.
  void Within(const char* name, int64_t nanos) {
    if (nanos <= 0) return;
    Add(name, nanos);
    within_ += nanos;
  }
  void End(const char* name, MonoTime now) {
    Add(name, now.NanosSince(last_) - within_);
    last_ = now;
    within_ = 0;
  }
  void End(const char* name) { End(name, Clock::Real()->Now()); }

 private:
  void Add(const char* name, int64_t nanos) {
    const double seconds = static_cast<double>(nanos) * 1e-9;
    report_.parts.emplace_back(name, seconds);
    report_.seconds += seconds;
  }

  StartReport& report_;
  MonoTime last_;
  int64_t within_ = 0;
};

std::vector<uint32_t> AllowedCores() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  std::vector<uint32_t> cores;
  if (sched_getaffinity(0, sizeof(mask), &mask) != 0) return {0};
  for (uint32_t core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &mask)) cores.push_back(core);
  }
  return cores;
}

absl::Status RunFirst(Device* device, const TandemKernelV1* kernel, Parts* parts) {
  std::vector<uint64_t> value(kTasks);
  Args args = {0, value.data(), kTasks, 0};
  PartBuffer out;
  out.args_offset = offsetof(Args, value);
  out.host = value.data();
  out.bytes = value.size() * sizeof(uint64_t);
  out.output = true;
  BatchPart part;
  part.args = &args;
  part.tasks = kTasks;
  part.buffers = absl::MakeConstSpan(&out, 1);
  part.grain = kTasks;
  Batch batch;
  batch.kernel = kernel;
  batch.parts.push_back(part);
  absl::Notification done;
  batch.done = [&done](Batch*) { done.Notify(); };
  device->Submit(0, &batch);
  done.WaitForNotification();
  parts->Within("slab", batch.memory_ns);
  parts->End("first_launch");
  return batch.status;
}

absl::Status GoThrough(const ExecutorProgram& program, const std::string& name, Parts* parts) {
  NoLog log;
  ExecutorLaunch launch;
  launch.device = name;
  launch.cores = AllowedCores();
  const uint32_t slots = StartSlots(launch.cores.size()) + kGridSlots;
  ASSIGN_OR_RETURN(const std::unique_ptr<Device> device, program.device_of(launch, slots, &log));
  parts->Within("driver", device->properties().driver_ns);
  parts->Within("context", device->properties().context_ns);
  parts->End("device");
  KernelTable kernels(program.form);
  RETURN_IF_ERROR(program.add_builtin(&kernels));
  ASSIGN_OR_RETURN(const TandemKernelV1* const kernel, kernels.Find(kKernel, 0));
  parts->End("kernels");
  return RunFirst(device.get(), kernel, parts);
}

}  // namespace

std::optional<int> AnswerStart(const ExecutorProgram& program,
                               const std::vector<std::string>& arguments, MonoTime main_began) {
  StartReport report;
  MonoTime since = main_began;
  for (const std::string& argument : arguments) {
    int64_t nanos = 0;
    if (argument.starts_with(kStart)) report.device = argument.substr(kStart.size());
    if (argument.starts_with(kSince) && absl::SimpleAtoi(argument.substr(kSince.size()), &nanos)) {
      since = std::min(main_began, MonoTime::FromNanos(nanos));
    }
  }
  if (report.device.empty()) return std::nullopt;
  alarm(kSecondsMax);
  Parts parts(&report, since);
  if (since < main_began) parts.End("spawn", main_began);
  report.error = GoThrough(program, report.device, &parts);
  std::fputs(ToJson(report).c_str(), stdout);
  std::fflush(stdout);
  return 0;
}

}  // namespace tandem::worker
