// Asking a job's puller: what it is told of the job's groups, and of what others have on them.
#include <algorithm>

#include "worker/core/worker_core.h"

namespace tandem::worker {
namespace {

// A group on which something runs that may take any time counts as busy for so long.
constexpr absl::Duration kAnyTime = absl::Hours(1);

}  // namespace

Estimate WorkerCore::EstimateOf(const JobState& job) const {
  using Source = Estimate::Source;
  const OwnerState& owner = *job.owner;
  const double hint = job.info.cost_ns_per_task * 1e-9;
  const double cores_a_group = std::max(1.0, static_cast<double>(owner.cores) / owner.groups);
  const double hinted = hint / cores_a_group;
  if (job.rate.known()) return {job.rate.slope(), job.rate.fixed(), Source::kJob, hinted};
  const auto kernel = kernels_.find({job.info.kernel, owner.kind});
  if (kernel != kernels_.end() && kernel->second.model.known() &&
      kernel->second.hinted == (hint > 0)) {
    const RateModel& model = kernel->second.model;
    return {model.slope() * (hint > 0 ? hint : 1), model.fixed(), Source::kKernel, hinted};
  }
  return {hinted, 0, Source::kHint, hinted};
}

PullDevice WorkerCore::PredictionOf(const JobState& job) const {
  const Estimate estimate = EstimateOf(job);
  PullDevice device;
  device.end = PoolEnd::kFront;  // Nobody pulls from the other end: results come in order.
  device.pieces_max = std::max(options_.pull.pieces_per_group, options_.pull.small_pieces_max);
  device.probes_max = options_.pull.pieces_per_group;
  device.seconds_per_leaf =
      estimate.careful_seconds_per_task() * static_cast<double>(job.tree.grain());
  device.fixed_seconds =
      std::max(estimate.fixed_seconds, absl::ToDoubleSeconds(options_.pull.piece_overhead));
  return device;
}

JobPulls* WorkerCore::PullsOf(JobState* job) const {
  if (job->pulls != nullptr) return job->pulls.get();
  job->pulls = std::make_unique<JobPulls>(options_.pull.puller);
  const PullDevice prediction = PredictionOf(*job);
  job->pulls->groups.resize(job->owner->groups);
  for (uint32_t group = 0; group < job->owner->groups; ++group) {
    job->pulls->puller.AddDevice(prediction);
  }
  return job->pulls.get();
}

void WorkerCore::TellOthers(JobState* job, MonoTime now) const {
  JobPulls& pulls = *job->pulls;
  for (uint32_t i = 0; i < pulls.groups.size(); ++i) {
    const CoreGroup& group = groups_[i];
    const JobPulls::OfGroup& own = pulls.groups[i];
    pulls.puller.OtherEnded(i, group.last_end);
    if (group.in_flight == own.in_flight) {
      pulls.puller.Occupied(i, MonoTime::InfinitePast());
      continue;
    }
    if (group.unpredicted > own.unpredicted) {
      pulls.puller.Occupied(i, now + kAnyTime);
      continue;
    }
    // What is late is taken to be half done.
    const absl::Duration left = group.busy_since + (group.predicted - own.predicted) - now;
    pulls.puller.Occupied(i, now + std::max(left, -left));
  }
}

Puller::Decision WorkerCore::Ask(JobState* job, uint32_t group, MonoTime now) {
  JobPulls& pulls = *PullsOf(job);
  const Estimate estimate = EstimateOf(*job);
  // What the job has shown on another group says more than its hint.
  JobPulls::OfGroup& own = pulls.groups[group];
  if (estimate.proven() && !own.told_rate && own.in_flight == 0 && !pulls.puller.Proven(group)) {
    pulls.puller.Back(group, PredictionOf(*job));
    own.told_rate = true;
  }
  TellOthers(job, now);
  const Puller::Rest rest{job->pool.leaves(), job->share_leaves};
  Puller::Decision decision = pulls.puller.Ask(group, now, rest);
  look_again_ = std::min(look_again_, decision.look_again);
  if (job->pool.front().suspect) decision.leaves = 1;
  if (decision.leaves == 0) return decision;
  uint64_t most = job->piece_leaves_max;
  if (!estimate.proven()) {
    most = std::min(most, options_.pull.unproven_leaves_max);
  } else {
    const double probe = options_.pull.puller.probe_seconds /
                         (estimate.seconds_per_task * static_cast<double>(job->tree.grain()));
    const double grown = options_.pull.growth_max * static_cast<double>(job->proven_leaves);
    most =
        static_cast<uint64_t>(std::clamp(std::max(grown, probe), 1.0, static_cast<double>(most)));
  }
  decision.leaves = std::min(decision.leaves, most);
  return decision;
}

void WorkerCore::TellFinished(const PieceFinished& event, MonoTime now) {
  const auto found = pieces_.find(event.piece);
  if (found == pieces_.end() || found->second.executor != event.executor) return;
  const InFlightPiece& piece = found->second;
  if (piece.is_void || piece.merge != nullptr) return;
  JobState& job = jobs_.at(piece.job);
  // A suspect runs in sub-intervals, which says little of others.
  const auto launch = piece.run.suspect ? Puller::Launch::kFirst : Puller::Launch::kWarm;
  Puller& puller = job.pulls->puller;
  puller.FixedCost(piece.group,
                   std::max(job.rate.fixed(), absl::ToDoubleSeconds(options_.pull.piece_overhead)));
  puller.Finished(piece.group, event.piece, now, launch,
                  std::max(absl::ToDoubleSeconds(event.busy), 0.0));
}

void WorkerCore::LeavePulls(JobState* job, PieceId id, const InFlightPiece& piece) {
  job->pulls->puller.Shrunk(piece.group, id, 0);
  JobPulls::OfGroup& own = job->pulls->groups[piece.group];
  --own.in_flight;
  if (piece.predicted == absl::InfiniteDuration()) {
    --own.unpredicted;
  } else {
    own.predicted -= piece.predicted;
  }
}

}  // namespace tandem::worker
