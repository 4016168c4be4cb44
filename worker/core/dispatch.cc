// Dispatch: which owner's, which job's next piece goes to which lane.
#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "common/base/check.h"
#include "worker/core/worker_core.h"

namespace tandem::worker {

// One piece for each lane first, then a second one each: fetching overlaps running. Then small ones
// in turns, as long as there is room for them.
void WorkerCore::Dispatch(MonoTime now, Effects* effects) {
  look_again_ = MonoTime::InfiniteFuture();
  absl::InlinedVector<bool, 16> asked(lanes_.size(), false);  // and had no answer
  while (true) {
    std::optional<uint32_t> next;
    for (uint32_t lane = 0; lane < lanes_.size(); ++lane) {
      if (asked[lane] || !HasRoom(lanes_[lane])) continue;
      if (!next || lanes_[lane].in_flight < lanes_[*next].in_flight) next = lane;
    }
    if (!next) break;
    asked[*next] = !Feed(*next, now, effects);
  }
  TakeBack(now, effects);
}

bool WorkerCore::HasRoom(const PullLane& lane) const {
  if (lane.voids > 0) return false;  // it ends by itself, or its executor will be ended
  if (lane.in_flight < options_.pull.pieces_per_group) return true;
  const bool far = devices_[lane.device].kind != DeviceKind::kCpu;
  const absl::Duration window = far ? options_.pull.device_window : options_.pull.merge_window;
  return lane.in_flight < options_.pull.small_pieces_max && lane.unpredicted == 0 &&
         lane.predicted < window && lane.unproven < options_.pull.unproven_max;
}

// The owner's executor, if it can be given a piece for the lane at all.
OwnersExecutor* WorkerCore::ExecutorFor(OwnerState* owner, const PullLane& lane) const {
  if (lane.device >= owner->executors.size()) return nullptr;
  OwnersExecutor& executor = owner->executors[lane.device];
  const bool can = executor.phase == OwnersExecutor::Phase::kReady &&
                   lane.number < executor.lanes && devices_[lane.device].trouble.empty();
  return can ? &executor : nullptr;
}

bool WorkerCore::CanFeed(OwnerState* owner, const PullLane& lane) const {
  const OwnersExecutor* executor = ExecutorFor(owner, lane);
  if (executor == nullptr || (executor->alone && !executor->suspect_set.valid())) return false;
  return !owner->runnable.empty() || (lane.device == kCpuDevice && !owner->merges.empty());
}

bool WorkerCore::NothingBeside(const OwnersExecutor& executor) const {
  return executor.in_flight == 0 &&
         std::none_of(accumulating_.begin(), accumulating_.end(), [&](const auto& key) {
           return key.second == executor.device && jobs_.at(key.first).owner == executor.owner;
         });
}

bool WorkerCore::RunsAlone(const JobState& job, PoolEnd end) const {
  const LeaseRun& run = end == PoolEnd::kFront ? job.pool.front() : job.pool.back();
  return run.suspect || job.losses >= options_.losses_apart;
}

// Is one of the set that runs on the executor next at an end of the job's pool?
bool WorkerCore::IsOfItsSet(const OwnersExecutor& executor, const JobState& job) const {
  return executor.suspect_set.valid() && (job.pool.front().suspect_set == executor.suspect_set ||
                                          job.pool.back().suspect_set == executor.suspect_set);
}

// May the job's next piece join what runs on the executor?
bool WorkerCore::MayJoin(const OwnersExecutor& executor, const JobState& job, PoolEnd end) const {
  const LeaseRun& run = end == PoolEnd::kFront ? job.pool.front() : job.pool.back();
  if (executor.alone) return run.suspect_set.valid() && run.suspect_set == executor.suspect_set;
  return !RunsAlone(job, end) || NothingBeside(executor);
}

absl::InlinedVector<OwnerState*, 4> WorkerCore::OwnersFor(const PullLane& lane, MonoTime now) {
  absl::InlinedVector<OwnerState*, 4> owners;
  for (auto& [name, owner] : owners_) {
    if (CanFeed(&owner, lane)) owners.push_back(&owner);
  }
  const bool in_turn = now - lane.held_since < options_.pull.owner_turn;
  std::sort(owners.begin(), owners.end(), [&](const OwnerState* a, const OwnerState* b) {
    if (in_turn && (a == lane.holder) != (b == lane.holder)) return a == lane.holder;
    return std::tie(a->last_turn, a->name) < std::tie(b->last_turn, b->name);
  });
  // A lane that is not empty drains before another owner has it.
  if (lane.in_flight > 0) {
    owners.resize(!owners.empty() && owners.front() == lane.holder ? 1 : 0);
  }
  return owners;
}

bool WorkerCore::Feed(uint32_t index, MonoTime now, Effects* effects) {
  PullLane& lane = lanes_[index];
  for (OwnerState* owner : OwnersFor(lane, now)) {
    const bool merges = lane.device == kCpuDevice && !owner->merges.empty();
    if (merges && !owner->executors[kCpuDevice].alone) {
      PullMerge(owner, index, now, effects);
    } else if (!PullPiece(owner, index, now, effects)) {
      continue;
    }
    if (lane.holder != owner || now - lane.held_since >= options_.pull.owner_turn) {
      lane.holder = owner;
      lane.held_since = now;
      owner->last_turn = ++last_turn_;
    }
    return true;
  }
  return false;
}

InFlightPiece* WorkerCore::NewPiece(OwnersExecutor* executor, uint32_t index, JobId job,
                                    MonoTime now, PieceId* id) {
  *id = ++last_piece_;
  InFlightPiece& piece = pieces_[*id];
  piece.executor = executor;
  piece.lane = index;
  piece.job = job;
  ++executor->in_flight;
  PullLane& lane = lanes_[index];
  if (lane.in_flight++ == 0) lane.busy_since = now;
  return &piece;
}

void WorkerCore::PullMerge(OwnerState* owner, uint32_t lane, MonoTime now, Effects* effects) {
  OwnersExecutor* executor = &owner->executors[kCpuDevice];
  PieceId id = 0;
  InFlightPiece& piece = *NewPiece(executor, lane, owner->merges.front().grant.job, now, &id);
  piece.merge = std::make_unique<MergeWork>(std::move(owner->merges.front()));
  owner->merges.pop_front();
  piece.predicted = absl::InfiniteDuration();
  ++lanes_[lane].unpredicted;
  SetUp(executor, piece.job, effects);
  effects->to_executors.push_back(
      RunMerge{executor->id, id, lanes_[lane].number, piece.job, piece.merge->grant.inputs});
}

bool WorkerCore::PullPiece(OwnerState* owner, uint32_t lane, MonoTime now, Effects* effects) {
  uint32_t asks =
      lanes_[lane].in_flight == 0 ? options_.pull.asks_idle_max : options_.pull.asks_busy_max;
  uint32_t looks = options_.pull.looks_max;
  OwnersExecutor* executor = ExecutorFor(owner, lanes_[lane]);
  for (const auto& [order, id] : owner->runnable) {
    JobState& job = jobs_.at(id);
    if (!Eligible(job, executor->device) || (executor->alone && !IsOfItsSet(*executor, job))) {
      if (--looks == 0) return false;
      continue;
    }
    TellPuller(&job, now);
    const PoolEnd end = EndAt(job, executor->device);
    if (!MayJoin(*executor, job, end)) return false;  // what runs ends first
    if (const uint64_t leaves = Ask(&job, lane, end, now); leaves > 0) {
      StartPiece(&job, lane, leaves, end, now, effects);
      return true;
    }
    if (--asks == 0) return false;
  }
  return false;
}

void WorkerCore::StartPiece(JobState* job, uint32_t lane, uint64_t leaves_max, PoolEnd end,
                            MonoTime now, Effects* effects) {
  OwnersExecutor* executor = ExecutorFor(job->owner, lanes_[lane]);
  const bool front = end == PoolEnd::kFront;
  const uint64_t leaves = PieceLeaves(job->tree, front ? job->pool.front() : job->pool.back(),
                                      job->info.whole_nodes(), leaves_max, end);
  PieceId id = 0;
  const bool alone = RunsAlone(*job, end);
  InFlightPiece& piece = *NewPiece(executor, lane, job->info.job, now, &id);
  piece.alone = alone;
  piece.end = end;
  executor->alone |= alone;
  piece.run = front ? job->pool.TakeFront(leaves) : job->pool.TakeBack(leaves);
  if (alone) executor->suspect_set = piece.run.suspect_set;
  Predict(job, static_cast<double>(leaves * job->tree.grain()), &piece);
  job->pulls->puller.Took(lane, id, leaves, now);
  TakeTurn(job);
  ++job->in_flight;
  job->running_leaves += leaves;
  ++counters_.pieces;
  SetUp(executor, piece.job, effects);

  RunPiece run;
  run.executor = executor->id;
  run.piece = id;
  run.job = piece.job;
  run.leaves = piece.run.leaves;
  run.attempt = piece.run.attempt;
  run.group = lanes_[lane].number;
  run.suspect = piece.run.task_by_task();
  run.inline_bytes_max =
      std::min(options_.inline_bytes_max, piece.run.Leases() * options_.inline_bytes_per_lease);
  if (piece.run.skip_tasks != nullptr) {
    const TaskRange range = job->tree.Tasks(LeafRange{piece.run.first(), piece.run.end()});
    for (const uint64_t task : *piece.run.skip_tasks) {
      if (task >= range.begin && task < range.end) run.skip_tasks.push_back(task);
    }
  }
  effects->to_executors.push_back(std::move(run));
}

// How many small pieces a lane gets follows from what is likely; those of jobs that are not
// measured are bounded by the careful estimate, too.
void WorkerCore::Predict(JobState* job, double tasks, InFlightPiece* piece) {
  PullLane& lane = lanes_[piece->lane];
  const Estimate estimate = EstimateOf(*job, lane.device);
  JobPulls::OfLane& own = job->pulls->lanes[piece->lane];
  ++own.in_flight;
  if (!estimate.proven()) {
    const double careful = estimate.careful_seconds_per_task();
    // No third piece of a job follows before its first has finished.
    const bool any_time = job->in_flight > 0;
    piece->unproven = any_time
                          ? options_.pull.unproven_max
                          : std::min(absl::Seconds(tasks * careful), options_.pull.unproven_max);
    lane.unproven += piece->unproven;
  }
  piece->predicted = estimate.seconds_per_task > 0
                         ? absl::Seconds(tasks * estimate.seconds_per_task)
                         : absl::InfiniteDuration();
  if (piece->predicted == absl::InfiniteDuration()) {
    ++lane.unpredicted;
    ++own.unpredicted;
  } else {
    lane.predicted += piece->predicted;
    own.predicted += piece->predicted;
  }
}

void WorkerCore::SetUp(OwnersExecutor* executor, JobId job, Effects* effects) {
  if (executor->set_up.insert(job).second) {
    effects->to_executors.push_back(SetupJob{executor->id, job});
  }
}

}  // namespace tandem::worker
