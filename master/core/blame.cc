// Tasks that fail by themselves, and leaves that crash their executor.
//
// A task's own failure is data: the leaf runs again while the job has retries left, else the
// failure is recorded and the leaf is done. A crash gives strikes to what had started: to the task
// if the start page names it, else to its whole leaf, which from then on runs alone. As many
// strikes as the job's crash limit, and the task (or leaf) is given up: it fails with CRASH_LIMIT.
#include <algorithm>
#include <string>
#include <utility>

#include "common/base/reason.h"
#include "common/base/strings.h"
#include "master/core/reports.h"

namespace tandem::master {
namespace {

Retry RetryOf(const Job& job, uint64_t leaf) {
  const RetryTable::Found found = job.retries.Find(leaf, {leaf, leaf + 1});
  return found.retry == nullptr ? Retry{} : *found.retry;
}

bool GivenUp(const Job& job, const Retry& retry, uint64_t task) {
  const auto it = retry.tasks.find(task);
  return it != retry.tasks.end() && uint64_t{retry.strikes} + it->second >= job.crash_limit();
}

LeavesRetried RecordOf(const Job& job, LeafRange leaf, const Retry& retry) {
  return {.job = job.id,
          .leaves = IntervalOf(leaf),
          .attempt = retry.attempt,
          .failures = retry.failures,
          .strikes = retry.strikes,
          .suspect = retry.suspect};
}

// Removes one leaf from ascending intervals.
void RemoveLeaf(uint64_t leaf, LeafIntervals* intervals) {
  LeafIntervals rest;
  for (const LeafInterval& interval : *intervals) {
    const uint64_t end = interval.first + interval.count;
    if (leaf < interval.first || leaf >= end) {
      rest.push_back(interval);
      continue;
    }
    if (interval.first < leaf) rest.push_back({interval.first, leaf - interval.first});
    if (leaf + 1 < end) rest.push_back({leaf + 1, end - leaf - 1});
  }
  *intervals = std::move(rest);
}

bool Has(const LeafIntervals& intervals, uint64_t leaf) {
  return std::any_of(intervals.begin(), intervals.end(), [&](const LeafInterval& i) {
    return i.first <= leaf && leaf - i.first < i.count;
  });
}

// The leaves end without having run to their end: all their tasks fail.
void GiveUp(Turn& turn, Job& job, LeafRange leaves, uint32_t attempt, std::string_view signal) {
  const auto give_up = [&](LeafRange part) {
    const TaskRange tasks = job.tree().Tasks(part);
    LeavesDone done;
    done.job = job.id;
    done.leaves.push_back(IntervalOf(part));
    done.tasks_failed = tasks.size();
    const uint64_t listed = std::min(tasks.size(), turn.state.options.limits.failures_listed_max);
    for (uint64_t i = 0; i < listed; ++i) {
      done.failures.push_back({.task = tasks.begin + i,
                               .attempt = attempt,
                               .reason = StrCat(reason::kCrashLimit, ": its executor was lost ",
                                                job.crash_limit(), " times, last by ", signal)});
    }
    // An ordered reduction needs a partial of every leaf: this one has no value.
    if (job.reduction == ReductionKind::kOrdered) done.partial_id = job.partials.next_id();
    turn.Record(std::move(done));
  };
  if (job.reduction == ReductionKind::kOrdered) {
    job.tree().ForEachNode(leaves, [&](Node node) { give_up(job.tree().Leaves(node)); });
  } else {
    give_up(leaves);
  }
}

// A strike for leaves with equal attributes that had started and not finished; for one task of a
// single leaf if that is known.
void Strike(Turn& turn, Job& job, LeafRange leaves, Retry retry, uint32_t attempt,
            const Crash& crash) {
  const TaskRange tasks = job.tree().Tasks(leaves);
  retry.attempt = std::max(retry.attempt, attempt) + 1;
  retry.suspect = true;
  LeavesRetried record = RecordOf(job, leaves, retry);
  const bool named = leaves.size() == 1 && (crash.task_known || tasks.size() == 1);
  if (named) {
    record.task_known = true;
    record.task = tasks.size() == 1 ? tasks.begin : crash.task;
    record.task_strikes = ++retry.tasks[record.task];
  } else {
    record.strikes = ++retry.strikes;
  }
  turn.state.counters.strikes += leaves.size();
  job.retried_tasks += tasks.size();
  turn.Record(std::move(record));
  if (retry.strikes >= job.crash_limit() || GivenUpTasks(job, retry).size() == tasks.size()) {
    GiveUp(turn, job, leaves, retry.attempt, crash.signal);
  } else {
    FreeLeaves(turn, job, leaves);
  }
}

// What a crash means for leaves that were held: those around a known task are free of blame.
void Blame(Turn& turn, Job& job, LeafRange leaves, uint32_t attempt, const Crash& crash) {
  const auto strike = [&](LeafRange part) {
    while (!part.empty()) {
      const RetryTable::Found found = job.retries.Find(part.begin, part);
      Strike(turn, job, found.leaves, found.retry == nullptr ? Retry{} : *found.retry, attempt,
             crash);
      part.begin = found.leaves.end;
    }
  };
  if (!crash.task_known) return strike(leaves);
  const uint64_t leaf = job.tree().LeafOfTask(crash.task);
  if (leaf < leaves.begin || leaf >= leaves.end) return strike(leaves);
  RequeueAfterLoss(turn, job, {leaves.begin, leaf}, attempt);
  strike({leaf, leaf + 1});
  RequeueAfterLoss(turn, job, {leaf + 1, leaves.end}, attempt);
}

}  // namespace

void SortFailures(Turn& turn, const Job& job, const std::vector<TaskFailure>& failures,
                  LeavesDone* done, LeafIntervals* retried) {
  uint64_t last_task = 0;
  for (const TaskFailure& failure : failures) {
    if (failure.task >= job.tree().task_count()) continue;
    // In order of tasks, so that one that is named twice counts once.
    if (&failure != failures.data() && failure.task <= last_task) continue;
    last_task = failure.task;
    const uint64_t leaf = job.tree().LeafOfTask(failure.task);
    if (!Has(done->leaves, leaf)) continue;  // Late, or to run again already.
    const Retry retry = RetryOf(job, leaf);
    if (retry.failures < job.spec().retries && !GivenUp(job, retry, failure.task)) {
      RemoveLeaf(leaf, &done->leaves);
      retried->push_back({leaf, 1});
      // What was noted of the leaf's other tasks goes with it.
      while (!done->failures.empty() && job.tree().LeafOfTask(done->failures.back().task) == leaf) {
        done->failures.pop_back();
        --done->tasks_failed;
      }
      continue;
    }
    ++done->tasks_failed;
    if (done->failures.size() < turn.state.options.limits.failures_listed_max) {
      done->failures.push_back(failure);
    }
  }
}

void RetryAfterFailure(Turn& turn, Job& job, LeafRange leaf, uint32_t attempt) {
  Retry retry = RetryOf(job, leaf.begin);
  retry.attempt = std::max(retry.attempt, attempt) + 1;
  ++retry.failures;
  // Where outputs are reduced, it runs alone: its next failure shall spoil no other leaf's partial.
  retry.suspect = retry.suspect || job.reduction != ReductionKind::kNone;
  turn.Record(RecordOf(job, leaf, retry));
  job.retried_tasks += job.tree().Tasks(leaf).size();
  FreeLeaves(turn, job, leaf);
}

void VoidPartial(Turn& turn, Job& job, const LeafIntervals& all, const LeafIntervals& retried,
                 uint32_t attempt) {
  LeafIntervals others = all;
  for (const LeafInterval& leaf : retried) {
    RemoveLeaf(leaf.first, &others);
    RetryAfterFailure(turn, job, RangeOf(leaf), attempt);
  }
  for (const LeafInterval& leaves : others) RequeueAfterLoss(turn, job, RangeOf(leaves), attempt);
}

void OnCrash(Turn& turn, Worker& worker, const Crash& crash) {
  Job* job = turn.state.FindActive(crash.job);
  std::vector<std::pair<LeafRange, uint32_t>> taken;
  if (job != nullptr) {
    job->leases.Take(worker.id, crash.run,
                     [&](LeafRange leaves, const LeaseRun& of, int64_t ended) {
                       ReleaseLease(turn, *job, worker, leaves.size(), ended, of.suspect);
                       taken.emplace_back(leaves, of.attempt);
                     });
  }
  if (taken.empty()) {
    ++turn.state.counters.stale_crashes;
    return;
  }
  for (const auto& [leaves, attempt] : taken) Blame(turn, *job, leaves, attempt, crash);
  turn.MarkDirty(*job);
  AfterProgress(turn, *job);
}

}  // namespace tandem::master
