// Executors: what they finish, and how they live and die.
#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/strings.h"
#include "worker/core/worker_core.h"

namespace tandem::worker {
namespace {

uint64_t BusyNanos(absl::Duration busy, const OwnerState& owner) {
  return static_cast<uint64_t>(std::max<int64_t>(absl::ToInt64Nanoseconds(busy), 0)) /
         std::max(owner.groups, 1u);
}

uint64_t FailureBytes(const std::vector<TaskFailure>& failures) {
  constexpr uint64_t kEachMax = 24;  // besides its reason, on the wire
  uint64_t bytes = 0;
  for (const TaskFailure& failure : failures) bytes += failure.reason.size() + kEachMax;
  return bytes;
}

}  // namespace

void WorkerCore::On(ExecutorReady event, MonoTime, Effects*) {
  const auto found = executors_.find(event.executor);
  if (found == executors_.end()) return;
  OwnerState& owner = *found->second;
  if (owner.phase != OwnerState::Phase::kStarting) return;
  owner.phase = OwnerState::Phase::kReady;
  owner.groups = std::max(event.groups, 1u);
  owner.cores = std::max(event.cores, 1u);
  owner.kind = event.kind;
  if (groups_.size() < owner.groups) groups_.resize(owner.groups);
}

void WorkerCore::On(PieceFinished event, MonoTime now, Effects* effects) {
  InFlightPiece piece;
  TellFinished(event, now);
  if (!TakePieceOf(event.executor, event.piece, PieceKind::kRun, &piece)) {
    outbox_.Discard(event.executor, event.outputs, effects);
    return;
  }
  groups_[piece.group].busy_since = groups_[piece.group].last_end = now;
  piece.owner->losses = 0;
  JobState* job = FindJob(piece.job);
  if (job != nullptr) job->losses = 0;
  if (piece.is_void) {
    outbox_.Discard(event.executor, event.outputs, effects);
    if (event.accumulated && job != nullptr) job->accumulator.tainted = true;
    return;
  }
  counters_.leaves += piece.run.count();
  const TaskRange range = job->tree.Tasks(LeafRange{piece.run.first(), piece.run.end()});
  Learn(job, static_cast<double>(range.size()), event.busy);
  job->proven_leaves = std::max(job->proven_leaves, piece.run.count());
  // Too many failures for one message: in halves.
  if (!event.accumulated && piece.run.count() > 1 && piece.renewed.empty() &&
      FailureBytes(event.failures) > options_.report_bytes_max) {
    job->piece_leaves_max = piece.run.count() / 2;
    outbox_.Discard(event.executor, event.outputs, effects);
    Accept(job, std::move(piece.run), /*front=*/true, effects);
    return;
  }
  if (event.accumulated) {
    Accumulator& accumulator = job->accumulator;
    accumulator.leaves += piece.run.count();
    accumulator.work += event.busy;
    accumulator.pieces.emplace(
        event.piece, Accumulator::Held{RunsOf(&piece), std::move(event.failures), event.busy});
    accumulating_.insert(piece.job);
    return;
  }
  OutItem item;
  item.job = piece.job;
  item.appends = job->info.appends;
  item.runs = RunsOf(&piece);
  item.failures = std::move(event.failures);
  item.busy_ns = BusyNanos(event.busy, *piece.owner);
  item.tasks = event.tasks;
  outbox_.Add(std::move(item), event.executor, std::move(event.outputs), effects);
}

void WorkerCore::Learn(JobState* job, double tasks, absl::Duration busy) {
  const double seconds = std::max(absl::ToDoubleSeconds(busy), 0.0);
  if (tasks <= 0) return;
  job->rate.Add(tasks, seconds);
  KernelState& kernel = kernels_[{job->info.kernel, job->owner->kind}];
  const double hint = job->info.cost_ns_per_task * 1e-9;
  if (kernel.hinted != (hint > 0)) kernel.model = RateModel();
  kernel.hinted = hint > 0;
  kernel.model.Add(kernel.hinted ? tasks * hint : tasks, seconds);
  kernel.tasks_per_second = job->owner->groups / job->rate.slope();
  kernel.fixed_seconds = job->rate.fixed() + absl::ToDoubleSeconds(options_.pull.piece_overhead);
}

void WorkerCore::On(MergeFinished event, MonoTime now, Effects* effects) {
  InFlightPiece piece;
  const bool known = TakePieceOf(event.executor, event.piece, PieceKind::kMerge, &piece);
  if (known) groups_[piece.group].busy_since = groups_[piece.group].last_end = now;
  if (!known || piece.is_void) {
    outbox_.Discard(event.executor, event.outputs, effects);
    return;
  }
  ++counters_.merges;
  piece.owner->losses = 0;
  OutItem item;
  item.kind = OutItem::Kind::kMerge;
  item.job = piece.job;
  item.merge_n = piece.merge->grant.n;
  item.merge_failed = event.failed;
  item.tasks = event.tasks;
  item.text = std::move(event.error);
  outbox_.Add(std::move(item), event.executor, std::move(event.outputs), effects);
}

void WorkerCore::On(PieceReturned event, MonoTime, Effects* effects) {
  InFlightPiece piece;
  if (!TakePieceOf(event.executor, event.piece, PieceKind::kAny, &piece) || piece.is_void) return;
  if (piece.merge != nullptr) {
    piece.owner->merges.push_front(std::move(*piece.merge));
    return;
  }
  if (piece.recalled) {
    Return(piece.job, RunsOf(&piece), effects);
    return;
  }
  JobState* job = FindJob(piece.job);
  std::vector<LeaseRun> runs = RunsOf(&piece);
  for (auto run = runs.rbegin(); run != runs.rend(); ++run) {
    Accept(job, std::move(*run), /*front=*/true, effects);
  }
}

void WorkerCore::On(JobErrored event, MonoTime now, Effects* effects) {
  JobState* job = FindJob(event.job);
  // 0: the supervisor itself; what it could not understand will not be clearer later.
  const bool own = job != nullptr && job->owner->executor == event.executor;
  if (job != nullptr && (own || event.executor == 0)) {
    const MonoTime until =
        event.executor == 0 ? MonoTime::InfiniteFuture() : now + options_.refusal;
    RefuseJob(job, {event.job, event.reason, event.fatal}, until, effects);
  }
  for (const PieceId id : event.pieces) {
    InFlightPiece piece;
    if (!TakePieceOf(event.executor, id, PieceKind::kAny, &piece) || piece.is_void) continue;
    if (piece.merge != nullptr) {
      OutItem item;
      item.kind = OutItem::Kind::kMerge;
      item.job = piece.job;
      item.merge_n = piece.merge->grant.n;
      item.text = event.reason;
      outbox_.Add(std::move(item), 0, {}, effects);
      continue;
    }
    Return(piece.job, RunsOf(&piece), effects);
  }
}

void WorkerCore::On(ExecutorLost event, MonoTime now, Effects* effects) {
  outbox_.ExecutorLost(event.executor, effects);
  const auto found = executors_.find(event.executor);
  if (found == executors_.end()) return;
  OwnerState& owner = *found->second;
  executors_.erase(found);
  const bool wanted = owner.phase == OwnerState::Phase::kStopping;
  if (wanted) event.suspects.clear();  // It was this core that ended it.
  owner.phase = OwnerState::Phase::kNone;
  owner.set_up.clear();
  owner.executor = 0;
  owner.idle_since = MonoTime::InfiniteFuture();

  std::vector<PieceId> lost;
  for (const auto& [id, piece] : pieces_) {
    if (piece.executor == event.executor) lost.push_back(id);
  }
  bool explained = false;
  absl::btree_set<JobId> begun, waiting;
  // From the last to the first: each goes to the front of its pool.
  for (auto id = lost.rbegin(); id != lost.rend(); ++id) {
    InFlightPiece piece;
    TakePiece(*id, &piece);
    if (piece.is_void) continue;
    const JobId job = piece.job;
    if (piece.merge != nullptr) {
      LoseMerge(std::move(piece), event, effects);
      explained = true;  // A merge has a bound of its own.
    } else {
      (LosePiece(std::move(piece), event, effects) ? begun : waiting).insert(job);
    }
  }
  explained |= !begun.empty();
  for (auto& [id, job] : jobs_) {
    if (job.owner != &owner) continue;
    job.pulls.reset();
    std::vector<PieceId> held;
    for (const auto& [piece, part] : job.accumulator.pieces) held.push_back(piece);
    RunAgain(&job, std::move(held), effects);
    job.accumulator = Accumulator();
  }
  if (wanted) return;
  ++counters_.executors_lost;
  for (const JobId job : waiting) {
    if (!begun.contains(job)) CountLoss(job, event, now, effects);
  }
  PlanRestart(&owner, explained, now);
  if (owner.losses >= options_.losses_max && waiting.empty()) {
    GiveUpOnOwner(&owner, event.how, now, effects);
  }
}

// An executor ended with pieces of the job that had not begun. It is not to blame, unless that goes
// on when it is apart from others.
void WorkerCore::CountLoss(JobId id, const ExecutorLost& event, MonoTime now, Effects* effects) {
  JobState* job = FindJob(id);
  if (job == nullptr || ++job->losses < options_.losses_max) return;
  const std::string reason =
      StrCat("CRASH_LIMIT: the executor ended ", std::exchange(job->losses, 0),
             " times in a row before anything of the job had begun, last with ", event.how);
  RefuseJob(job, {id, reason}, now + options_.refusal, effects);
}

// A loss that a start page explains costs a strike, and strikes are bounded: the next executor
// starts soon. What nothing explains may go on for ever: executors start ever more slowly.
void WorkerCore::PlanRestart(OwnerState* owner, bool explained, MonoTime now) {
  owner->losses = explained ? 0 : owner->losses + 1;
  const double backoff = std::min(
      absl::ToDoubleSeconds(options_.restart_max),
      absl::ToDoubleSeconds(options_.restart_min) * (uint64_t{1} << std::min(owner->losses, 20u)));
  owner->start_at = now + absl::Seconds(backoff * (0.5 + 0.5 * rng_.NextDouble()));
}

// Suspects get the blame, one report each; everything else of the piece runs again.
bool WorkerCore::LosePiece(InFlightPiece piece, const ExecutorLost& event, Effects* effects) {
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
      Blame(piece.job, std::move(blamed), suspect, event.how, effects);
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

void WorkerCore::Blame(JobId job, LeaseRun run, const Suspect& suspect, const std::string& how,
                       Effects* effects) {
  OutItem item;
  item.kind = OutItem::Kind::kCrash;
  item.job = job;
  item.runs.push_back(std::move(run));
  item.task_known = suspect.task_known;
  item.task = suspect.task;
  item.text = how;
  outbox_.Add(std::move(item), 0, {}, effects);
}

void WorkerCore::LoseMerge(InFlightPiece piece, const ExecutorLost& event, Effects* effects) {
  MergeWork work = std::move(*piece.merge);
  if (++work.losses < options_.merge_tries_max) {
    piece.owner->merges.push_front(std::move(work));
    return;
  }
  OutItem item;
  item.kind = OutItem::Kind::kMerge;
  item.job = piece.job;
  item.merge_n = work.grant.n;
  item.text = StrCat("EXECUTOR_LOST: the executor ended (", event.how, ") each of ", work.losses,
                     " times that this merge ran");
  outbox_.Add(std::move(item), 0, {}, effects);
}

void WorkerCore::GiveUpOnOwner(OwnerState* owner, const std::string& how, MonoTime now,
                               Effects* effects) {
  const std::string reason =
      StrCat("EXECUTOR_LOST: the executor ended ", owner->losses,
             " times in a row before it was given anything, last with ", how);
  for (auto& [id, job] : jobs_) {
    if (job.owner == owner) RefuseJob(&job, {id, reason}, now + options_.refusal, effects);
  }
  owner->losses = 0;
}

void WorkerCore::ManageExecutors(MonoTime now, Effects* effects) {
  using Phase = OwnerState::Phase;
  for (auto it = owners_.begin(); it != owners_.end();) {
    OwnerState& owner = it->second;
    if (owner.phase == Phase::kNone && owner.has_work() && now >= owner.start_at) {
      owner.phase = Phase::kStarting;
      owner.executor = ++last_executor_;
      executors_[owner.executor] = &owner;
      outbox_.ExecutorStarted(owner.executor);
      ++counters_.executors_started;
      effects->to_executors.push_back(StartExecutor{owner.executor, owner.name});
    }
    const bool accumulates = std::any_of(accumulating_.begin(), accumulating_.end(),
                                         [&](JobId id) { return jobs_.at(id).owner == &owner; });
    if (owner.voids > 0 && now - owner.voids_since >= options_.void_max) {
      KillExecutorOf(&owner, effects);
    }
    const bool idle =
        owner.phase == Phase::kReady && owner.in_flight == 0 && !owner.has_work() && !accumulates;
    if (!idle) {
      owner.idle_since = MonoTime::InfiniteFuture();
    } else if (owner.idle_since == MonoTime::InfiniteFuture()) {
      owner.idle_since = now;
    } else if (now - owner.idle_since >= options_.executor_idle_max) {
      KillExecutorOf(&owner, effects);
    }
    if (owner.phase == Phase::kNone && owner.jobs == 0 && owner.in_flight == 0) {
      for (CoreGroup& group : groups_) {
        if (group.holder == &owner) group.holder = nullptr;
      }
      it = owners_.erase(it);
    } else {
      ++it;
    }
  }
}

void WorkerCore::KillExecutorOf(OwnerState* owner, Effects* effects) {
  using Phase = OwnerState::Phase;
  if (owner->phase != Phase::kStarting && owner->phase != Phase::kReady) return;
  owner->phase = Phase::kStopping;
  owner->idle_since = MonoTime::InfiniteFuture();
  effects->to_executors.push_back(KillExecutor{owner->executor});
}

}  // namespace tandem::worker
