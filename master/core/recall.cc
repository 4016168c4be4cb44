#include "master/core/recall.h"

#include <algorithm>

namespace tandem::master {
namespace {

MonoTime QuietUntil(const Turn& turn, const Worker& worker) {
  return turn.now +
         std::max(turn.state.options.recall_quiet, absl::Seconds(4 * worker.latency_seconds));
}

// Asks for at most `most` of the job's leaves at the worker, from the right: workers start with
// what they got first, so there the leaves are unstarted the longest.
void RecallSome(Turn& turn, const Job& job, Worker& worker, uint64_t most) {
  JobAtWorker& at = worker.jobs[job.id];
  if (turn.now < at.quiet_until) return;
  at.quiet_until = QuietUntil(turn, worker);
  at.recalled_at = turn.now;
  for (auto run = job.leases.rbegin(); run != job.leases.rend() && most > 0; ++run) {
    if (run->worker != worker.id || run->suspect) continue;
    const uint64_t count = std::min(most, run->end - run->begin);
    most -= count;
    ++turn.state.counters.recalls;
    turn.out.to_workers.push_back({worker.id, Recall{job.id, {run->end - count, count}}});
  }
}

struct Victim {
  Worker* worker = nullptr;
  double seconds = 0;
};
// What the worker has left to do of the job. Of leaves that nothing is heard of the prediction may
// be wrong: they are taken to need as long again as they have been out.
double SecondsLeft(const Turn& turn, const JobAtWorker& at) {
  if (at.leaves == at.parked) return 0;
  return std::max(static_cast<double>(at.leaves - at.parked) * at.leaf_seconds,
                  absl::ToDoubleSeconds(turn.now - at.heard_at));
}
Victim SlowestAt(const Turn& turn, const Job& job, const Worker& thief) {
  Victim victim;
  for (WorkerId id : job.workers) {
    Worker* worker = turn.state.FindWorker(id);
    if (worker == nullptr || worker->id == thief.id || !worker->attached()) continue;
    const auto at = worker->jobs.find(job.id);
    if (at == worker->jobs.end() || turn.now < at->second.quiet_until) continue;
    const double seconds = SecondsLeft(turn, at->second);
    if (seconds > victim.seconds) victim = {worker, seconds};
  }
  return victim;
}

// Leaves of the job that are taken to be running there: as many as may. Behind leases of other jobs
// there may be none, which only the worker knows: it is asked for all, once.
uint64_t MayBeRunning(const Worker& worker, const JobAtWorker& at) {
  const int64_t others = worker.busy_leases() - (at.leases - at.counted_parked_leases);
  const bool asked = at.recalled_at >= at.heard_at;
  const bool all_may_run = at.leaves - at.parked <= worker.parallel;
  return all_may_run && others > 0 && !asked ? 0 : worker.parallel;
}

bool StealOf(Turn& turn, Job& job, Worker& thief) {
  const Victim victim = SlowestAt(turn, job, thief);
  if (victim.worker == nullptr) return false;
  JobAtWorker& at = victim.worker->jobs[job.id];
  const uint64_t held = at.leaves - at.parked;
  const double leaf_seconds = victim.seconds / static_cast<double>(held);
  // A thief that has run nothing of the job counts as fast as the victim.
  const auto here = thief.jobs.find(job.id);
  const bool measured = here != thief.jobs.end() && here->second.busy_leaf_seconds > 0;
  const uint64_t leaves =
      PlanSteal(turn.state.options.policy,
                {.victim_leaves = held,
                 .victim_leaf_seconds = leaf_seconds,
                 .victim_parallel = MayBeRunning(*victim.worker, at),
                 .thief_leaf_seconds = measured ? here->second.busy_leaf_seconds : leaf_seconds,
                 .latency_seconds = victim.worker->latency_seconds + thief.latency_seconds});
  if (leaves == 0) return false;
  at.yields = leaves == held;
  RecallSome(turn, job, *victim.worker, leaves);
  return true;
}

}  // namespace

void RecallBelow(Turn& turn, Worker& worker, int32_t priority) {
  for (auto& [id, at] : worker.jobs) {
    if (at.leaves == 0 || turn.now < at.quiet_until) continue;
    const Job* job = turn.state.FindActive(id);
    if (job == nullptr || job->spec().priority >= priority) continue;
    RecallSome(turn, *job, worker, at.leaves);
  }
}

void StealFor(Turn& turn, Worker& worker) {
  State& state = turn.state;
  if (state.tails.empty() || worker.busy_leases() > 0) return;
  constexpr int kJobsLookedAt = 16;
  int looked_at = 0;
  bool stolen = false;
  for (JobId id : state.tails) {
    if (++looked_at > kJobsLookedAt) break;
    Job* job = state.FindActive(id);
    if (job == nullptr || !Fits(worker, state.classes[job->job_class])) continue;
    if (!HasMemory(worker, *job)) continue;
    const auto at = worker.jobs.find(id);
    if (at != worker.jobs.end() && at->second.unfit) continue;
    if (stolen = StealOf(turn, *job, worker); stolen) break;
  }
  // The recalled may all have started: look again in a while.
  const absl::Duration wait = state.options.recall_quiet * (stolen ? 1 : 4);
  state.look_at = std::min(state.look_at, turn.now + wait);
}

void RefreshTail(State& state, const Job& job) {
  const bool free = !job.free.empty() || !job.free_suspects.empty();
  if (job.ended() || free || job.leases.empty()) {
    state.tails.erase(job.id);
  } else {
    state.tails.insert(job.id);
  }
}

}  // namespace tandem::master
