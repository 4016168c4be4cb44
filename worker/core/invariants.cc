// What must hold after each step.
#include <algorithm>

#include "common/base/check.h"
#include "worker/core/worker_core.h"

namespace tandem::worker {

void WorkerCore::CheckInvariants() const {
  absl::btree_map<JobId, std::pair<uint32_t, uint64_t>> by_job;
  absl::btree_map<const OwnersExecutor*, uint32_t> by_executor, voids;
  for (const auto& [id, piece] : pieces_) {
    CHECK(id <= last_piece_);
    const OwnersExecutor& executor = *piece.executor;
    ++by_executor[piece.executor];
    CHECK(piece.lane < lanes_.size());
    CHECK(lanes_[piece.lane].holder == executor.owner);
    CHECK_EQ(lanes_[piece.lane].device, executor.device);
    CHECK_EQ(piece.merge == nullptr, piece.run.count() > 0);
    if (piece.run.suspect) CHECK(piece.alone);
    CHECK_EQ(piece.alone, executor.alone);
    if (piece.alone && executor.in_flight > 1) CHECK(executor.suspect_set.valid());
    if (piece.alone) CHECK(piece.run.suspect_set == executor.suspect_set);
    voids[piece.executor] += piece.is_void ? 1 : 0;
    if (piece.is_void || piece.merge != nullptr) continue;
    CHECK(jobs_.contains(piece.job));
    ++by_job[piece.job].first;
    by_job[piece.job].second += piece.run.count();
  }
  CheckLanes();
  absl::btree_map<const OwnerState*, uint32_t> jobs_of;
  for (const auto& [id, job] : jobs_) {
    ++jobs_of[job.owner];
    const auto counted = by_job.find(id);
    CHECK_EQ(job.in_flight, counted == by_job.end() ? 0u : counted->second.first);
    CHECK_EQ(job.running_leaves, counted == by_job.end() ? 0u : counted->second.second);
    CheckJob(id, job);
  }
  for (const auto& [name, owner] : owners_) {
    CHECK_EQ(owner.jobs, jobs_of[&owner]);
    for (const auto& [order, job] : owner.runnable) CHECK(jobs_.contains(job));
    for (const OwnersExecutor& executor : owner.executors) {
      CHECK_EQ(executor.in_flight, by_executor[&executor]);
      CHECK_EQ(executor.voids, voids[&executor]);
      CHECK_EQ(executor.voids > 0, executor.voids_since != MonoTime::InfiniteFuture());
      const bool lives = executor.phase != OwnersExecutor::Phase::kNone;
      CHECK_EQ(lives, executor.id != 0);
      CHECK_EQ(lives, executors_.contains(executor.id));
    }
  }
  outbox_.CheckInvariants();
}

void WorkerCore::CheckLanes() const {
  std::vector<PullLane> sums(lanes_.size());
  for (const auto& [id, piece] : pieces_) {
    PullLane& sum = sums[piece.lane];
    ++sum.in_flight;
    sum.voids += piece.is_void ? 1 : 0;
    const bool any_time = piece.predicted == absl::InfiniteDuration();
    sum.unpredicted += any_time ? 1 : 0;
    if (!any_time) sum.predicted += piece.predicted;
    sum.unproven += piece.unproven;
  }
  for (size_t i = 0; i < lanes_.size(); ++i) {
    CHECK(lanes_[i].device < devices_.size());
    CHECK_EQ(sums[i].in_flight, lanes_[i].in_flight);
    CHECK_EQ(sums[i].voids, lanes_[i].voids);
    CHECK_EQ(sums[i].unpredicted, lanes_[i].unpredicted);
    CHECK(sums[i].predicted == lanes_[i].predicted);
    CHECK(sums[i].unproven == lanes_[i].unproven);
    CHECK(lanes_[i].in_flight <=
          std::max(options_.pull.pieces_per_group, options_.pull.small_pieces_max));
  }
}

void WorkerCore::CheckJob(JobId id, const JobState& job) const {
  job.pool.CheckInvariants();
  CHECK_EQ(job.pool.empty(), job.order == 0);
  CHECK_EQ(job.owner->runnable.contains({job.order, id}), job.order != 0);
  uint32_t pulled = 0;
  if (job.pulls != nullptr) {
    for (const JobPulls::OfLane& own : job.pulls->lanes) pulled += own.in_flight;
  }
  CHECK_EQ(job.in_flight, pulled);
  for (const LeaseSplits::Range& range : job.splits.open()) CheckRange(id, job, range);
  for (DeviceIndex device = 0; device < job.on.size(); ++device) {
    const Accumulator& accumulator = job.on[device].accumulator;
    uint64_t leaves = 0;
    absl::Duration work;
    for (const auto& [piece, held] : accumulator.pieces) {
      CHECK(!pieces_.contains(piece));
      for (const LeaseRun& run : held.runs) leaves += run.count();
      work += held.busy;
    }
    CHECK_EQ(leaves, accumulator.leaves);
    CHECK(work == accumulator.work);
    CHECK_EQ(!accumulator.empty(), accumulating_.contains({id, device}));
  }
}

// What it lacks is here, and has not run.
void WorkerCore::CheckRange(JobId id, const JobState& job, const LeaseSplits::Range& range) const {
  uint64_t leaves = 0;
  for (const LeaseRun& run : job.pool.runs()) {
    leaves += LeaseSplits::Holds(range, run) ? run.count() : 0;
  }
  for (const auto& [number, piece] : pieces_) {
    const bool runs = piece.job == id && piece.merge == nullptr && !piece.is_void;
    leaves += runs && LeaseSplits::Holds(range, piece.run) ? piece.run.count() : 0;
  }
  CHECK_EQ(leaves, range.lacks);
}

}  // namespace tandem::worker
