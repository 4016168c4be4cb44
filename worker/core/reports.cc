// What the core tells the master: reports, rates and backlogs.
#include <algorithm>
#include <cmath>

#include "common/model/former_life.h"
#include "worker/core/worker_core.h"

namespace tandem::worker {
namespace {

constexpr double kRateChange = 0.1;  // below this a rate is not told again

bool Differs(double a, double b) { return std::abs(a - b) > kRateChange * std::max(a, b); }

}  // namespace

void WorkerCore::MakeReports(MonoTime now, Effects* effects) {
  std::vector<KernelRate> rates;
  std::vector<Backlog> backlogs;
  AddRates(now, &rates);
  AddBacklogs(&backlogs);
  const size_t before = effects->reports.size();
  next_report_ = outbox_.Report(next_report_, &effects->reports);
  const bool tells_former_life = !former_life_.empty() && former_life_report_ == 0;
  const bool more = !rates.empty() || !backlogs.empty() || !faults_.empty() || tells_former_life;
  if (more && effects->reports.size() == before) {
    effects->reports.emplace_back().number = next_report_++;
  }
  counters_.reports += effects->reports.size() - before;
  if (!more) return;
  Report& last = effects->reports.back();
  last.rates = std::move(rates);
  last.backlogs = std::move(backlogs);
  last.job_faults = std::move(faults_);
  faults_.clear();
  if (!tells_former_life) return;
  former_life_report_ = last.number;
  for (const Suspect& suspect : former_life_) {
    last.crashes.push_back({suspect.job,
                            {kFormerLife, suspect.leaves},
                            suspect.task_known,
                            suspect.task,
                            "the end of its worker"});
  }
}

void WorkerCore::AddRates(MonoTime now, std::vector<KernelRate>* rates) {
  for (auto& [key, kernel] : kernels_) {
    if (kernel.tasks_per_second <= 0 ||
        !Differs(kernel.tasks_per_second, kernel.told_tasks_per_second)) {
      continue;
    }
    if (kernel.told_tasks_per_second > 0 && now - kernel.told_at < options_.rate_interval) continue;
    kernel.told_tasks_per_second = kernel.tasks_per_second;
    kernel.told_at = now;
    rates->push_back({key.first, key.second, kernel.tasks_per_second, kernel.fixed_seconds});
  }
}

// Only where leaves wait in an accumulator: else the master counts for itself. A backlog is told
// when it has halved: a message a piece would cost more than the master's grants gain by it.
void WorkerCore::AddBacklogs(std::vector<Backlog>* backlogs) {
  for (const auto& [id, device] : accumulating_) {
    JobState& job = jobs_.at(id);
    const uint64_t leaves = job.pool.leaves() + job.running_leaves;
    const bool halved = leaves <= job.backlog_told / 2;
    if (leaves == job.backlog_told || (leaves < job.backlog_told && !halved)) continue;
    job.backlog_told = leaves;
    backlogs->push_back({id, leaves, job.granted_leaves});
  }
}

}  // namespace tandem::worker
