// Reports of workers: commits, returns, faults of jobs, rates. Crashes are in on_crash.cc, merges
// in merging.cc.
//
// Only leaves that the worker holds under the numbers it names are taken; everything else is late,
// and is counted and dropped. A report is acknowledged in any case: its bytes may go.
#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/check.h"
#include "common/base/reason.h"
#include "common/base/strings.h"
#include "common/model/former_life.h"
#include "master/core/large_leaves.h"
#include "master/core/reports.h"
#include "master/core/turn.h"

namespace tandem::master {
namespace {

// An executor that says that it took no time is believed up to here.
constexpr double kTaskSecondsMin = 1e-10;
constexpr size_t kRatedDevicesMax = 64;  // Of one worker.
constexpr double kCommitWeight = 0.25;   // Of the newest commit, when the next comes.

// The worker's speed in a kernel, and with it what its queue is worth.
void Learn(Turn& turn, Worker& worker, size_t kernel, double tasks_per_second) {
  SetRate(turn.state, worker, kernel, tasks_per_second);
  for (auto& [id, at] : worker.jobs) {
    Job* job = at.leaves == 0 ? nullptr : turn.state.FindActive(id);
    if (job == nullptr || turn.state.classes[job->job_class].kernel != kernel) continue;
    Recharge(turn.state, *job, worker, at);
  }
}

void LearnOfJob(Turn& turn, Worker& worker, Job& job, double task_seconds) {
  JobAtWorker& at = worker.jobs[job.id];
  const double leaf_seconds = task_seconds * static_cast<double>(job.tree().grain());
  const double before = at.busy_leaf_seconds;
  SetLeafSeconds(job, at,
                 before == 0 ? leaf_seconds : before + kCommitWeight * (leaf_seconds - before));
  // What its queue is worth is told anew when that makes a difference.
  constexpr double kDifference = 0.05;
  if (std::abs(at.busy_leaf_seconds - at.leaf_seconds) > kDifference * at.leaf_seconds) {
    Recharge(turn.state, job, worker, at);
  }
}

void LearnFromCommit(Turn& turn, Worker& worker, Job& job, uint64_t tasks, uint64_t busy_ns) {
  const bool told = busy_ns > 0 && tasks > 0;
  const double seconds =
      told ? std::max(static_cast<double>(busy_ns) * 1e-9 / static_cast<double>(tasks),
                      kTaskSecondsMin)
           : 0;
  if (told) LearnOfJob(turn, worker, job, seconds);
  const size_t kernel = turn.state.classes[job.job_class].kernel;
  const auto found = worker.kernels.find(kernel);
  if (found == worker.kernels.end()) return;
  KernelAtWorker& at = found->second;
  if (at.tasks_per_second > 0 && !at.self_measured) return;  // It measures itself.
  constexpr uint64_t kProbeMax = uint64_t{1} << 40;
  at.probe_leaves = std::min(2 * at.probe_leaves, kProbeMax);
  if (!told) return;
  at.busy_seconds_per_task += at.busy_seconds_per_task == 0
                                  ? seconds
                                  : kCommitWeight * (seconds - at.busy_seconds_per_task);
  at.self_measured = true;
  Learn(turn, worker, kernel, 1 / at.busy_seconds_per_task);
}

void AddInterval(LeafRange leaves, LeafIntervals* intervals) {
  if (!intervals->empty() && intervals->back().first + intervals->back().count == leaves.begin) {
    intervals->back().count += leaves.size();
  } else {
    intervals->push_back(IntervalOf(leaves));
  }
}

// Takes what of `run` the worker holds into `taken`; returns the largest attempt among it.
uint32_t TakeRun(Turn& turn, Job& job, Worker& worker, const LeafRun& run, LeafIntervals* taken) {
  uint32_t attempt = 0;
  job.leases.Take(worker.id, run, [&](LeafRange leaves, const LeaseRun& of, int64_t ended) {
    ReleaseLease(turn, job, worker, leaves.size(), ended, of.suspect);
    AddInterval(leaves, taken);
    attempt = std::max(attempt, of.attempt);
  });
  return attempt;
}

// Something was finished: what went wrong before was not for ever.
void NoteProgress(Job& job) {
  job.given_up_in_row = 0;
  job.crash_faults = 0;
  job.wait_note.clear();
}

uint64_t TasksIn(const Job& job, const LeafIntervals& intervals) {
  uint64_t tasks = 0;
  for (const LeafInterval& leaves : intervals) tasks += job.tree().Tasks(RangeOf(leaves)).size();
  return tasks;
}

// Concatenated outputs: what of the runs is held becomes done, leaf by leaf if need be.
void CommitRuns(Turn& turn, Job& job, Worker& worker, const Commit& commit) {
  LeavesDone done;
  done.job = job.id;
  uint32_t attempt = 0;
  for (const LeafRun& run : commit.runs) {
    attempt = std::max(attempt, TakeRun(turn, job, worker, run, &done.leaves));
  }
  if (done.leaves.empty()) {
    ++turn.state.counters.stale_commits;
    return;
  }
  const uint64_t tasks = TasksIn(job, done.leaves);
  const LeafInterval& first = commit.runs.front().leaves;
  const LeafInterval& last = commit.runs.back().leaves;
  done.covered.push_back({first.first, last.first + last.count - first.first});
  done.outputs = commit.outputs;
  done.busy_ns = commit.busy_ns;
  NoteProgress(job);
  LeafIntervals retried;
  if (!commit.failures.empty()) SortFailures(turn, job, commit.failures, &done, &retried);
  LearnFromCommit(turn, worker, job, tasks, commit.busy_ns);
  if (!done.leaves.empty()) turn.Record(std::move(done));
  for (const LeafInterval& leaf : retried) RetryAfterFailure(turn, job, RangeOf(leaf), attempt);
}

// A partial is taken whole or not at all.
bool Whole(const Job& job, const Worker& worker, const Commit& commit) {
  for (const LeafRun& run : commit.runs) {
    if (!job.leases.Holds(worker.id, run)) return false;
  }
  if (job.reduction != ReductionKind::kOrdered) return true;
  Node node;
  return commit.runs.size() == 1 && job.tree().NodeOf(RangeOf(commit.runs[0].leaves), &node);
}

void CommitPartial(Turn& turn, Job& job, Worker& worker, const Commit& commit) {
  const bool whole = Whole(job, worker, commit);
  LeavesDone done;
  done.job = job.id;
  uint32_t attempt = 0;
  for (const LeafRun& run : commit.runs) {
    attempt = std::max(attempt, TakeRun(turn, job, worker, run, &done.leaves));
  }
  if (done.leaves.empty()) {
    ++turn.state.counters.stale_commits;
    return;
  }
  const uint64_t tasks = TasksIn(job, done.leaves);
  const LeafIntervals all = done.leaves;
  LeafIntervals retried;
  if (whole && !commit.failures.empty()) {
    SortFailures(turn, job, commit.failures, &done, &retried);
  }
  if (!whole || !retried.empty() || commit.tasks + done.tasks_failed != tasks) {
    // Nothing of it can be kept: the value counts leaves that are not this worker's any more, or
    // tasks that are to run again, or not the tasks that it says.
    ++turn.state.counters.voided_commits;
    VoidPartial(turn, job, all, retried, attempt);
    return;
  }
  done.covered = done.leaves;
  done.outputs = commit.outputs;
  done.busy_ns = commit.busy_ns;
  done.partial_id = job.partials.next_id();
  done.partial_tasks = commit.tasks;
  NoteProgress(job);
  LearnFromCommit(turn, worker, job, tasks, commit.busy_ns);
  turn.Record(std::move(done));
}

// Runs ascend; where their outputs lie one behind the other, they adjoin.
bool Sound(const Job& job, const Commit& commit) {
  if (commit.runs.empty()) return false;
  const bool adjoin = job.reduction == ReductionKind::kNone;
  uint64_t end = 0;
  for (const LeafRun& run : commit.runs) {
    if (adjoin && end != 0 && run.leaves.first != end) return false;
    const uint64_t leaf_count = job.tree().leaf_count();
    if (run.leaves.count == 0 || run.leaves.first < end || run.leaves.first >= leaf_count ||
        run.leaves.count > leaf_count - run.leaves.first) {
      return false;
    }
    end = run.leaves.first + run.leaves.count;
  }
  return true;
}

void OnCommit(Turn& turn, Worker& worker, const Commit& commit) {
  Job* job = turn.state.FindActive(commit.job);
  if (job == nullptr) {
    ++turn.state.counters.stale_commits;
    return;
  }
  if (!Sound(*job, commit)) {
    ++turn.state.counters.malformed;
    return;
  }
  ++turn.state.counters.commits;
  if (job->reduction == ReductionKind::kNone) {
    CommitRuns(turn, *job, worker, commit);
  } else {
    CommitPartial(turn, *job, worker, commit);
  }
  if (const auto at = worker.jobs.find(job->id); at != worker.jobs.end()) {
    at->second.spurned = 0;
    at->second.faults = 0;
    at->second.heard_at = turn.now;
  }
  turn.MarkDirty(*job);
  AfterProgress(turn, *job);
}

// A worker that gives back unasked what it is given must not be given it again at once.
void Spurn(Turn& turn, const Worker& worker, JobAtWorker& at) {
  if (worker.draining || turn.now - at.recalled_at < turn.state.options.lease_ttl) return;
  constexpr uint32_t kDoublings = 8;
  const absl::Duration pause =
      turn.state.options.recall_quiet * (1 << std::min(at.spurned++, kDoublings));
  at.spurned_until = turn.now + pause;
  turn.state.look_at = std::min(turn.state.look_at, at.spurned_until);
}

void OnReturn(Turn& turn, Worker& worker, const Return& returned) {
  Job* job = turn.state.FindActive(returned.job);
  LeafIntervals taken;
  if (job != nullptr) TakeRun(turn, *job, worker, returned.run, &taken);
  if (taken.empty()) {
    ++turn.state.counters.stale_returns;
    return;
  }
  if (returned.gpu_need_bytes > 0) {
    for (const LeafInterval& leaves : taken) {
      if (job->ended()) return;
      OnTooLarge(turn, *job, RangeOf(leaves), returned.gpu_need_bytes, returned.gpu_budget_bytes);
    }
    return;
  }
  JobAtWorker& at = worker.jobs[job->id];
  Spurn(turn, worker, at);
  if (std::exchange(at.yields, false)) {
    at.spurned_until = turn.now + turn.state.options.recall_quiet;
    turn.schedule_all = true;
  }
  for (const LeafInterval& leaves : taken) FreeLeaves(turn, *job, RangeOf(leaves));
  turn.MarkDirty(*job);
}

void OnJobFault(Turn& turn, Worker& worker, const JobFault& fault) {
  Job* job = turn.state.FindActive(fault.job);
  if (job == nullptr) return;
  if (fault.fatal) return EndJob(turn, *job, JobState::kFailed, fault.reason);
  job->wait_note = fault.reason;
  turn.MarkDirty(*job);
  turn.schedule_all = true;
  JobAtWorker& at = worker.jobs[job->id];
  job->workers.insert(worker.id);
  if (at.unfit && turn.now < at.unfit_until) return;  // It has said so.
  const bool crashed = fault.reason.rfind(reason::kCrashLimit, 0) == 0;
  if (crashed && ++job->crash_faults >= job->crash_limit()) {
    return EndJob(turn, *job, JobState::kFailed,
                  StrCat(fault.reason, "; so it was ", job->crash_faults, " times"));
  }
  at.unfit = true;
  constexpr uint32_t kDoublings = 16;
  at.unfit_until = turn.now + std::min(turn.state.options.unfit_retry_max,
                                       turn.state.options.unfit_retry *
                                           (1 << std::min(at.faults++, kDoublings)));
  turn.state.look_at = std::min(turn.state.look_at, at.unfit_until);
}

void OnRate(Turn& turn, Worker& worker, const KernelRate& rate) {
  if (!(rate.tasks_per_second > 0)) return;
  for (auto& [index, at] : worker.kernels) {
    const KernelEntry& kernel = turn.state.kernels[index];
    if (kernel.name != rate.kernel && kernel.identity != rate.kernel) continue;
    auto known = std::find_if(
        at.reported.begin(), at.reported.end(),
        [&](const KernelAtWorker::OfDevice& of) { return of.device == rate.device_name; });
    if (known == at.reported.end()) {
      if (at.reported.size() >= kRatedDevicesMax) continue;
      known = at.reported.insert(at.reported.end(), {rate.device_name, 0});
    }
    known->tasks_per_second = rate.tasks_per_second;
    at.self_measured = false;
    double sum = 0;
    for (const KernelAtWorker::OfDevice& of : at.reported) sum += of.tasks_per_second;
    Learn(turn, worker, index, sum);
  }
}

// What it tells in the same report it has learned again.
void ForgetRates(Turn& turn, Worker& worker) {
  for (auto& [index, at] : worker.kernels) {
    at.reported.clear();
    if (!at.self_measured) Learn(turn, worker, index, 0);
  }
}

// Leaves that wait in an accumulator are held, but keep nobody busy. Grants that were under way
// when the worker counted are not among what it says.
void OnBacklog(Turn& turn, Worker& worker, const Backlog& backlog) {
  const auto found = worker.jobs.find(backlog.job);
  if (found == worker.jobs.end()) return;
  JobAtWorker& at = found->second;
  const absl::Duration since = turn.now - std::exchange(at.heard_at, turn.now);
  const uint64_t parked = at.parked;
  const uint64_t under_way = at.granted_leaves - std::min(at.granted_leaves, backlog.granted);
  const uint64_t busy = under_way + std::min(backlog.leaves, at.leaves);
  Park(worker, at, at.leaves > busy ? at.leaves - busy : 0);
  Job* job = turn.state.FindActive(backlog.job);
  if (job == nullptr || at.parked <= parked || since <= absl::ZeroDuration()) return;
  // Long before the first commit of a reduction its leaves say how long they take: no longer than
  // since it was last heard of them.
  const double tasks =
      static_cast<double>(at.parked - parked) * static_cast<double>(job->tree().grain());
  LearnOfJob(turn, worker, *job, std::max(absl::ToDoubleSeconds(since) / tasks, kTaskSecondsMin));
}

void Acknowledge(Turn& turn, const Worker& worker, uint64_t number) {
  auto& acks = turn.out.acks;
  if (!acks.empty() && acks.back().worker == worker.id) {
    acks.back().number = std::max(acks.back().number, number);
  } else {
    acks.push_back({worker.id, number});
  }
}

}  // namespace

void OnReported(Turn& turn, const WorkerReported& event) {
  Worker* worker = turn.state.FindWorker(event.worker);
  if (worker == nullptr || !worker->attached()) return;
  const Report& report = event.report;
  worker->deadline = turn.now + turn.state.options.lease_ttl;
  if (report.forgot != 0) ForgetRates(turn, *worker);
  for (const KernelRate& rate : report.rates) OnRate(turn, *worker, rate);
  for (const Commit& commit : report.commits) OnCommit(turn, *worker, commit);
  for (const MergeCommit& merge : report.merges) OnMerged(turn, *worker, merge);
  for (const Crash& crash : report.crashes) OnCrash(turn, *worker, crash);
  // What it says of its former life it says in one report.
  if (!report.crashes.empty() && report.crashes.back().run.n == kFormerLife) {
    worker->struck = worker->incarnation;
  }
  for (const Return& returned : report.returns) OnReturn(turn, *worker, returned);
  for (const JobFault& fault : report.job_faults) OnJobFault(turn, *worker, fault);
  for (const Backlog& backlog : report.backlogs) OnBacklog(turn, *worker, backlog);
  Acknowledge(turn, *worker, report.number);
  turn.Touch(*worker);
}

}  // namespace tandem::master
