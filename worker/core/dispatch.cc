// Dispatch: which owner's, which job's, how large a piece goes to which core group.
#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "worker/core/worker_core.h"

namespace tandem::worker {

// First one piece for each group, then a second one each: fetching overlaps running. Then small
// ones in turns, as long as a batch has room for them.
void WorkerCore::Dispatch(MonoTime now, Effects* effects) {
  bool fed = true;
  for (uint32_t depth = 0; fed && depth < options_.pull.small_pieces_max; ++depth) {
    fed = depth + 1 < options_.pull.pieces_per_group;
    for (uint32_t group = 0; group < groups_.size(); ++group) {
      if (HasRoom(groups_[group], depth)) fed |= Feed(group, now, effects);
    }
  }
}

// For one piece more than `depth`?
bool WorkerCore::HasRoom(const CoreGroup& group, uint32_t depth) const {
  if (group.in_flight > depth) return false;
  if (group.in_flight < options_.pull.pieces_per_group) return true;
  return group.unpredicted == 0 && group.predicted < options_.pull.merge_window &&
         group.unproven < options_.pull.unproven_max;
}

bool WorkerCore::CanFeed(OwnerState* owner, uint32_t group) const {
  if (owner->phase != OwnerState::Phase::kReady || group >= owner->groups || owner->alone) {
    return false;
  }
  if (!owner->merges.empty()) return true;
  if (owner->runnable.empty()) return false;
  if (!RunsAlone(jobs_.at(owner->runnable.begin()->second))) return true;
  // When nothing else of its executor can be lost with it.
  return owner->in_flight == 0 &&
         std::none_of(accumulating_.begin(), accumulating_.end(),
                      [&](JobId id) { return jobs_.at(id).owner == owner; });
}

bool WorkerCore::RunsAlone(const JobState& job) const {
  return job.pool.front().suspect || job.losses >= options_.losses_apart;
}

OwnerState* WorkerCore::ChooseOwner(uint32_t index, MonoTime now) {
  CoreGroup& group = groups_[index];
  const bool turn_over =
      group.holder == nullptr || now - group.held_since >= options_.pull.owner_turn;
  if (!turn_over && CanFeed(group.holder, index)) return group.holder;
  OwnerState* chosen = nullptr;
  for (auto& [name, owner] : owners_) {
    if (!CanFeed(&owner, index)) continue;
    if (chosen == nullptr || owner.last_turn < chosen->last_turn) chosen = &owner;
  }
  // A group that is not empty drains before another owner has it.
  if (chosen == nullptr || (group.in_flight > 0 && chosen != group.holder)) return nullptr;
  group.holder = chosen;
  group.held_since = now;
  chosen->last_turn = ++last_turn_;
  return chosen;
}

bool WorkerCore::Feed(uint32_t group, MonoTime now, Effects* effects) {
  OwnerState* owner = ChooseOwner(group, now);
  if (owner == nullptr) return false;
  ++groups_[group].in_flight;
  ++owner->in_flight;
  if (!owner->merges.empty()) {
    PullMerge(owner, group, effects);
  } else {
    PullPiece(owner, group, effects);
  }
  return true;
}

void WorkerCore::PullMerge(OwnerState* owner, uint32_t group, Effects* effects) {
  const PieceId id = ++last_piece_;
  InFlightPiece& piece = pieces_[id];
  piece.owner = owner;
  piece.executor = owner->executor;
  piece.group = group;
  piece.merge = std::make_unique<MergeWork>(std::move(owner->merges.front()));
  owner->merges.pop_front();
  piece.job = piece.merge->grant.job;
  piece.predicted = absl::InfiniteDuration();
  ++groups_[group].unpredicted;
  SetUp(owner, piece.job, effects);
  effects->to_executors.push_back(
      RunMerge{owner->executor, id, group, piece.job, piece.merge->grant.inputs});
}

namespace {
// A piece is a node of the tree, or a number of whole equal leases: so that whoever takes it over
// after a rejoin can name it as one run.
uint64_t PieceLeaves(const JobState& job, const LeaseRun& run, uint64_t leaves_max) {
  const uint64_t lease = uint64_t{1} << run.level;
  const bool at_lease = (run.first() - run.base_leaf) % lease == 0;
  if (!job.info.whole_nodes() && at_lease && leaves_max >= lease && run.count() >= lease) {
    return std::min(leaves_max / lease * lease, run.count() / lease * lease);
  }
  const LeafRange within{run.first(), run.end()};
  return job.tree.LeafCount(
      job.tree.LargestNodeAt(run.first(), std::min(leaves_max, run.count()), within));
}
}  // namespace

void WorkerCore::PullPiece(OwnerState* owner, uint32_t group, Effects* effects) {
  JobState& job = jobs_.at(owner->runnable.begin()->second);
  const LeaseRun& front = job.pool.front();
  const double remaining = (static_cast<double>(job.pool.leaves()) + job.share_leaves) *
                           static_cast<double>(job.tree.grain());
  const PullEstimate estimate = Estimate(job);
  const uint64_t tasks = PullTasks(options_.pull, estimate, remaining, owner->groups);
  uint64_t leaves = std::clamp<uint64_t>(tasks / job.tree.grain(), 1, job.piece_leaves_max);
  const bool alone = RunsAlone(job);
  if (!estimate.proven()) leaves = std::min(leaves, options_.pull.unproven_leaves_max);
  if (front.suspect) leaves = 1;
  owner->alone |= alone;
  leaves = PieceLeaves(job, front, leaves);
  const PieceId id = ++last_piece_;
  InFlightPiece& piece = pieces_[id];
  piece.owner = owner;
  piece.executor = owner->executor;
  piece.group = group;
  piece.alone = alone;
  piece.job = job.info.job;
  piece.run = job.pool.TakeFront(leaves);
  Predict(job, estimate, static_cast<double>(leaves * job.tree.grain()), &piece);
  TakeTurn(&job);
  ++job.in_flight;
  job.running_leaves += leaves;
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
    const TaskRange range = job.tree.Tasks(LeafRange{piece.run.first(), piece.run.end()});
    for (const uint64_t task : *piece.run.skip_tasks) {
      if (task >= range.begin && task < range.end) run.skip_tasks.push_back(task);
    }
  }
  effects->to_executors.push_back(std::move(run));
}

