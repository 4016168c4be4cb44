#include "worker/core/worker_core.h"

#include <algorithm>
#include <iterator>
#include <variant>

#include "common/base/check.h"

namespace tandem::worker {

WorkerCore::WorkerCore(const CoreOptions& options, uint64_t seed)
    : options_(options),
      rng_(seed),
      lease_ttl_(options.lease_ttl),
      heartbeat_(options.heartbeat),
      outbox_(options) {
  devices_.emplace_back().name = "cpu";
}

void WorkerCore::Step(Event event, MonoTime now, Effects* effects) {
  FenceIfPaused(now, effects);
  std::visit([&](auto& e) { On(std::move(e), now, effects); }, event);
}

void WorkerCore::Settle(MonoTime now, Effects* effects) {
  FenceIfPaused(now, effects);
  if (options_.kill_when_master_lost && link_ == Link::kDown && now - down_since_ >= lease_ttl_ &&
      down_since_ != MonoTime::InfinitePast()) {
    DropEverything(effects);
    down_since_ = MonoTime::InfinitePast();
  }
  outbox_.RetryPushes(now, effects);
  FlushWhatIsDue(now, effects);
  ManageExecutors(now, effects);
  Dispatch(now, effects);
  if (link_ == Link::kAttached) {
    MakeReports(now, effects);
    if (now >= heartbeat_at_) {
      effects->heartbeat = true;
      heartbeat_at_ = now + heartbeat_;
    }
  }
  if (shutting_down_) LeaveIfDone(effects);
  effects->next_deadline = NextDeadline(now);
}

void WorkerCore::On(Connected, MonoTime, Effects* effects) {
  link_ = Link::kGreeting;
  ++session_;
  forgot_ = 0;  // nobody waits for it any more
  down_since_ = MonoTime::InfinitePast();
  effects->hello = SendHello{max_epoch_, Held()};
}

void WorkerCore::On(Disconnected, MonoTime now, Effects*) {
  if (link_ != Link::kDown) down_since_ = now;
  if (link_ == Link::kAttached) lost_at_ = now;
  link_ = Link::kDown;
  outbox_.MasterLost();
}

void WorkerCore::On(JobDescribed event, MonoTime, Effects*) {
  const JobId id = event.job;
  const auto [it, is_new] = jobs_.try_emplace(id);
  JobState& job = it->second;
  job.session = session_;
  if (!is_new) return;
  OwnerState& owner = owners_[event.owner];
  owner.name = event.owner;
  ++owner.jobs;
  limited_jobs_ += event.time_limit < absl::InfiniteDuration() ? 1 : 0;
  job.owner = &owner;
  job.tree = RangeTree(event.task_count, std::max<uint64_t>(event.grain, 1));
  job.model_key = {event.kernel, event.extents};
  job.info = std::move(event);
}

void WorkerCore::On(Granted event, MonoTime, Effects* effects) {
  if (link_ != Link::kAttached) return;
  JobState* job = FindJob(event.grant.job);
  const uint64_t leaf_count = job != nullptr ? job->tree.leaf_count() : RangeTree::kTasksMax;
  LeaseRun run = LeaseRun::Of(event.grant, epoch_, leaf_count);
  if (job == nullptr) {
    Return(event.grant.job, {std::move(run)}, effects);
    return;
  }
  job->granted_leaves += run.count();
  if (MayNote(job, run)) job->splits.Granted(run, last_step_);
  RefuseIfNowhere(job, effects);
  // The master may have forgotten, or hoped.
  if (!Welcome(job, effects)) faults_.push_back({event.grant.job, job->fault->reason});
  Accept(job, std::move(run), /*front=*/false, effects);
}

void WorkerCore::On(MergeGranted event, MonoTime, Effects*) {
  JobState* job = link_ == Link::kAttached ? FindJob(event.merge.job) : nullptr;
  if (job != nullptr) job->owner->merges.push_back({std::move(event.merge), 0});
}

void WorkerCore::On(Recalled event, MonoTime, Effects* effects) {
  const LeafInterval& leaves = event.recall.leaves;
  if (JobState* job = FindJob(event.recall.job)) {
    Recall(job, leaves.first, leaves.first + leaves.count, effects);
  }
}

void WorkerCore::On(OutlookSaid event, MonoTime, Effects*) {
  if (JobState* job = FindJob(event.outlook.job)) job->share_leaves = event.outlook.share_leaves;
}

void WorkerCore::On(JobDropped event, MonoTime, Effects* effects) {
  if (JobState* job = FindJob(event.job)) EndJob(job, effects);
}

void WorkerCore::On(ReportAcked event, MonoTime, Effects* effects) {
  outbox_.Acked(event.number, effects);
  if (former_life_report_ == 0 || event.number < former_life_report_) return;
  former_life_report_ = 0;
  former_life_.clear();
  effects->former_life_told = true;
}

void WorkerCore::On(DrainSaid event, MonoTime, Effects* effects) {
  draining_ = event.drain || shutting_down_;
  if (draining_) ReturnUnstarted(effects);
}

void WorkerCore::On(PushDone event, MonoTime, Effects* effects) {
  outbox_.PushDone(event.push, event.region, effects);
}

void WorkerCore::On(PushFailed event, MonoTime now, Effects* effects) {
  outbox_.PushFailed(event.push, now, effects);
}

void WorkerCore::On(Tick, MonoTime, Effects*) {}

void WorkerCore::On(FormerLife event, MonoTime, Effects*) {
  former_life_ = std::move(event.suspects);
}

void WorkerCore::On(Shutdown, MonoTime, Effects* effects) {
  shutting_down_ = true;
  draining_ = true;
  ReturnUnstarted(effects);
}

JobState* WorkerCore::FindJob(JobId id) {
  const auto found = jobs_.find(id);
  return found == jobs_.end() ? nullptr : &found->second;
}

// Leaves to be run here, now or again; or back to the master, where that is not to be.
void WorkerCore::Accept(JobState* job, LeaseRun run, bool front, Effects* effects) {
  if (run.count() == 0) return;
  if (draining_ || !Welcome(job, effects)) {
    Return(job->info.job, {std::move(run)}, effects);
    return;
  }
  if (run.need_bytes > 0 && !HeldSomewhere(*job, run)) {
    const uint64_t budget = run.need_bytes - 1;
    return ReturnTooLarge(job->info.job, std::move(run), budget, effects);
  }
  if (front) {
    job->pool.PushFront(std::move(run));
  } else {
    job->pool.PushBack(std::move(run));
  }
  UpdateRunnable(job);
}

void WorkerCore::UpdateRunnable(JobState* job) {
  auto& runnable = job->owner->runnable;
  if (!job->pool.empty() && job->order == 0) {
    job->order = ++last_order_;
    runnable.emplace(job->order, job->info.job);
  } else if (job->pool.empty() && job->order != 0) {
    runnable.erase({job->order, job->info.job});
    job->order = 0;
  }
}

// Behind the owner's other jobs: a long one that is topped up again and again holds up no short
// one.
void WorkerCore::TakeTurn(JobState* job) {
  auto& runnable = job->owner->runnable;
  runnable.erase({job->order, job->info.job});
  job->order = 0;
  UpdateRunnable(job);
}

void WorkerCore::Return(JobId job, std::vector<LeaseRun> runs, Effects* effects) {
  if (runs.empty()) return;
  for (const LeaseRun& run : runs) counters_.leaves_returned += run.count();
  NoteLeft(job, runs);
  OutItem item;
  item.kind = OutItem::Kind::kReturn;
  item.job = job;
  item.runs = std::move(runs);
  outbox_.Add(std::move(item), 0, {}, effects);
}

void WorkerCore::ReturnPool(JobState* job, Effects* effects) {
  Return(job->info.job, job->pool.TakeAll(), effects);
  UpdateRunnable(job);
}

void WorkerCore::ReturnUnstarted(Effects* effects) {
  for (auto& [id, job] : jobs_) ReturnPool(&job, effects);
  for (auto& [id, piece] : pieces_) {
    if (piece.is_void || piece.merge != nullptr || piece.recalled) continue;
    piece.recalled = true;
    effects->to_executors.push_back(CancelPiece{piece.executor->id, id});
  }
}

void WorkerCore::EndJob(JobState* job, Effects* effects) {
  const JobId id = job->info.job;
  OwnerState* owner = job->owner;
  for (auto& [piece_id, piece] : pieces_) {
    if (piece.job == id && !piece.is_void) VoidPiece(piece_id, &piece, effects);
  }
  job->pool.TakeAll();
  UpdateRunnable(job);
  std::erase_if(owner->merges, [id](const MergeWork& work) { return work.grant.job == id; });
  for (DeviceIndex device = 0; device < job->on.size(); ++device) accumulating_.erase({id, device});
  outbox_.DropJob(id, effects);
  ForgetSetups(job, effects);
  --owner->jobs;
  limited_jobs_ -= job->info.time_limit < absl::InfiniteDuration() ? 1 : 0;
  jobs_.erase(id);
}

void WorkerCore::RefuseJob(JobState* job, JobFault fault, MonoTime until, Effects* effects) {
  if (job->fault.has_value()) return;
  job->fault = std::move(fault);
  job->fault_until = until;
  faults_.push_back(*job->fault);
  ReturnPool(job, effects);
}

bool WorkerCore::Welcome(JobState* job, Effects* effects) {
  if (!job->fault.has_value()) return true;
  if (last_step_ < job->fault_until || job->in_flight > 0) return false;
  job->fault.reset();
  ForgetSetups(job, effects);  // executors forget why they refused the job, too
  return true;
}

void WorkerCore::ForgetSetups(JobState* job, Effects* effects) {
  for (OwnersExecutor& executor : job->owner->executors) {
    if (executor.set_up.erase(job->info.job) == 0) continue;
    effects->to_executors.push_back(ForgetJob{executor.id, job->info.job});
  }
}

bool WorkerCore::TakePiece(PieceId id, InFlightPiece* piece) {
  const auto found = pieces_.find(id);
  if (found == pieces_.end()) return false;
  *piece = std::move(found->second);
  pieces_.erase(found);
  OwnersExecutor& executor = *piece->executor;
  --executor.in_flight;
  if (piece->is_void) {
    executor.voids_since = --executor.voids > 0 ? last_step_ : MonoTime::InfiniteFuture();
  }
  PullLane& lane = lanes_[piece->lane];
  --lane.in_flight;
  lane.voids -= piece->is_void ? 1 : 0;
  if (piece->predicted == absl::InfiniteDuration()) {
    --lane.unpredicted;
  } else {
    lane.predicted -= piece->predicted;
  }
  lane.unproven -= piece->unproven;
  if (executor.in_flight == 0) {
    executor.alone = false;
    executor.suspect_set = LeaseId();
  }
  if (!piece->is_void && piece->merge == nullptr) {
    JobState* job = FindJob(piece->job);
    LeavePulls(job, id, *piece);
    --job->in_flight;
    job->running_leaves -= piece->run.count();
  }
  return true;
}

bool WorkerCore::TakePieceOf(ExecutorId executor, PieceId id, PieceKind kind,
                             InFlightPiece* piece) {
  const auto found = pieces_.find(id);
  if (found == pieces_.end() || found->second.executor->id != executor) return false;
  const PieceKind is = found->second.merge != nullptr ? PieceKind::kMerge : PieceKind::kRun;
  return (kind == PieceKind::kAny || kind == is) && TakePiece(id, piece);
}

// The leases of a piece that was taken.
std::vector<LeaseRun> WorkerCore::RunsOf(InFlightPiece* piece) {
  if (!piece->renewed.empty()) return std::move(piece->renewed);
  std::vector<LeaseRun> runs;
  runs.push_back(std::move(piece->run));
  return runs;
}

// Its leases are gone. It still occupies its lane until the executor is done with it.
void WorkerCore::VoidPiece(PieceId id, InFlightPiece* piece, Effects* effects) {
  DCHECK(!piece->is_void);
  piece->is_void = true;
  ++lanes_[piece->lane].voids;
  ++piece->executor->voids;
  piece->executor->voids_since = last_step_;
  ++counters_.pieces_void;
  if (piece->merge == nullptr) {
    JobState* job = FindJob(piece->job);
    LeavePulls(job, id, *piece);
    --job->in_flight;
    job->running_leaves -= piece->run.count();
  }
  effects->to_executors.push_back(CancelPiece{piece->executor->id, id});
}

uint64_t WorkerCore::backlog_leaves() const {
  uint64_t leaves = 0;
  for (const auto& [id, job] : jobs_) leaves += job.pool.leaves() + job.running_leaves;
  return leaves;
}

absl::Duration WorkerCore::TimeAllowed(JobId id, LeafInterval leaves, bool one_task) const {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return absl::InfiniteDuration();
  const absl::Duration limit = found->second.info.time_limit;
  if (one_task || limit == absl::InfiniteDuration()) return limit;
  // Many tasks that are each within the limit take their time.
  return limit + TimeExpected(id, leaves);
}

absl::Duration WorkerCore::TimeExpected(JobId id, LeafInterval leaves) const {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return absl::ZeroDuration();
  const JobState& job = found->second;
  constexpr double kSlack = 4;
  const double tasks = static_cast<double>(leaves.count) * static_cast<double>(job.tree.grain());
  double seconds = 0;  // of the slowest device that may run them
  for (const OwnersExecutor& executor : job.owner->executors) {
    if (!Eligible(job, executor.device)) continue;
    const double cores = std::max(1.0, static_cast<double>(executor.cores) / executor.lanes);
    seconds = std::max(seconds, cores * EstimateOf(job, executor.device).seconds_per_task);
  }
  return absl::Seconds(kSlack * tasks * seconds);
}

absl::Duration WorkerCore::ShortestLimit() const {
  absl::Duration shortest = absl::InfiniteDuration();
  if (limited_jobs_ == 0) return shortest;
  for (const auto& [id, job] : jobs_) {
    if (job.in_flight > 0) shortest = std::min(shortest, job.info.time_limit);
  }
  return shortest;
}

void WorkerCore::LeaveIfDone(Effects* effects) {
  if (link_ == Link::kAttached) {
    const bool busy = !pieces_.empty() || !accumulating_.empty() || !outbox_.empty() ||
                      std::any_of(owners_.begin(), owners_.end(),
                                  [](const auto& owner) { return !owner.second.merges.empty(); });
    if (busy) return;
  }
  DropEverything(effects);
  effects->leaving = true;
}

MonoTime WorkerCore::NextDeadline(MonoTime now) const {
  MonoTime next = std::min(outbox_.next_retry(), look_again_);
  if (link_ == Link::kAttached) next = std::min(next, heartbeat_at_);
  if (options_.kill_when_master_lost && link_ == Link::kDown &&
      down_since_ != MonoTime::InfinitePast()) {
    next = std::min(next, down_since_ + lease_ttl_);
  }
  for (const auto& [name, owner] : owners_) {
    for (const OwnersExecutor& executor : owner.executors) {
      if (executor.phase == OwnersExecutor::Phase::kNone && executor.start_at > now &&
          HasWorkFor(owner, executor.device)) {
        next = std::min(next, executor.start_at);
      }
      next = std::min(next, executor.idle_since + options_.executor_idle_max);
      if (executor.phase == OwnersExecutor::Phase::kReady) {
        next = std::min(next, executor.voids_since + options_.void_max);
      }
    }
  }
  for (const auto& [id, device] : accumulating_) {
    const JobState& job = jobs_.at(id);
    const Accumulator& accumulator = job.on[device].accumulator;
    if (!accumulator.flushing) next = std::min(next, accumulator.idle_since + Linger(job));
  }
  return next;
}

}  // namespace tandem::worker
