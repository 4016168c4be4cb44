// What must hold after each step.
#include <algorithm>

#include "common/base/check.h"
#include "worker/core/worker_core.h"

namespace tandem::worker {

void WorkerCore::CheckInvariants() const {
  absl::btree_map<JobId, std::pair<uint32_t, uint64_t>> by_job;
  absl::btree_map<const OwnerState*, uint32_t> by_owner, voids;
  std::vector<uint32_t> by_group(groups_.size());
  std::vector<uint32_t> unpredicted(groups_.size());
  std::vector<absl::Duration> predicted(groups_.size()), unproven(groups_.size());
  for (const auto& [id, piece] : pieces_) {
    CHECK(id <= last_piece_);
    ++by_owner[piece.owner];
    CHECK(piece.group < groups_.size());
    ++by_group[piece.group];
    const bool any_time = piece.predicted == absl::InfiniteDuration();
    unpredicted[piece.group] += any_time ? 1 : 0;
    if (!any_time) predicted[piece.group] += piece.predicted;
    unproven[piece.group] += piece.unproven;
    CHECK(groups_[piece.group].holder == piece.owner);
    CHECK(piece.executor == piece.owner->executor);
    CHECK_EQ(piece.merge == nullptr, piece.run.count() > 0);
    if (piece.run.suspect) CHECK(piece.alone);
    if (piece.alone) CHECK(piece.owner->alone && piece.owner->in_flight == 1);
    voids[piece.owner] += piece.is_void ? 1 : 0;
    if (piece.is_void || piece.merge != nullptr) continue;
    CHECK(jobs_.contains(piece.job));
    ++by_job[piece.job].first;
    by_job[piece.job].second += piece.run.count();
  }
  for (size_t i = 0; i < groups_.size(); ++i) {
    CHECK_EQ(by_group[i], groups_[i].in_flight);
    CHECK_EQ(unpredicted[i], groups_[i].unpredicted);
    CHECK(predicted[i] == groups_[i].predicted);
    CHECK(unproven[i] == groups_[i].unproven);
    CHECK(groups_[i].in_flight <=
          std::max(options_.pull.pieces_per_group, options_.pull.small_pieces_max));
  }
  absl::btree_map<const OwnerState*, uint32_t> jobs_of;
  for (const auto& [id, job] : jobs_) {
    job.pool.CheckInvariants();
    ++jobs_of[job.owner];
    CHECK_EQ(job.pool.empty(), job.order == 0);
    CHECK_EQ(job.owner->runnable.contains({job.order, id}), job.order != 0);
    const auto counted = by_job.find(id);
    CHECK_EQ(job.in_flight, counted == by_job.end() ? 0u : counted->second.first);
    CHECK_EQ(job.running_leaves, counted == by_job.end() ? 0u : counted->second.second);
    uint32_t pulled = 0;
    if (job.pulls != nullptr) {
      for (const JobPulls::OfGroup& own : job.pulls->groups) pulled += own.in_flight;
    }
    CHECK_EQ(job.in_flight, pulled);
    uint64_t leaves = 0;
    absl::Duration work;
    for (const auto& [piece, held] : job.accumulator.pieces) {
      CHECK(!pieces_.contains(piece));
      for (const LeaseRun& run : held.runs) leaves += run.count();
      work += held.busy;
    }
    CHECK_EQ(leaves, job.accumulator.leaves);
    CHECK(work == job.accumulator.work);
    CHECK_EQ(!job.accumulator.empty(), accumulating_.contains(id));
  }
  for (const auto& [name, owner] : owners_) {
    CHECK_EQ(owner.in_flight, by_owner[&owner]);
    CHECK_EQ(owner.voids, voids[&owner]);
    CHECK_EQ(owner.voids > 0, owner.voids_since != MonoTime::InfiniteFuture());
    CHECK_EQ(owner.jobs, jobs_of[&owner]);
    const bool has_executor = owner.phase != OwnerState::Phase::kNone;
    CHECK_EQ(has_executor, owner.executor != 0);
    CHECK_EQ(has_executor, executors_.contains(owner.executor));
    for (const auto& [order, job] : owner.runnable) CHECK(jobs_.contains(job));
  }
  outbox_.CheckInvariants();
}

}  // namespace tandem::worker
