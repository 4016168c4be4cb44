#include "master/core/turn.h"

#include <algorithm>

#include "common/base/check.h"

namespace tandem::master {

void Describe(Turn& turn, Job& job, Worker& worker) {
  JobAtWorker& at = worker.jobs[job.id];
  if (at.described) return;
  at.described = true;
  job.workers.insert(worker.id);
  turn.out.describes.push_back({worker.id, job.id});
}

void BookLease(Turn& turn, Job& job, Worker& worker, const LeaseRun& run) {
  job.leases.Add(run);
  JobAtWorker& at = worker.jobs[job.id];
  at.unfit = false;  // It is tried again.
  const int64_t leases = run.Leases();
  const uint64_t leaves = run.end - run.begin;
  if (at.leaves == 0) at.heard_at = turn.now;
  at.leases += leases;
  at.leaves += leaves;
  at.granted_leaves += leaves;
  const double seconds = at.leaf_seconds * static_cast<double>(leaves);
  worker.load.Add(job.spec().priority, leases, seconds);
  job.outstanding_seconds += seconds;
  Recharge(turn.state, job, worker, at);
  if (run.suspect) worker.suspects += leaves;
  job.workers.insert(worker.id);
}

void Recharge(const State& state, Job& job, Worker& worker, JobAtWorker& at) {
  const double leaf_seconds = LeafSeconds(state, job, worker);
  const double more = (leaf_seconds - at.leaf_seconds) * static_cast<double>(at.leaves);
  at.leaf_seconds = leaf_seconds;
  worker.load.Add(job.spec().priority, 0, more);
  job.outstanding_seconds = std::max(0.0, job.outstanding_seconds + more);
  if (at.parked > 0) Park(worker, at, at.parked);
}

void ReleaseLease(Turn& turn, Job& job, Worker& worker, uint64_t leaves, int64_t leases,
                  bool suspect) {
  JobAtWorker& at = worker.jobs[job.id];
  DCHECK(at.leaves >= leaves);
  const double seconds = at.leaf_seconds * static_cast<double>(leaves);
  at.leases -= leases;
  at.leaves -= leaves;
  worker.load.Add(job.spec().priority, -leases, -seconds);
  // What leaves an accumulator is committed first.
  if (at.parked > 0) Park(worker, at, at.parked > leaves ? at.parked - leaves : 0);
  if (suspect) worker.suspects -= leaves;
  job.outstanding_seconds = std::max(0.0, job.outstanding_seconds - seconds);
  turn.Touch(worker);
}

void FreeLeaves(Turn& turn, Job& job, LeafRange leaves) {
  job.retries.ForEachIn(leaves, [&](LeafRange part, const Retry* retry) {
    LeafSet& set = retry != nullptr && retry->suspect ? job.free_suspects : job.free;
    set.Add(part);
  });
  RefreshReady(turn.state, job);
  turn.schedule_all = true;
}

void RequeueAfterLoss(Turn& turn, Job& job, LeafRange leaves, uint32_t attempt) {
  while (!leaves.empty()) {
    const RetryTable::Found found = job.retries.Find(leaves.begin, leaves);
    const Retry old = found.retry == nullptr ? Retry{} : *found.retry;
    turn.Record(LeavesRetried{.job = job.id,
                              .leaves = IntervalOf(found.leaves),
                              .attempt = std::max(old.attempt, attempt) + 1,
                              .failures = old.failures,
                              .strikes = old.strikes,
                              .suspect = old.suspect,
                              .level = old.level});
    const TaskRange tasks = job.tree().Tasks(found.leaves);
    job.retried_tasks += tasks.size();
    FreeLeaves(turn, job, found.leaves);
    leaves.begin = found.leaves.end;
  }
  turn.MarkDirty(job);
}

void LoseLeases(Turn& turn, Worker& worker) {
  for (auto& [id, at] : worker.jobs) {
    Job* job = turn.state.FindActive(id);
    if (job == nullptr) continue;
    VoidMerges(turn, *job, worker.id);
    if (at.leaves == 0) continue;
    absl::InlinedVector<std::pair<LeafRange, uint32_t>, 8> lost;
    job->leases.TakeIf(
        job->tree().leaves(), [&](const LeaseRun& run) { return run.worker == worker.id; },
        [&](LeafRange leaves, const LeaseRun& run, int64_t ended) {
          ReleaseLease(turn, *job, worker, leaves.size(), ended, run.suspect);
          lost.emplace_back(leaves, run.attempt);
        });
    for (const auto& [leaves, attempt] : lost) RequeueAfterLoss(turn, *job, leaves, attempt);
    RefreshReady(turn.state, *job);
  }
}

void VoidMerges(Turn& turn, Job& job, WorkerId worker_or_none) {
  for (auto it = job.merges.begin(); it != job.merges.end();) {
    if (worker_or_none.valid() && it->second.worker != worker_or_none) {
      ++it;
      continue;
    }
    for (uint64_t id : it->second.inputs) job.partials.SetMerging(id, false);
    if (Worker* worker = turn.state.FindWorker(it->second.worker); worker != nullptr) {
      --worker->merges;
    }
    it = job.merges.erase(it);
    turn.state.merge_ready.insert(job.id);
    turn.schedule_all = true;
  }
}

void EndJob(Turn& turn, Job& job, JobState state, std::string reason) {
  VoidMerges(turn, job, WorkerId());
  job.leases.TakeIf(
      job.tree().leaves(), [](const LeaseRun&) { return true; },
      [&](LeafRange leaves, const LeaseRun& run, int64_t ended) {
        Worker* worker = turn.state.FindWorker(run.worker);
        ReleaseLease(turn, job, *worker, leaves.size(), ended, run.suspect);
      });
  job.free.Clear();
  job.free_suspects.Clear();
  job.free_large.clear();
  for (WorkerId id : job.workers) {
    Worker* worker = turn.state.FindWorker(id);
    if (worker == nullptr) continue;
    JobAtWorker& at = worker->jobs[job.id];
    Park(*worker, at, 0);
    SetLeafSeconds(job, at, 0);
    if (at.described) turn.out.drops.push_back({id, job.id});
    worker->jobs.erase(job.id);
  }
  job.workers.clear();
  if (state == JobState::kCancelled) turn.Record(JobCancelled{job.id});
  turn.Record(JobEnded{job.id, static_cast<uint8_t>(state), std::move(reason)});
  turn.state.merge_ready.erase(job.id);
  RefreshReady(turn.state, job);
  turn.MarkDirty(job);
  turn.schedule_all = true;
}

JobStatus MakeStatus(const State& state, const Job& job) {
  JobStatus status{.job = job.id,
                   .sequence = job.sequence,
                   .state = StateOf(job.phase),
                   .wait_reason = job.wait_reason,
                   .reason = WaitNote(state, job, job.wait_reason),
                   .task_count = job.tree().task_count(),
                   .tasks_done = job.tasks_done(),
                   .tasks_failed = job.tasks_failed,
                   .leases = job.leases_granted,
                   .retried_tasks = job.retried_tasks,
                   .busy_ns = job.busy_ns,
                   .started_after = job.started_after,
                   .result = nullptr};
  if (const auto* failed = std::get_if<Failed>(&job.phase)) status.reason = failed->reason;
  if (const auto* succeeded = std::get_if<Succeeded>(&job.phase)) {
    status.reason.clear();
    status.result = succeeded->result;
  }
  // The epoch makes sequences grow across restarts.
  if (status.sequence == 0) status.sequence = state.epoch.value() << 40;
  return status;
}

void FlushStatuses(Turn& turn) {
  for (JobId id : turn.state.dirty) {
    Job* job = turn.state.FindJob(id);
    if (job == nullptr) continue;  // Deleted in this Step.
    job->dirty = false;
    job->wait_reason = WhyWaiting(turn.state, *job);
    job->sequence = std::max(job->sequence, turn.state.epoch.value() << 40) + 1;
    // The shell may collect several Steps: the job's status there is replaced.
    auto& statuses = turn.out.statuses;
    JobStatus status = MakeStatus(turn.state, *job);
    if (job->status_slot < statuses.size() && statuses[job->status_slot].job == id) {
      statuses[job->status_slot] = std::move(status);
    } else {
      job->status_slot = statuses.size();
      statuses.push_back(std::move(status));
    }
  }
  turn.state.dirty.clear();
}

}  // namespace tandem::master
