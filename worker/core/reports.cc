// What the core tells the master: reports, rates and backlogs.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "common/model/former_life.h"
#include "worker/core/worker_core.h"

namespace tandem::worker {
namespace {

constexpr double kRateChange = 0.1;  // below this a rate is not told again

bool Differs(double a, double b) { return std::abs(a - b) > kRateChange * std::max(a, b); }

KernelRate ToRate(const WorkerDevice& device, const DeviceModel::Row& row,
                  double tasks_per_second) {
  return {.kernel = row.key->kernel,
          .device = device.kind,
          .tasks_per_second = tasks_per_second,
          .fixed_seconds = row.line.fixed.Alone(),
          .device_name = device.name,
          .extents = row.key->extents,
          .seconds_per_task = row.line.per_task.Alone(),
          .up_bytes_per_second = row.up_bytes_per_second,
          .down_bytes_per_second = row.down_bytes_per_second,
          .bound_by = std::string(StageName(row.line.per_task.Binds())),
          .samples = row.samples,
          .age = row.age};
}

}  // namespace

void WorkerCore::MakeReports(MonoTime now, Effects* effects) {
  std::vector<KernelRate> rates;
  std::vector<Backlog> backlogs;
  AddRates(now, &rates);
  AddBacklogs(&backlogs);
  const size_t before = effects->reports.size();
  next_report_ = outbox_.Report(next_report_, &effects->reports);
  const bool tells_former_life = !former_life_.empty() && former_life_report_ == 0;
  const bool more =
      !rates.empty() || !backlogs.empty() || !faults_.empty() || tells_former_life || forgot_ != 0;
  if (more && effects->reports.size() == before) {
    effects->reports.emplace_back().number = next_report_++;
  }
  counters_.reports += effects->reports.size() - before;
  if (effects->reports.size() == before) return;
  Report& last = effects->reports.back();
  last.rates = std::move(rates);
  last.backlogs = std::move(backlogs);
  last.forgot = std::exchange(forgot_, 0);
  last.job_faults = std::move(faults_);
  faults_.clear();
  last.splits = std::exchange(splits_, {});  // no report's cause: of their leaves one is due
  if (!tells_former_life) return;
  former_life_report_ = last.number;
  uint64_t suspected = 0;
  for (const Suspect& suspect : former_life_) suspected += suspect.leaves.count;
  for (const Suspect& suspect : former_life_) {
    last.crashes.push_back({suspect.job,
                            {kFormerLife, suspect.leaves},
                            suspect.task_known,
                            suspect.task,
                            "the end of its worker",
                            suspected});
  }
}

void WorkerCore::AddRates(MonoTime now, std::vector<KernelRate>* rates) {
  for (WorkerDevice& device : devices_) {
    if (device.told_version != device.learned.version() && device.lanes > 0) {
      AddRates(&device, now, rates);
    }
  }
}

// A line is told at once when it is new, soon when it has changed, and seldom when it is only
// surer.
void WorkerCore::AddRates(WorkerDevice* device, MonoTime now, std::vector<KernelRate>* rates) {
  if (now < device->tell_at && !device->news) return;
  bool all = true;
  for (const DeviceModel::Row& row : device->learned.Rows(now)) {
    WorkerDevice::Told& told = device->told[*row.key];
    if (row.samples == told.told_samples) continue;
    // Stages follow each other on a core group, and overlap on a device.
    const BatchSeconds& task = row.line.per_task;
    const double predicted =
        device->lanes / (device->kind == DeviceKind::kCpu ? task.Alone() : task.Streamed());
    const double tasks_per_second = told.tasks_per_second > 0 ? told.tasks_per_second : predicted;
    if (told.told_samples > 0 && !Differs(tasks_per_second, told.told_tasks_per_second) &&
        now - told.at < options_.rate_refresh) {
      all = false;
      continue;
    }
    told.told_tasks_per_second = tasks_per_second;
    told.told_samples = row.samples;
    told.at = now;
    rates->push_back(ToRate(*device, row, tasks_per_second));
  }
  absl::erase_if(device->told, [device](const auto& entry) {
    return !device->learned.Knows(entry.first);  // forgotten for others
  });
  device->news = false;
  device->tell_at = now + options_.rate_interval;
  if (all) device->told_version = device->learned.version();
}

// A new master, or one that was told that nothing of it holds any more.
void WorkerCore::TellRatesAgain() {
  for (WorkerDevice& device : devices_) {
    for (auto& [key, told] : device.told) told.told_samples = 0;
    device.told_version = 0;
    device.news = true;
  }
}

// Only where leaves wait in an accumulator: else the master counts for itself. A backlog is told
// first and when it has halved: a message a piece would cost more than the master's grants gain by
// it. What was granted meanwhile the master knows.
void WorkerCore::AddBacklogs(std::vector<Backlog>* backlogs) {
  for (const auto& [id, device] : accumulating_) {
    JobState& job = jobs_.at(id);
    const uint64_t leaves = job.pool.leaves() + job.running_leaves;
    const uint64_t known = job.backlog_told.value_or(std::numeric_limits<uint64_t>::max());
    if (leaves > known) job.backlog_told = leaves;
    if (leaves >= known || leaves > known / 2) continue;
    job.backlog_told = leaves;
    backlogs->push_back({id, leaves, job.granted_leaves});
  }
}

}  // namespace tandem::worker
