// Dispatch: which owner's, which job's next piece goes to which core group.
#include <algorithm>
#include <tuple>
#include <utility>

#include "common/base/check.h"
#include "worker/core/worker_core.h"

namespace tandem::worker {

// First one piece for each group, then a second one each: fetching overlaps running. Then small
// ones in turns, as long as a batch has room for them.
void WorkerCore::Dispatch(MonoTime now, Effects* effects) {
  look_again_ = MonoTime::InfiniteFuture();
  bool fed = true;
  for (uint32_t depth = 0; fed && depth < options_.pull.small_pieces_max; ++depth) {
    fed = depth + 1 < options_.pull.pieces_per_group;
    for (uint32_t group = 0; group < groups_.size(); ++group) {
      if (HasRoom(groups_[group], depth)) fed |= Feed(group, now, effects);
    }
  }
  TakeBack(now, effects);
}

// For one piece more than `depth`?
bool WorkerCore::HasRoom(const CoreGroup& group, uint32_t depth) const {
  if (group.in_flight > depth) return false;
  if (group.in_flight < options_.pull.pieces_per_group) return true;
  return group.unpredicted == 0 && group.predicted < options_.pull.merge_window &&
         group.unproven < options_.pull.unproven_max;
}

bool WorkerCore::CanFeed(const OwnerState& owner, uint32_t group) const {
  return owner.phase == OwnerState::Phase::kReady && group < owner.groups && !owner.alone &&
         owner.has_work();
}

bool WorkerCore::NothingBeside(const OwnerState& owner) const {
  return owner.in_flight == 0 &&
         std::none_of(accumulating_.begin(), accumulating_.end(),
                      [&](JobId id) { return jobs_.at(id).owner == &owner; });
}

bool WorkerCore::RunsAlone(const JobState& job) const {
  return job.pool.front().suspect || job.losses >= options_.losses_apart;
}

absl::InlinedVector<OwnerState*, 4> WorkerCore::OwnersFor(uint32_t index, MonoTime now) {
  const CoreGroup& group = groups_[index];
  absl::InlinedVector<OwnerState*, 4> owners;
  for (auto& [name, owner] : owners_) {
    if (CanFeed(owner, index)) owners.push_back(&owner);
  }
  const bool in_turn = now - group.held_since < options_.pull.owner_turn;
  std::sort(owners.begin(), owners.end(), [&](const OwnerState* a, const OwnerState* b) {
    if (in_turn && (a == group.holder) != (b == group.holder)) return a == group.holder;
    return std::tie(a->last_turn, a->name) < std::tie(b->last_turn, b->name);
  });
  // A group that is not empty drains before another owner has it.
  if (group.in_flight > 0) {
    owners.resize(!owners.empty() && owners.front() == group.holder ? 1 : 0);
  }
  return owners;
}

bool WorkerCore::Feed(uint32_t index, MonoTime now, Effects* effects) {
  CoreGroup& group = groups_[index];
  for (OwnerState* owner : OwnersFor(index, now)) {
    if (!owner->merges.empty()) {
      PullMerge(owner, index, now, effects);
    } else if (!PullPiece(owner, index, now, effects)) {
      continue;
    }
    if (group.holder != owner || now - group.held_since >= options_.pull.owner_turn) {
      group.holder = owner;
      group.held_since = now;
      owner->last_turn = ++last_turn_;
    }
    return true;
  }
  return false;
}

InFlightPiece* WorkerCore::NewPiece(OwnerState* owner, uint32_t index, JobId job, MonoTime now,
                                    PieceId* id) {
  *id = ++last_piece_;
  InFlightPiece& piece = pieces_[*id];
  piece.owner = owner;
  piece.executor = owner->executor;
  piece.group = index;
  piece.job = job;
  ++owner->in_flight;
  CoreGroup& group = groups_[index];
  if (group.in_flight++ == 0) group.busy_since = now;
  return &piece;
}

void WorkerCore::PullMerge(OwnerState* owner, uint32_t group, MonoTime now, Effects* effects) {
  PieceId id = 0;
  InFlightPiece& piece = *NewPiece(owner, group, owner->merges.front().grant.job, now, &id);
  piece.merge = std::make_unique<MergeWork>(std::move(owner->merges.front()));
  owner->merges.pop_front();
  piece.predicted = absl::InfiniteDuration();
  ++groups_[group].unpredicted;
  SetUp(owner, piece.job, effects);
  effects->to_executors.push_back(
      RunMerge{owner->executor, id, group, piece.job, piece.merge->grant.inputs});
}

bool WorkerCore::PullPiece(OwnerState* owner, uint32_t group, MonoTime now, Effects* effects) {
  uint32_t asks =
      groups_[group].in_flight == 0 ? options_.pull.asks_idle_max : options_.pull.asks_busy_max;
  for (const auto& [order, id] : owner->runnable) {
    JobState& job = jobs_.at(id);
    if (RunsAlone(job) && !NothingBeside(*owner)) return false;  // what runs ends first
    const Puller::Decision decision = Ask(&job, group, now);
    if (decision.leaves > 0) {
      StartPiece(&job, group, decision.leaves, decision.end, now, effects);
      return true;
    }
    if (--asks == 0) return false;
  }
  return false;
}

namespace {
// A piece is a node of the tree, or a number of whole equal leases: so that whoever takes it over
// after a rejoin can name it as one run. The leaves of `run` from its end `end`, at most so many.
uint64_t PieceLeaves(const JobState& job, const LeaseRun& run, uint64_t leaves_max, PoolEnd end) {
  const uint64_t lease = uint64_t{1} << run.level;
  const uint64_t most = std::min(leaves_max, run.count());
  const bool whole_leases = !job.info.whole_nodes() && most >= lease;
  const LeafRange within{run.first(), run.end()};
  if (end == PoolEnd::kFront) {
    if (whole_leases && (run.first() - run.base_leaf) % lease == 0) return most / lease * lease;
    return job.tree.LeafCount(job.tree.LargestNodeAt(run.first(), most, within));
  }
  if (whole_leases && (run.end() - run.base_leaf) % lease == 0) return most / lease * lease;
  return job.tree.LeafCount(job.tree.LargestNodeEndingAt(run.end(), most, within));
}
}  // namespace

void WorkerCore::StartPiece(JobState* job, uint32_t group, uint64_t leaves_max, PoolEnd end,
                            MonoTime now, Effects* effects) {
  OwnerState* owner = job->owner;
  const bool front = end == PoolEnd::kFront;
  const uint64_t leaves =
      PieceLeaves(*job, front ? job->pool.front() : job->pool.back(), leaves_max, end);
  PieceId id = 0;
  const bool alone = RunsAlone(*job);
  InFlightPiece& piece = *NewPiece(owner, group, job->info.job, now, &id);
  piece.alone = alone;
  owner->alone |= alone;
  piece.run = front ? job->pool.TakeFront(leaves) : job->pool.TakeBack(leaves);
  Predict(job, static_cast<double>(leaves * job->tree.grain()), &piece);
  job->pulls->puller.Took(group, id, leaves, now);
  TakeTurn(job);
  ++job->in_flight;
  job->running_leaves += leaves;
  ++counters_.pieces;
  SetUp(owner, piece.job, effects);

  RunPiece run;
  run.executor = owner->executor;
  run.piece = id;
  run.job = piece.job;
  run.leaves = piece.run.leaves;
  run.attempt = piece.run.attempt;
  run.group = group;
  run.suspect = piece.run.suspect;
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

// How many small pieces a group gets follows from what is likely; those of jobs that are not
// measured are bounded by the careful estimate, too.
void WorkerCore::Predict(JobState* job, double tasks, InFlightPiece* piece) {
  const Estimate estimate = EstimateOf(*job);
  CoreGroup& group = groups_[piece->group];
  JobPulls::OfGroup& own = job->pulls->groups[piece->group];
  ++own.in_flight;
  if (!estimate.proven()) {
    const double careful = estimate.careful_seconds_per_task();
    // No third piece of a job follows before its first has finished.
    const bool any_time = job->in_flight > 0;
    piece->unproven = any_time
                          ? options_.pull.unproven_max
                          : std::min(absl::Seconds(tasks * careful), options_.pull.unproven_max);
    group.unproven += piece->unproven;
  }
  piece->predicted = estimate.seconds_per_task > 0
                         ? absl::Seconds(tasks * estimate.seconds_per_task)
                         : absl::InfiniteDuration();
  if (piece->predicted == absl::InfiniteDuration()) {
    ++group.unpredicted;
    ++own.unpredicted;
  } else {
    group.predicted += piece->predicted;
    own.predicted += piece->predicted;
  }
}

void WorkerCore::SetUp(OwnerState* owner, JobId job, Effects* effects) {
  if (owner->set_up.insert(job).second) {
    effects->to_executors.push_back(SetupJob{owner->executor, job});
  }
}

}  // namespace tandem::worker
