#include "tests/sim/scenario.h"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "tests/master/core/harness.h"
#include "tests/sim/auditor.h"
#include "tests/sim/sim_master.h"
#include "tests/sim/sim_worker.h"

namespace tandem::sim {
namespace {

constexpr absl::Duration kStorm = absl::Seconds(12);
constexpr absl::Duration kPatience = absl::Seconds(120);  // After healing.
// By the seed: the first is fast, the second slow. (Old regressions were found without any.)
constexpr uint32_t kDevices[8] = {0, 0, 1, 1, 2, 0, 0, 2};

class Scenario {
 public:
  Scenario(uint64_t seed, bool print)
      : world_(seed, print), auditor_(&world_), master_(&world_, &auditor_) {
    world_.devices = kDevices[seed % 8];
    const uint64_t workers = 1 + world_.rng.Below(3);
    for (uint64_t i = 0; i < workers; ++i) {
      workers_.push_back(std::make_unique<SimWorker>(&world_, &master_, StrCat("worker", i)));
    }
    storm_end_ = world_.now() + kStorm;
  }

  Outcome Run() {
    master_.Start();
    for (auto& worker : workers_) worker->Start();
    SetWeather();
    for (uint64_t i = 0, jobs = 1 + world_.rng.Below(5); i < jobs; ++i) PlanJob(i);
    PlanFault();
    while (world_.queue.RunNext(storm_end_) && world_.broken().empty()) {
    }
    Heal();
    const MonoTime end = world_.now() + kPatience;
    while (world_.broken().empty() && !Finished()) {
      if (!world_.queue.RunNext(end)) break;
    }
    Outcome outcome;
    outcome.broken = world_.broken();
    if (outcome.broken.empty() && !Finished()) {
      outcome.stuck =
          StrCat("unanswered ", unanswered_, ";", auditor_.Unfinished(), "; ", master_.Summary());
      for (auto& worker : workers_) outcome.stuck += "; " + worker->Summary();
    } else if (outcome.broken.empty()) {
      auditor_.CheckEnd();
      outcome.broken = world_.broken();
    }
    outcome.trace_hash = world_.hash();
    return outcome;
  }

 private:
  // Some seeds are stormy in one way, some in all, some are calm.
  void SetWeather() {
    Rng& rng = world_.rng;
    if (rng.Chance(0.3)) world_.weather.delay_max = absl::Milliseconds(300);
    if (rng.Chance(0.3)) world_.weather.stall = 0.05;
    if (rng.Chance(0.3)) world_.weather.executor_crash = rng.Chance(0.3) ? 0.6 : 0.02;
    if (rng.Chance(0.2)) world_.weather.start_failure = rng.NextDouble();
    if (rng.Chance(0.3)) world_.weather.sync_max = absl::Milliseconds(50);
    for (double& chance : chances_) chance = rng.Chance(0.5) ? rng.NextDouble() : 0;
    fault_interval_ = world_.Random(absl::Milliseconds(100), absl::Seconds(4));
  }

  bool Finished() const { return unanswered_ == 0 && auditor_.AllEnded(); }

  void PlanJob(uint64_t index) {
    Rng& rng = world_.rng;
    master::JobBuilder builder;
    builder.kernel = static_cast<master::TestKernel>(rng.Below(3));
    builder.tasks = rng.Chance(0.1) ? 0 : rng.Below(rng.Chance(0.3) ? 3000 : 300);
    builder.grain = 1 + rng.Below(8);
    builder.owner = rng.Chance(0.7) ? "ann" : "bob";
    builder.priority = static_cast<int32_t>(rng.Below(3));
    builder.retries = static_cast<uint32_t>(rng.Below(3));
    builder.crash_limit = static_cast<uint32_t>(1 + rng.Below(3));
    builder.allow_failed = rng.Chance(0.6);
    if (rng.Chance(0.2)) builder.max_task_failures = rng.Below(10);
    if (rng.Chance(0.4)) builder.max_lease_leaves = 1 + rng.Below(8);
    if (world_.devices > 0 && rng.Chance(0.3)) {
      builder.device = rng.Chance(0.5) ? DeviceChoice::kGpu : DeviceChoice::kCpu;
    }
    const std::string request = StrCat("request", index);
    const bool cancels = rng.Chance(0.15);
    ++unanswered_;
    world_.queue.After(world_.Random(absl::ZeroDuration(), kStorm / 2),
                       [this, builder, request, cancels] { Submit(builder, request, cancels); });
  }

