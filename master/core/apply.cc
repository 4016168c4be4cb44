#include "master/core/apply.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace tandem::master {
namespace {

Job& JobOf(State& state, JobId id) {
  Job* job = state.FindJob(id);
  CHECK_MSG(job != nullptr, "a record names a job that is not there");
  return *job;
}

}  // namespace

void Apply(State& state, const JobAccepted& record) {
  std::unique_ptr<Job> job = MakeJob(record.job, record.bound);
  job->request_id = record.request_id;
  job->request_hash = record.request_hash;
  job->submitted = record.submitted;
  const size_t kernel = state.KernelOf(record.bound->kernel_identity, record.bound->kernel.name);
  job->job_class = state.ClassOf(kernel, record.bound->spec.device);
  state.last_job = std::max(state.last_job, record.job);
  state.reserved_jobs = std::max(state.reserved_jobs, record.job);
  if (!record.request_id.empty()) {
    state.requests[State::RequestKey(record.bound->spec.owner, record.request_id)] = record.job;
  }
  state.jobs[record.job] = std::move(job);
}

void Apply(State& state, const LeavesDone& record) {
  Job& job = JobOf(state, record.job);
  for (const LeafInterval& leaves : record.leaves) {
    job.done.Add(RangeOf(leaves));
    if (!job.retries.empty()) job.retries.Erase(RangeOf(leaves));
  }
  job.tasks_failed += record.tasks_failed;
  job.busy_ns += record.busy_ns;
  if (record.partial_id == 0) return;
  job.partials.Add({.id = record.partial_id,
                    .leaves = {record.leaves.begin(), record.leaves.end()},
                    .outputs = record.outputs,
                    .tasks = record.partial_tasks,
                    .failed = record.tasks_failed});
}

void Apply(State& state, const PartialsMerged& record) {
  Job& job = JobOf(state, record.job);
  for (uint64_t id : record.consumed) job.partials.Remove(id);
  job.partials.Add(record.result);
}

void Apply(State& state, const LeavesRetried& record) {
  Job& job = JobOf(state, record.job);
  Retry retry{.attempt = record.attempt,
              .failures = record.failures,
              .strikes = record.strikes,
              .suspect = record.suspect,
              .level = record.level,
              .tasks = {}};
  if (record.task_known) retry.tasks[record.task] = record.task_strikes;
  job.retries.Set(RangeOf(record.leaves), std::move(retry));
}

// What a cancel means is in the JobEnded record that follows it.
void Apply(State& state, const JobCancelled& record) { JobOf(state, record.job); }

void Apply(State& state, const JobEnded& record) {
  Job& job = JobOf(state, record.job);
  switch (static_cast<JobState>(record.state)) {
    case JobState::kSucceeded: {
      Succeeded succeeded;
      job.partials.ForEach([&](const Partial& partial) { succeeded.result = partial.outputs; });
      Move(&job.phase, std::move(succeeded));
      break;
    }
    case JobState::kFailed:
      Move(&job.phase, Failed{record.reason});
      break;
    case JobState::kCancelled:
      Move(&job.phase, Cancelled{});
      break;
    default:
      CHECK_MSG(false, "a job ended in a state that is no end");
  }
  // An ended job's partials are of no more use, but for the one that is its result.
  if (StateOf(job.phase) != JobState::kSucceeded) job.partials.Clear();
  job.retries.Clear();
}

void Apply(State& state, const JobDeleted& record) {
  const Job& job = JobOf(state, record.job);
  if (!job.request_id.empty()) {
    state.requests.erase(State::RequestKey(job.spec().owner, job.request_id));
  }
  state.jobs.erase(record.job);
}

void Apply(State& state, const WorkerKnown& record) {
  state.known_workers[record.worker] = record.name;
  state.last_worker = std::max(state.last_worker, record.worker);
}

void Apply(State& state, const WorkerForgotten& record) {
  state.known_workers.erase(record.worker);
}

void Apply(State& state, const WorkerDrained& record) {
  if (record.drain) {
    state.drained.insert(record.name);
  } else {
    state.drained.erase(record.name);
  }
}

void Apply(State& state, const KernelAnnounced& record) {
  const size_t index = state.KernelOf(record.kernel->identity(), record.kernel->name);
  state.kernels[index].announced = record.kernel;
}

void Apply(State& state, const IdsIssued& record) {
  state.reserved_jobs = record.job;
  state.last_worker = std::max(state.last_worker, record.worker);
}

}  // namespace tandem::master
