// TakeBack: what a group holds and others would do sooner goes back to the pool: the piece behind
// one that is late, and, for a group that has nothing, the next piece of another.
#include <algorithm>

#include "worker/core/worker_core.h"

namespace tandem::worker {

void WorkerCore::TakeBack(MonoTime now, Effects* effects) {
  if (groups_.size() < 2) return;
  bool idle = false, late = false;
  for (const CoreGroup& group : groups_) {
    idle |= group.in_flight == 0;
    late |= group.in_flight > 1 && now > group.busy_since + group.predicted;
  }
  if (!idle && !late) return;
  absl::btree_set<JobId> jobs;
  for (const auto& [id, piece] : pieces_) {
    if (!piece.is_void && piece.merge == nullptr && !piece.recalled) jobs.insert(piece.job);
    if (jobs.size() >= options_.pull.take_back_jobs_max) break;
  }
  for (const JobId id : jobs) TakeBackOf(FindJob(id), idle, now, effects);
}

void WorkerCore::TakeBackOf(JobState* job, bool idle, MonoTime now, Effects* effects) {
  if (job->in_flight < 2 || job->owner->alone) return;
  JobPulls& pulls = *job->pulls;
  TellOthers(job, now);
  const Puller::Rest rest{job->pool.leaves(), job->share_leaves};
  for (uint32_t group = 0; group < pulls.groups.size(); ++group) {
    if (const auto back = pulls.puller.AskReturn(group, now, rest)) {
      TakeBackPiece(job, *back, effects);
    }
  }
  if (!idle || !job->pool.empty()) return;
  for (uint32_t group = 0; group < pulls.groups.size(); ++group) {
    if (groups_[group].in_flight > 0) continue;
    const auto steal = pulls.puller.AskSteal(group, now);
    if (steal.has_value()) TakeBackPiece(job, *steal, effects);
  }
}

void WorkerCore::TakeBackPiece(JobState* job, const Puller::Steal& steal, Effects* effects) {
  job->pulls->puller.Stealing(steal);
  InFlightPiece& piece = pieces_.at(steal.piece);
  if (piece.recalled) return;  // it is coming already
  effects->to_executors.push_back(CancelPiece{piece.executor, steal.piece});
}

}  // namespace tandem::worker
