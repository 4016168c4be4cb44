#include "master/core/core.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "master/core/large_leaves.h"
#include "master/core/turn.h"

namespace tandem::master {
namespace {

struct Dispatch {
  Turn& turn;
  void operator()(const SubmitJob& e) { OnSubmit(turn, e); }
  void operator()(const JobDurable& e) { OnDurable(turn, e); }
  void operator()(const CancelJob& e) { OnCancel(turn, e); }
  void operator()(const DeleteJob& e) { OnDelete(turn, e); }
  void operator()(const WorkerAttach& e) { OnAttach(turn, e); }
  void operator()(const WorkerDetached& e) { OnDetached(turn, e); }
  void operator()(const WorkerLeft& e) { OnLeft(turn, e); }
  void operator()(const WorkerReported& e) { OnReported(turn, e); }
  void operator()(const WorkerPulsed& e) { OnPulsed(turn, e); }
  void operator()(const WorkerAnnounced& e) { OnAnnounced(turn, e); }
  void operator()(const DrainWorker& e) { OnDrain(turn, e); }
  void operator()(const Tick&) { OnTick(turn); }
};

// What the replay has not said: which leaves are free.
void RebuildFree(Job& job) {
  uint64_t next = 0;
  const auto free = [&](LeafRange leaves) {
    job.retries.ForEachIn(leaves, [&](LeafRange part, const Retry* retry) {
      (retry != nullptr && retry->suspect ? job.free_suspects : job.free).Add(part);
    });
  };
  for (LeafRange done : job.done) {
    free({next, done.begin});
    next = done.end;
  }
  free({next, job.tree().leaf_count()});
}

// Some of the jobs that the worker holds leaves of.
std::vector<JobId> HeldJobs(const Worker& worker) {
  std::vector<JobId> jobs;
  for (const auto& [id, at] : worker.jobs) {
    if (at.leaves > 0) jobs.push_back(id);
    if (jobs.size() == WorkerView::kJobsMax) break;
  }
  return jobs;
}

}  // namespace

MasterCore::MasterCore(const Options& options) : state_(options) {}

void MasterCore::Replay(const Record& record) {
  CHECK(!recovered_);
  std::visit([&](const auto& r) { Apply(state_, r); }, record);
}

void MasterCore::Recovered(Epoch epoch, MonoTime now) {
  CHECK(!recovered_);
  recovered_ = true;
  state_.epoch = epoch;
  state_.last_job = state_.reserved_jobs;
  for (const auto& [id, name] : state_.known_workers) {
    auto worker = std::make_unique<Worker>();
    worker->id = id;
    worker->name = name;
    worker->draining = state_.drained.contains(name);
    worker->phase = Expected{now + state_.options.lease_ttl};
    SetTimer(state_, *worker);
    state_.worker_names[name] = id;
    state_.workers[id] = std::move(worker);
    ++state_.expected;
  }
  for (auto& [id, job] : state_.jobs) {
    if (job->ended()) continue;
    job->recovered = true;
    job->durable = true;
    job->accepted_at = now;
    RebuildFree(*job);
    if (!job->done.empty()) Move(&job->phase, Running{});
    RefreshReady(state_, *job);
    unsettled_.push_back(id);
  }
}

void MasterCore::BeganAfter(JobId id, absl::Duration delay) {
  CHECK(!recovered_);
  if (Job* job = state_.FindJob(id); job != nullptr) job->started_after = delay;
}

void MasterCore::Step(const Event& event, MonoTime now, Effects* effects) {
  CHECK(recovered_);
  Turn turn{state_, now, *effects};
  for (JobId id : std::exchange(unsettled_, {})) {
    if (Job* job = state_.FindActive(id); job != nullptr) AfterProgress(turn, *job);
  }
  std::visit(Dispatch{turn}, event);
  if (turn.workers_changed) FailWhatFitsNowhere(turn);
  Schedule(turn);
  if (turn.workers_changed) RefreshWaits(turn);
  FailUnsatisfiable(turn);
  effects->workers_changed |= turn.workers_changed;
  FlushStatuses(turn);
  effects->next_deadline = state_.timers.empty()
                               ? state_.look_at
                               : std::min(state_.look_at, state_.timers.begin()->first);
  state_.promised = effects->next_deadline;
}

void MasterCore::Close(Effects* effects) {
  if (state_.reserved_jobs == state_.last_job) return;
  Turn{state_, MonoTime::InfinitePast(), *effects}.Record(
      IdsIssued{state_.last_job, state_.last_worker});
}

void MasterCore::Snapshot(std::vector<Record>* records) const { AppendSnapshot(state_, records); }

uint64_t MasterCore::DurableHash() const { return HashDurable(state_); }

void MasterCore::AddSegments(std::vector<SegmentId>* segments) const {
  const auto add = [segments](const OutputsHandle& outputs) {
    if (outputs == nullptr) return;
    for (const OutputPiece& piece : *outputs) {
      const auto* region = std::get_if<Region>(&piece.where);
      if (region != nullptr) segments->push_back(region->segment);
    }
  };
  for (const auto& [id, job] : state_.jobs) {
    job->partials.ForEach([&](const Partial& partial) { add(partial.outputs); });
    const auto* succeeded = std::get_if<Succeeded>(&job->phase);
    if (succeeded != nullptr) add(succeeded->result);
  }
}

std::optional<JobStatus> MasterCore::Status(JobId id) const {
  const auto it = state_.jobs.find(id);
  if (it == state_.jobs.end()) return std::nullopt;
  return MakeStatus(state_, *it->second);
}

std::vector<JobId> MasterCore::Jobs() const {
  std::vector<JobId> ids;
  ids.reserve(state_.jobs.size());
  for (const auto& [id, job] : state_.jobs) ids.push_back(id);
  return ids;
}

std::vector<WorkerView> MasterCore::Workers() const {
  std::vector<WorkerView> views;
  for (const auto& [id, worker] : state_.workers) {
    views.push_back({.id = id,
                     .name = worker->name,
                     .phase = static_cast<WorkerView::Phase>(worker->phase.index()),
                     .draining = worker->draining,
                     .jobs = HeldJobs(*worker),
                     .merges = worker->merges,
                     .leases = static_cast<uint64_t>(worker->load.leases()),
                     .queued_seconds = worker->load.AtLeast(INT32_MIN).seconds,
                     .latency_seconds = worker->latency_seconds});
  }
  return views;
}

std::vector<KernelView> MasterCore::Kernels() const {
  std::vector<KernelView> views;
  views.reserve(state_.kernels.size());
  for (const KernelEntry& kernel : state_.kernels) {
    views.push_back({kernel.name, kernel.identity, kernel.workers});
  }
  return views;
}

}  // namespace tandem::master
