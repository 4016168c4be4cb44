#include "master/server/explain_devices.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "common/base/strings.h"
#include "common/wire/usage.h"

namespace tandem::master {
namespace {

struct OfKind {
  v1::Usage usage;
  double longest_ns = 0;  // that one worker's device was busy
  double window_ns = 0;   // from each worker's first grant to the end of running
};

struct Stage {
  std::string_view name;
  uint64_t ns = 0;
  std::string bytes;  // in brackets
  std::string_view advice;
};

// At least so much of its time it had nothing to run: as if no stages had overlapped, and by its
// executor's clock where that says more (an emulated device's own is not the wall's).
double IdleShare(const OfKind& of) {
  const v1::Usage& usage = of.usage;
  const uint64_t stages = usage.grid_ns() + usage.up_ns() + usage.down_ns() + usage.host_ns();
  const uint64_t busy = std::max(stages, wire::BusyNanos(usage)) + usage.stall_ns();
  return of.window_ns > 0 ? 1 - static_cast<double>(busy) / of.window_ns : 0;
}

// The stage that a device spends most of its time in bounds it: the others overlap with it.
Stage Binding(const v1::Usage& usage) {
  const auto size = [](uint64_t bytes) { return StrCat(" (", HumanSize(bytes), ")"); };
  const Stage stages[] = {
      {"its grids", usage.grid_ns(), "", "a faster device would help"},
      {"copy up", usage.up_ns(), size(usage.bytes_up()),
       "an operand that all tasks share is copied once and stays; a narrower element type, or a "
       "kernel that does more with each byte, gains more of such a device"},
      {"copy down", usage.down_ns(), size(usage.bytes_down()),
       "a kernel that reduces its output, or a narrower element type, copies less"},
      {"host stages", usage.host_ns(), "",
       "more cores help: the device waits for what they decode, lay out or encode"},
      {"operands on their way", usage.stall_ns(), size(usage.fetched_bytes() + usage.path_bytes()),
       "a faster network or file system helps; a worker keeps what it has fetched for the next "
       "job"}};
  return *std::max_element(std::begin(stages), std::end(stages),
                           [](const Stage& a, const Stage& b) { return a.ns < b.ns; });
}

}  // namespace

std::string_view KindName(v1::DeviceKind kind) {
  switch (kind) {
    case v1::DEVICE_GPU:
      return "gpu";
    case v1::DEVICE_EMULATED:
      return "emulated";
    default:
      return "cpu";
  }
}

std::string Grouped(uint64_t number) {
  std::string text = StrCat(number);
  for (size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, ",");
  return text;
}

std::optional<v1::Finding> ExplainDevices(const JobFacts& job, const ExplainLimits& limits) {
  const uint64_t run_end = job.account.pending_ns() + job.account.running_ns();
  std::map<v1::DeviceKind, OfKind, std::greater<>> kinds;  // the CPU last
  for (const v1::WorkerUsage& worker : job.account.workers()) {
    if (worker.usage().pieces() == 0) continue;
    const bool known = worker.device() != v1::DEVICE_KIND_UNSPECIFIED;
    OfKind& kind = kinds[known ? worker.device() : v1::DEVICE_CPU];
    wire::AddUsage(worker.usage(), &kind.usage);
    kind.window_ns += static_cast<double>(run_end - std::min(run_end, worker.first_ns()));
    const double groups = std::max<double>(1, worker.groups());
    kind.longest_ns =
        std::max(kind.longest_ns, static_cast<double>(wire::BusyNanos(worker.usage())) / groups);
  }
  if (kinds.empty() || kinds.begin()->first == v1::DEVICE_CPU) return std::nullopt;
  std::string shares, bounds;
  v1::Finding finding;
  for (const auto& [kind, of] : kinds) {
    StrAppend(&shares, shares.empty() ? "" : ", ", KindName(kind), " ", Grouped(of.usage.tasks()),
              " in ", ThreeDigits(of.longest_ns));
    if (kind == v1::DEVICE_CPU) continue;
    const double idle = IdleShare(of);
    if (idle >= limits.device_idle_share) {
      StrAppend(&bounds, "; ", KindName(kind), " had nothing to run for ",
                static_cast<int>(100 * idle), "% of its time");
      finding.set_advice(
          "a faster device would not help: it waited for its executor to start, or for pieces; "
          "`tandem worker explain` says what a worker would be given next");
      continue;
    }
    const Stage stage = Binding(of.usage);
    if (stage.ns == 0) continue;
    StrAppend(&bounds, "; ", KindName(kind), " is bound by ", stage.name, stage.bytes);
    finding.set_advice(std::string(stage.advice));
  }
  finding.set_token("DEVICES");
  finding.set_what(StrCat("tasks [0,", job.task_count, "): ", shares, bounds));
  return finding;
}

}  // namespace tandem::master