  // Tries again until there is an answer: the request id makes that safe.
  void Submit(const master::JobBuilder& builder, const std::string& request, bool cancels) {
    if (answered_.contains(request)) return;
    master::SubmitJob submit;
    submit.bound = builder.Build();
    submit.request_id = request;
    submit.request_hash = builder.tasks;
    submit.submitted = absl::UnixEpoch();
    master_.Submit(submit, [this, request, cancels,
                            owner = builder.owner](const absl::StatusOr<JobId>& result) {
      world_.Expect(result.ok(), "a submit failed");
      if (!result.ok()) return;
      auditor_.OnSubmitAcknowledged(request, *result);
      // The answer may be lost on its way; then the owner asks again.
      if (world_.rng.Chance(0.1) || !answered_.insert(request).second) return;
      world_.Trace(request, " is job ", *result);
      --unanswered_;
      if (!cancels) return;
      ++unanswered_;
      world_.queue.After(world_.Random(absl::ZeroDuration(), absl::Seconds(3)),
                         [this, job = *result, owner] { Cancel(job, owner); });
    });
    world_.queue.After(absl::Seconds(1),
                       [this, builder, request, cancels] { Submit(builder, request, cancels); });
  }

  void Cancel(JobId job, const std::string& owner) {
    if (!cancelling_.insert(job).second && cancelled_.contains(job)) return;
    master_.Cancel(job, owner, [this, job](const absl::StatusOr<JobId>& result) {
      if (!cancelled_.insert(job).second) return;
      world_.Trace("cancel of job ", job, result.ok() ? " is acknowledged" : " comes too late");
      if (result.ok()) auditor_.OnCancelAcknowledged(job);
      --unanswered_;
    });
    world_.queue.After(absl::Seconds(1), [this, job, owner] { Cancel(job, owner); });
  }

  void PlanFault() {
    world_.queue.After(world_.Random(absl::Milliseconds(10), fault_interval_), [this] {
      if (world_.now() >= storm_end_) return;
      Fault();
      PlanFault();
    });
  }

  SimWorker& AnyWorker() { return *workers_[world_.rng.Below(workers_.size())]; }

  void Fault() {
    const uint64_t kind = world_.rng.Below(std::size(chances_));
    if (!world_.rng.Chance(chances_[kind])) return;
    const absl::Duration while_ = world_.Random(absl::Milliseconds(10), absl::Seconds(8));
    SimWorker& worker = AnyWorker();
    switch (kind) {
      case 0:
        worker.Crash();
        return world_.queue.After(while_ / 4, [&worker] { worker.Start(); });
      case 1:
        worker.TroubleADevice(while_);
        return worker.KillAnExecutor();
      case 2:
        return worker.BreakConnection();
      case 3:
        return worker.Partition(world_.rng.Chance(0.6), world_.rng.Chance(0.6), while_);
      case 4:
        return worker.Pause(while_);
      case 5:
        master_.Crash();
        return world_.queue.After(while_ / 4, [this] { master_.Start(); });
      case 6:
        return master_.Pause(while_ / 2);
      case 7:
        master_.Drain(worker.name(), true);
        return world_.queue.After(while_ / 4,
                                  [this, &worker] { master_.Drain(worker.name(), false); });
    }
  }

  void Heal() {
    world_.Trace("the storm is over");
    world_.weather = Weather();
    master_.Start();
    for (auto& worker : workers_) {
      worker->Start();
      worker->MendDevices();
      master_.Drain(worker->name(), false);
    }
    // Drains that a later attach would bring back.
    world_.queue.After(absl::Seconds(15), [this] {
      for (auto& worker : workers_) master_.Drain(worker->name(), false);
    });
  }

  World world_;
  Auditor auditor_;
  SimMaster master_;
  std::vector<std::unique_ptr<SimWorker>> workers_;
  MonoTime storm_end_;
  double chances_[8] = {};
  absl::Duration fault_interval_;
  int unanswered_ = 0;
  std::set<std::string> answered_;
  std::set<JobId> cancelling_;
  std::set<JobId> cancelled_;
};

}  // namespace

Outcome RunScenario(uint64_t seed, bool print) { return Scenario(seed, print).Run(); }

}  // namespace tandem::sim
