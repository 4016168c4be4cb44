// Devices, and the lives of executors on them.
#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/reason.h"
#include "common/base/strings.h"
#include "worker/core/worker_core.h"

namespace tandem::worker {

void WorkerCore::On(DeviceFound event, MonoTime, Effects*) {
  auto device = std::find_if(devices_.begin(), devices_.end(),
                             [&](const WorkerDevice& known) { return known.name == event.device; });
  if (device == devices_.end()) {
    if (devices_.size() >= kDevicesMax) return;  // The shell says so: it knows the limit.
    device = devices_.emplace(devices_.end());
    device->name = event.device;
    device->kind = event.kind;
    device->model = std::move(event.model);
    if (event.kind != DeviceKind::kCpu) device->learned.RunsGrids();
  }
  device->budget_bytes = std::min(event.budget_bytes, kBudgetMax);
  device->kernels.emplace(event.kernels.begin(), event.kernels.end());
  ++devices_version_;
}

// What runs there is lost, and blamed on nobody.
void WorkerCore::On(DeviceTroubled event, MonoTime, Effects* effects) {
  for (DeviceIndex index = 0; index < devices_.size(); ++index) {
    if (devices_[index].name != event.device) continue;
    devices_[index].trouble = event.trouble;
    ++devices_version_;
    if (event.trouble.empty()) return;
    for (auto& [name, owner] : owners_) {
      if (index < owner.executors.size()) KillExecutor(&owner.executors[index], effects);
    }
  }
  if (event.trouble.empty()) return;
  for (auto& [id, job] : jobs_) {
    RefuseIfNowhere(&job, effects);
    ReturnWhatFitsNowhere(&job, effects);
  }
}

// A job that no device here may run goes back, with the reason.
void WorkerCore::RefuseIfNowhere(JobState* job, Effects* effects) {
  std::string why = WhyNowhere(*job);
  if (why.empty()) return;
  RefuseJob(job, {job->info.job, std::move(why)}, last_step_ + options_.refusal, effects);
}

void WorkerCore::On(ExecutorReady event, MonoTime, Effects*) {
  const auto found = executors_.find(event.executor);
  if (found == executors_.end()) return;
  OwnersExecutor& executor = *found->second;
  if (executor.phase != OwnersExecutor::Phase::kStarting) return;
  executor.phase = OwnersExecutor::Phase::kReady;
  executor.lanes = std::max(event.groups, 1u);
  executor.cores = std::max(event.cores, 1u);
  executor.shrinks = event.shrinks;
  devices_[executor.device].lanes = executor.lanes;
  uint32_t known = 0;
  for (const PullLane& lane : lanes_) known += lane.device == executor.device ? 1 : 0;
  for (; known < executor.lanes; ++known) {
    PullLane& lane = lanes_.emplace_back();
    lane.device = executor.device;
    lane.number = known;
  }
}

void WorkerCore::On(ExecutorLost event, MonoTime now, Effects* effects) {
  using Phase = OwnersExecutor::Phase;
  outbox_.ExecutorLost(event.executor, effects);
  const auto found = executors_.find(event.executor);
  if (found == executors_.end()) return;
  OwnersExecutor& executor = *found->second;
  executors_.erase(found);
  const bool wanted = executor.phase == Phase::kStopping;
  if (wanted) event.suspects.clear();  // It was this core that ended it.
  const LostPieces lost = LosePieces(&executor, event, effects);
  executor.phase = Phase::kNone;
  executor.set_up.clear();
  executor.id = 0;
  executor.idle_since = MonoTime::InfiniteFuture();
  for (auto& [id, job] : jobs_) {
    if (job.owner != executor.owner || executor.device >= job.on.size()) continue;
    Accumulator& accumulator = job.on[executor.device].accumulator;
    std::vector<PieceId> held;
    for (const auto& [piece, part] : accumulator.pieces) held.push_back(piece);
    RunAgain(&job, executor.device, std::move(held), effects);
    accumulator = Accumulator();
  }
  if (wanted) return;
  ++counters_.executors_lost;
  for (const JobId job : lost.waiting) {
    if (!lost.begun.contains(job)) CountLoss(job, event, now, effects);
  }
  PlanRestart(&executor, lost.explained, now);
  if (executor.losses >= options_.losses_max && lost.waiting.empty()) {
    GiveUpOn(&executor, event.how, now, effects);
  }
}

WorkerCore::LostPieces WorkerCore::LosePieces(OwnersExecutor* executor, const ExecutorLost& event,
                                              Effects* effects) {
  LostPieces result;
  uint64_t suspected = 0;
  for (const Suspect& suspect : event.suspects) suspected += suspect.leaves.count;
  std::vector<PieceId> lost;
  for (const auto& [id, piece] : pieces_) {
    if (piece.executor == executor) lost.push_back(id);
  }
  // From the last to the first: each goes to the end of its pool from which it came.
  for (auto id = lost.rbegin(); id != lost.rend(); ++id) {
    InFlightPiece piece;
    TakePiece(*id, &piece);
    if (piece.is_void) continue;
    const JobId job = piece.job;
    if (piece.merge != nullptr) {
      LoseMerge(std::move(piece), event, effects);
      result.explained = true;  // A merge has a bound of its own.
    } else {
      const bool begun = LosePiece(std::move(piece), event, suspected, effects);
      (begun ? result.begun : result.waiting).insert(job);
    }
  }
  result.explained |= !result.begun.empty();
  for (auto& [id, job] : jobs_) {
    if (job.owner != executor->owner || job.pulls == nullptr) continue;
    for (uint32_t i = 0; i < job.pulls->lanes.size(); ++i) {
      if (lanes_[i].device != executor->device) continue;
      job.pulls->puller.Lost(i);
      job.pulls->lanes[i].there = false;
    }
  }
  return result;
}

// An executor ended with pieces of the job that had not begun. It is not to blame, unless that goes
// on when it is apart from others.
void WorkerCore::CountLoss(JobId id, const ExecutorLost& event, MonoTime now, Effects* effects) {
  JobState* job = FindJob(id);
  if (job == nullptr || ++job->losses < options_.losses_max) return;
  const std::string reason =
      StrCat(reason::kCrashLimit, ": the executor ended ", std::exchange(job->losses, 0),
             " times in a row before anything of the job had begun, last with ", event.how);
  RefuseJob(job, {id, reason}, now + options_.refusal, effects);
}

// A loss that a start page explains costs a strike, and strikes are bounded: the next executor
// starts soon. What nothing explains may go on for ever: executors start ever more slowly.
void WorkerCore::PlanRestart(OwnersExecutor* executor, bool explained, MonoTime now) {
  executor->losses = explained ? 0 : executor->losses + 1;
  const double backoff =
      std::min(absl::ToDoubleSeconds(options_.restart_max),
               absl::ToDoubleSeconds(options_.restart_min) *
                   static_cast<double>(uint64_t{1} << std::min(executor->losses, 20u)));
  executor->start_at = now + absl::Seconds(backoff * (0.5 + 0.5 * rng_.NextDouble()));
}

// Suspects get the blame, one report each; everything else of the piece runs again.
bool WorkerCore::LosePiece(InFlightPiece piece, const ExecutorLost& event, uint64_t suspected,
                           Effects* effects) {
  bool explained = false;
  std::vector<Suspect> suspects;
  for (const Suspect& suspect : event.suspects) {
    if (suspect.job == piece.job) suspects.push_back(suspect);
  }
  std::sort(suspects.begin(), suspects.end(),
            [](const Suspect& a, const Suspect& b) { return a.leaves.first < b.leaves.first; });
  JobState* job = FindJob(piece.job);
  std::vector<LeaseRun> rest;
  for (const LeaseRun& of : RunsOf(&piece)) {
    uint64_t leaf = of.first();
    for (const Suspect& suspect : suspects) {
      LeaseRun blamed = of.Within(std::max(leaf, suspect.leaves.first),
                                  suspect.leaves.first + suspect.leaves.count);
      if (blamed.count() == 0) continue;
      rest.push_back(of.Within(leaf, blamed.first()));
      leaf = blamed.end();
      explained = true;
      counters_.suspects += blamed.count();
      OutItem item;
      item.kind = OutItem::Kind::kCrash;
      item.job = piece.job;
      item.runs.push_back(std::move(blamed));
      NoteLeft(item.job, item.runs);
      item.task_known = suspect.task_known;
      item.task = suspect.task;
      item.suspected_leaves = suspected;
      item.text = event.how;
      outbox_.Add(std::move(item), 0, {}, effects);
    }
    rest.push_back(of.Within(leaf, of.end()));
  }
  for (auto run = rest.rbegin(); run != rest.rend(); ++run) {
    if (piece.recalled && run->count() > 0) {
      Return(piece.job, {std::move(*run)}, effects);
    } else {
      Accept(job, std::move(*run), /*front=*/true, effects);
    }
  }
  return explained;
}

void WorkerCore::LoseMerge(InFlightPiece piece, const ExecutorLost& event, Effects* effects) {
  MergeWork work = std::move(*piece.merge);
  if (++work.losses < options_.merge_tries_max) {
    piece.executor->owner->merges.push_front(std::move(work));
    return;
  }
  OutItem item;
  item.kind = OutItem::Kind::kMerge;
  item.job = piece.job;
  item.merge_n = work.grant.n;
  item.text = StrCat(reason::kExecutorLost, ": the executor ended (", event.how, ") each of ",
                     work.losses, " times that this merge ran");
  outbox_.Add(std::move(item), 0, {}, effects);
}

// The CPU's executor is what every owner needs. Without another one the work goes on elsewhere.
void WorkerCore::GiveUpOn(OwnersExecutor* executor, const std::string& how, MonoTime now,
                          Effects* effects) {
  const std::string reason =
      StrCat(reason::kExecutorLost, ": the executor ended ", executor->losses,
             " times in a row before it was given anything, last with ", how);
  executor->losses = 0;
  for (auto& entry : jobs_) {
    JobState& job = entry.second;
    if (job.owner != executor->owner || !Eligible(job, executor->device)) continue;
    bool elsewhere = false;
    for (const OwnersExecutor& other : job.owner->executors) {
      elsewhere |= &other != executor && Eligible(job, other.device) &&
                   other.phase == OwnersExecutor::Phase::kReady;
    }
    if (!elsewhere) RefuseJob(&job, {entry.first, reason}, now + options_.refusal, effects);
  }
}

bool WorkerCore::HasWorkFor(const OwnerState& owner, DeviceIndex device) const {
  if (!devices_[device].trouble.empty()) return false;
  if (device == kCpuDevice && !owner.merges.empty()) return true;
  uint32_t looks = options_.pull.looks_max;
  for (const auto& [order, id] : owner.runnable) {
    if (Eligible(jobs_.at(id), device)) return true;
    if (--looks == 0) return false;
  }
  return false;
}

bool WorkerCore::Accumulates(const OwnersExecutor& executor) const {
  return std::any_of(accumulating_.begin(), accumulating_.end(), [&](const auto& key) {
    return key.second == executor.device && jobs_.at(key.first).owner == executor.owner;
  });
}

void WorkerCore::ManageExecutors(MonoTime now, Effects* effects) {
  for (auto it = owners_.begin(); it != owners_.end();) {
    OwnerState& owner = it->second;
    bool needed = owner.jobs > 0;
    while (owner.executors.size() < devices_.size()) {
      owner.executors.emplace_back(&owner, static_cast<DeviceIndex>(owner.executors.size()));
    }
    for (OwnersExecutor& executor : owner.executors) {
      ManageExecutor(&executor, now, effects);
      needed |= executor.phase != OwnersExecutor::Phase::kNone || executor.in_flight > 0;
    }
    if (needed) {
      ++it;
      continue;
    }
    for (PullLane& lane : lanes_) {
      if (lane.holder == &owner) lane.holder = nullptr;
    }
    it = owners_.erase(it);
  }
}

void WorkerCore::ManageExecutor(OwnersExecutor* executor, MonoTime now, Effects* effects) {
  using Phase = OwnersExecutor::Phase;
  const bool has_work = HasWorkFor(*executor->owner, executor->device);
  if (executor->phase == Phase::kNone && has_work && now >= executor->start_at) {
    executor->phase = Phase::kStarting;
    executor->id = ++last_executor_;
    executors_[executor->id] = executor;
    outbox_.ExecutorStarted(executor->id);
    ++counters_.executors_started;
    effects->to_executors.push_back(
        StartExecutor{executor->id, executor->owner->name, devices_[executor->device].name});
  }
  if (executor->voids > 0 && now - executor->voids_since >= options_.void_max) {
    KillExecutor(executor, effects);
  }
  const bool idle = executor->phase == Phase::kReady && executor->in_flight == 0 && !has_work &&
                    !Accumulates(*executor);
  if (!idle) {
    executor->idle_since = MonoTime::InfiniteFuture();
  } else if (executor->idle_since == MonoTime::InfiniteFuture()) {
    executor->idle_since = now;
  } else if (now - executor->idle_since >= options_.executor_idle_max) {
    KillExecutor(executor, effects);
  }
}

void WorkerCore::KillExecutor(OwnersExecutor* executor, Effects* effects) {
  using Phase = OwnersExecutor::Phase;
  if (executor->phase != Phase::kStarting && executor->phase != Phase::kReady) return;
  executor->phase = Phase::kStopping;
  executor->idle_since = MonoTime::InfiniteFuture();
  effects->to_executors.push_back(worker::KillExecutor{executor->id});
}

}  // namespace tandem::worker