// How many small pieces a group gets follows from what is likely; those of jobs that are not
// measured are bounded by the careful estimate, too.
void WorkerCore::Predict(const JobState& job, const PullEstimate& estimate, double tasks,
                         InFlightPiece* piece) {
  CoreGroup& group = groups_[piece->group];
  if (!estimate.proven()) {
    const double careful = estimate.careful_seconds_per_task();
    // No third piece of a job follows before its first has finished.
    const bool any_time = job.in_flight > 0;
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
  } else {
    group.predicted += piece->predicted;
  }
}

PullEstimate WorkerCore::Estimate(const JobState& job) const {
  using Source = PullEstimate::Source;
  const OwnerState& owner = *job.owner;
  const double hint = job.info.cost_ns_per_task * 1e-9;
  const double cores_a_group = std::max(1.0, static_cast<double>(owner.cores) / owner.groups);
  if (job.rate.known()) {
    const auto proven = static_cast<double>(job.proven_leaves * job.tree.grain());
    return {job.rate.slope(), job.rate.fixed(), Source::kJob, hint / cores_a_group, proven};
  }
  const auto kernel = kernels_.find({job.info.kernel, owner.kind});
  if (kernel != kernels_.end() && kernel->second.model.known() &&
      kernel->second.hinted == (hint > 0)) {
    const RateModel& model = kernel->second.model;
    return {model.slope() * (hint > 0 ? hint : 1), model.fixed(), Source::kKernel,
            hint / cores_a_group};
  }
  return {hint / cores_a_group, 0, Source::kHint, hint / cores_a_group};
}

void WorkerCore::SetUp(OwnerState* owner, JobId job, Effects* effects) {
  if (owner->set_up.insert(job).second) {
    effects->to_executors.push_back(SetupJob{owner->executor, job});
  }
}

}  // namespace tandem::worker
