// What must hold between Steps, checked in tests and in the simulator.
#include <map>

#include "common/base/check.h"
#include "master/core/core.h"
#include "master/core/turn.h"

namespace tandem::master {
namespace {

struct HeldSum {
  int64_t leases = 0;
  uint64_t leaves = 0;
  uint64_t suspects = 0;
};

void CheckWorker(const State& state, const Worker& worker, std::map<JobId, HeldSum>& sums,
                 uint32_t merges) {
  CHECK_EQ(state.worker_names.at(worker.name), worker.id);
  int64_t leases = 0, parked = 0, parked_ns = 0;
  uint64_t suspects = 0;
  for (const auto& [id, at] : worker.jobs) {
    const HeldSum& sum = sums[id];
    CHECK_EQ(sum.leases, at.leases);
    CHECK_EQ(sum.leaves, at.leaves);
    leases += at.leases;
    parked += at.counted_parked_leases;
    parked_ns += at.counted_parked_ns;
    CHECK(at.parked <= at.leaves);
    suspects += sum.suspects;
    sums.erase(id);
    CHECK_EQ(state.jobs.at(id)->workers.count(worker.id), 1u);
  }
  CHECK(sums.empty());
  CHECK_EQ(worker.load.leases(), leases);
  CHECK_EQ(worker.parked_leases, parked);
  CHECK_EQ(worker.parked_ns, parked_ns);
  CHECK_EQ(worker.suspects, suspects);
  CHECK_EQ(worker.merges, merges);
  const bool holds_nothing =
      std::holds_alternative<Lost>(worker.phase) || std::holds_alternative<Expected>(worker.phase);
  if (holds_nothing) CHECK(leases == 0 && merges == 0);
  CHECK_EQ(worker.timer_set, !std::holds_alternative<Lost>(worker.phase));
  CHECK_EQ(state.known_workers.contains(worker.id), !std::holds_alternative<Lost>(worker.phase));
}

void CheckKernels(const State& state) {
  std::vector<uint64_t> workers(state.kernels.size()), measured(state.kernels.size());
  for (const auto& [id, worker] : state.workers) {
    if (!worker->takes_work()) continue;
    for (const auto& [index, at] : worker->kernels) {
      ++workers[index];
      measured[index] += at.tasks_per_second > 0 ? 1 : 0;
    }
  }
  for (size_t i = 0; i < state.kernels.size(); ++i) {
    CHECK_EQ(state.kernels[i].workers, workers[i]);
    CHECK_EQ(state.kernels[i].measured, measured[i]);
  }
}

}  // namespace

void MasterCore::CheckInvariants() const {
  std::map<WorkerId, std::map<JobId, HeldSum>> sums;
  std::map<WorkerId, uint32_t> merges;
  for (const auto& [id, job] : state_.jobs) {
    job->CheckInvariants();
    CHECK(!job->dirty);
    for (const LeaseRun& run : job->leases) {
      HeldSum& sum = sums[run.worker][id];
      sum.leases += run.Leases();
      sum.leaves += run.end - run.begin;
      if (run.suspect) sum.suspects += run.end - run.begin;
      CHECK(run.first_n < state_.next_n);
    }
    for (const auto& [n, merge] : job->merges) ++merges[merge.worker];
    const bool ready = !job->ended() && state_.MayRun(*job) && job->anything_free() &&
                       !(job->recovered && state_.recovering());
    CHECK_EQ(job->ready, ready);
    uint64_t measured = 0;
    for (const auto& [worker_id, worker] : state_.workers) {
      const auto at = worker->jobs.find(id);
      measured += at != worker->jobs.end() && at->second.busy_leaf_seconds > 0 ? 1 : 0;
    }
    CHECK_EQ(job->measured, measured);
    CHECK_EQ(job->leaves_per_second > 0, measured > 0);
    if (job->ready) CHECK_EQ(state_.classes[job->job_class].ready.at(job->rank), job.get());
    CHECK_EQ(state_.suspect_jobs.contains(id), !job->free_suspects.empty());
    CHECK_EQ(state_.tails.contains(id), !job->ended() && job->free.empty() &&
                                            job->free_suspects.empty() && !job->leases.empty());
  }
  uint64_t expected = 0;
  for (const auto& [id, worker] : state_.workers) {
    CheckWorker(state_, *worker, sums[id], merges[id]);
    expected += std::holds_alternative<Expected>(worker->phase) ? 1 : 0;
  }
  CHECK_EQ(expected, state_.expected);
  CheckKernels(state_);
}

}  // namespace tandem::master
