// TakeBack: what a lane holds and others would do sooner goes back to the pool: the piece behind
// one that is late, and, for a lane that has nothing, of the piece that ends last so much that both
// end together. What the master recalls goes back to it the same way.
#include <algorithm>
#include <utility>

#include "worker/core/worker_core.h"

namespace tandem::worker {

void WorkerCore::TakeBack(MonoTime now, Effects* effects) {
  if (lanes_.size() < 2) return;
  bool idle = false, late = false;
  for (const PullLane& lane : lanes_) {
    idle |= lane.in_flight == 0;
    late |= lane.in_flight > 1 && now > lane.busy_since + lane.predicted / lane.in_flight;
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
  JobPulls& pulls = *job->pulls;
  TellPuller(job, now);
  const Puller::Rest rest{job->pool.leaves(), job->share_leaves};
  for (uint32_t lane = 0; lane < pulls.lanes.size(); ++lane) {
    if (pulls.lanes[lane].in_flight < 2) continue;
    if (const auto back = pulls.puller.AskReturn(lane, now, rest)) {
      TakeBackPiece(job, *back, effects);
    }
  }
  if (!idle) return;
  for (uint32_t lane = 0; lane < pulls.lanes.size(); ++lane) {
    if (lanes_[lane].in_flight > 0 || !pulls.lanes[lane].there) continue;
    const auto steal = pulls.puller.AskSteal(lane, now);
    if (steal.has_value()) TakeBackPiece(job, *steal, effects);
  }
}

void WorkerCore::TakeBackPiece(JobState* job, const Puller::Steal& steal, Effects* effects) {
  job->pulls->puller.Stealing(steal);
  InFlightPiece& piece = pieces_.at(steal.piece);
  // It is coming already; or it cannot be divided; or it is where it is because of its size.
  if (piece.recalled || piece.run.suspect || piece.run.need_bytes > 0) return;
  const uint64_t leaves = piece.run.count();
  AskBack(*job, steal.piece, piece, leaves - std::min(steal.leaves, leaves), effects);
}

void WorkerCore::Recall(JobState* job, uint64_t from, uint64_t to, Effects* effects) {
  Return(job->info.job, job->pool.TakeWithin(from, to), effects);
  UpdateRunnable(job);
  for (auto& [id, piece] : pieces_) {
    if (piece.job != job->info.job || piece.merge != nullptr || piece.is_void || piece.recalled) {
      continue;
    }
    const LeaseRun wanted = piece.run.Within(from, to);
    if (wanted.count() == 0) continue;
    piece.recalled = true;
    // A piece keeps its first leaves: what lies behind those that are wanted comes, too.
    AskBack(*job, id, piece, wanted.first() - piece.run.first(), effects);
  }
}

// All behind the first `keep` leaves that has not begun; where a piece cannot be divided, all of it
// or, if it has begun, nothing.
void WorkerCore::AskBack(const JobState& job, PieceId id, const InFlightPiece& piece, uint64_t keep,
                         Effects* effects) {
  const ExecutorId executor = piece.executor->id;
  const bool divides = piece.executor->shrinks && !job.info.whole_nodes() &&
                       piece.renewed.empty() && !piece.run.suspect && piece.run.need_bytes == 0;
  if (divides) {
    effects->to_executors.push_back(ShrinkPiece{executor, id, keep});
  } else {
    effects->to_executors.push_back(CancelPiece{executor, id});
  }
}

void WorkerCore::On(PieceShrunk event, MonoTime, Effects* effects) {
  const auto found = pieces_.find(event.piece);
  if (found == pieces_.end() || found->second.executor->id != event.executor) return;
  InFlightPiece& piece = found->second;
  if (event.leaves == 0 || piece.merge != nullptr) {
    return On(PieceReturned{event.executor, event.piece}, last_step_, effects);
  }
  if (piece.is_void || !piece.renewed.empty()) return;
  JobState* job = FindJob(piece.job);
  const uint64_t leaves = std::min(event.leaves, piece.run.count());
  const uint64_t back = piece.run.count() - leaves;
  job->pulls->puller.Shrunk(piece.lane, event.piece, leaves);
  const bool recalled = std::exchange(piece.recalled, false);  // what is left may be again
  if (back == 0) return;
  LeaseRun returned = piece.run.Part(piece.run.first() + leaves, back);
  piece.run.leaves.count = leaves;
  job->running_leaves -= back;
  if (recalled) {
    Return(piece.job, {std::move(returned)}, effects);
  } else {
    Accept(job, std::move(returned), piece.end == PoolEnd::kFront, effects);
  }
}

}  // namespace tandem::worker
