// Tasks that fail by themselves, and leaves that crash their executor.
//
// A task's own failure is data: the leaf runs again while the job has retries left, else the
// failure is recorded and the leaf is done. A crash gives strikes to what had started: to the task
// if the start page names it, else to the leaves, which are suspects from then on (suspects.h). As
// many strikes as the job's crash limit, and the task (or leaf) is given up: it fails with
// CRASH_LIMIT. Of what happens in company the first strike counts, and nobody is given up for it:
// with each further loss only the company gets smaller.
//
// What ran longer than the job's time limit was ended by its worker. A task that is known is given
// up at once, with TIME_LIMIT; leaves run again as suspects, without a strike, so that it becomes
// known.
#include <algorithm>
#include <string>
#include <utility>

#include "common/base/reason.h"
#include "common/base/strings.h"
#include "common/model/former_life.h"
#include "master/core/reports.h"
#include "master/core/suspects.h"

namespace tandem::master {
namespace {

Retry RetryOf(const Job& job, uint64_t leaf) {
  const RetryTable::Found found = job.retries.Find(leaf, {leaf, leaf + 1});
  return found.retry == nullptr ? Retry{} : *found.retry;
}

// As strikes of a task: it ran longer than the job's time limit.
constexpr uint32_t kOverdue = uint32_t{1} << 30;

bool Overdue(const Crash& crash) { return crash.signal == reason::kTimeLimit; }

std::string OverdueText(const Job& job) {
  return StrCat(reason::kTimeLimit, ": it ran longer than the job's time limit of ",
                HumanDuration(job.spec().time_limit));
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
          .suspect = retry.suspect,
          .level = retry.level};
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

// Why a task is given up.
std::string GivenUpText(const Job& job, const Retry& retry, uint64_t task, const Crash& crash) {
  const auto it = retry.tasks.find(task);
  const bool overdue = it != retry.tasks.end() ? it->second >= kOverdue : Overdue(crash);
  if (overdue) return OverdueText(job);
  return StrCat(reason::kCrashLimit, ": its executor was lost ", job.crash_limit(),
                " times, last by ", crash.signal);
}

void GiveUp(Turn& turn, Job& job, LeafRange leaves, const Retry& retry, const Crash& crash) {
  job.given_up_in_row += leaves.size();
  FailLeaves(turn, job, leaves, retry.attempt,
             [&](uint64_t task) { return GivenUpText(job, retry, task, crash); });
}

}  // namespace

void FailLeaves(Turn& turn, Job& job, LeafRange leaves, uint32_t attempt,
                absl::FunctionRef<std::string(uint64_t task)> why) {
  const auto give_up = [&](LeafRange part) {
    const TaskRange tasks = job.tree().Tasks(part);
    LeavesDone done;
    done.job = job.id;
    done.leaves.push_back(IntervalOf(part));
    done.tasks_failed = tasks.size();
    const uint64_t listed = std::min(tasks.size(), turn.state.options.limits.failures_listed_max);
    for (uint64_t i = 0; i < listed; ++i) {
      const uint64_t task = tasks.begin + i;
      done.failures.push_back({.task = task, .attempt = attempt, .reason = why(task)});
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

namespace {

// Notes a strike for leaves with equal attributes; for one task of a single leaf if that is known.
// True: they are to be given up.
bool CountStrike(Turn& turn, Job& job, LeafRange leaves, Retry* retry, const Crash& crash) {
  const TaskRange tasks = job.tree().Tasks(leaves);
  const uint64_t suspected = std::max(crash.suspected_leaves, crash.run.leaves.count);
  const bool one = leaves.size() == 1;
  const bool was_alone = one && retry->suspect && retry->level == 0;
  const bool company = !one || (suspected > 1 && !was_alone && !crash.task_known);
  retry->level = LevelAfterLoss(*retry, company ? suspected : 1, Overdue(crash));
  retry->suspect = true;
  const bool named = !company && (crash.task_known || tasks.size() == 1);
  const bool counts =
      company ? retry->strikes == 0 && !Overdue(crash) : was_alone || !Overdue(crash);
  if (!named && counts) ++retry->strikes;
  LeavesRetried record = RecordOf(job, leaves, *retry);
  if (named) {
    record.task_known = true;
    record.task = tasks.size() == 1 ? tasks.begin : crash.task;
    uint32_t& strikes = retry->tasks[record.task];
    strikes = Overdue(crash) ? kOverdue : strikes + 1;
    record.task_strikes = strikes;
  }
  if (named || counts) turn.state.counters.strikes += leaves.size();
  turn.Record(std::move(record));
  if (company) return false;
  return (was_alone && !named && retry->strikes >= job.crash_limit()) ||
         GivenUpTasks(job, *retry).size() == tasks.size();
}

// Leaves with equal attributes had started and not finished.
void Strike(Turn& turn, Job& job, LeafRange leaves, Retry retry, uint32_t attempt,
            const Crash& crash) {
  retry.attempt = std::max(retry.attempt, attempt) + 1;
  job.retried_tasks += job.tree().Tasks(leaves).size();
  if (CountStrike(turn, job, leaves, &retry, crash)) {
    GiveUp(turn, job, leaves, retry, crash);
  } else {
    FreeLeaves(turn, job, leaves);
  }
}

// What a crash means for leaves that were held: those around a known task are free of blame.
void Blame(Turn& turn, Job& job, LeafRange leaves, uint32_t attempt, Crash crash) {
  const auto strike = [&](LeafRange part) {
    while (!part.empty()) {
      const RetryTable::Found found = job.retries.Find(part.begin, part);
      Strike(turn, job, found.leaves, found.retry == nullptr ? Retry{} : *found.retry, attempt,
             crash);
      part.begin = found.leaves.end;
    }
  };
  const uint64_t leaf = job.tree().LeafOfTask(crash.task);
  crash.task_known &= leaves.begin <= leaf && leaf < leaves.end;
  if (!crash.task_known) return strike(leaves);
  RequeueAfterLoss(turn, job, {leaves.begin, leaf}, attempt);
  strike({leaf, leaf + 1});
  RequeueAfterLoss(turn, job, {leaf + 1, leaves.end}, attempt);
}

// Leaves that were running when a former life of the worker ended. They may be with another worker
// by now, or done. Where they are free they run alone from now on.
void OnFormerLife(Turn& turn, Job& job, Worker& worker, Crash crash) {
  const uint64_t leaf_count = job.tree().leaf_count();
  const LeafInterval& said = crash.run.leaves;
  if (said.first >= leaf_count) return;
  const LeafRange all{said.first, said.first + std::min(said.count, leaf_count - said.first)};
  crash.task_known = crash.task_known && all.size() == 1 && crash.task < job.tree().task_count() &&
                     job.tree().LeafOfTask(crash.task) == all.begin;
  // What the worker was given before it could say so comes back: it must not run as before.
  std::vector<LeafRange> given;
  job.leases.TakeIf(
      all, [&](const LeaseRun& run) { return run.worker == worker.id; },
      [&](LeafRange leaves, const LeaseRun& run, int64_t ended) {
        ReleaseLease(turn, job, worker, leaves.size(), ended, run.suspect);
        given.push_back(leaves);
      });
  for (LeafRange leaves : given) {
    turn.out.to_workers.push_back({worker.id, Recall{job.id, IntervalOf(leaves)}});
    FreeLeaves(turn, job, leaves);
  }
  for (LeafRange part : LeafSet::Difference(LeafSet(all), job.done)) {
    while (!part.empty()) {
      const RetryTable::Found found = job.retries.Find(part.begin, part);
      const LeafRange leaves = found.leaves;
      Retry retry = found.retry == nullptr ? Retry{} : *found.retry;
      LeafSet free = job.free.Within(leaves);
      free.AddAll(job.free_suspects.Within(leaves));
      const bool give_up = CountStrike(turn, job, leaves, &retry, crash);
      for (LeafRange here : free) {
        job.free.Remove(here);
        job.free_suspects.Remove(here);
        if (give_up) {
          GiveUp(turn, job, here, retry, crash);
        } else {
          FreeLeaves(turn, job, here);
        }
      }
      part.begin = leaves.end;
    }
  }
  RefreshReady(turn.state, job);
  turn.MarkDirty(job);
  AfterProgress(turn, job);
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
      const auto given_up = retry.tasks.find(failure.task);
      if (given_up != retry.tasks.end() && given_up->second >= kOverdue) {
        done->failures.back().reason = OverdueText(job);
      }
    }
  }
}

void RetryAfterFailure(Turn& turn, Job& job, LeafRange leaf, uint32_t attempt) {
  Retry retry = RetryOf(job, leaf.begin);
  retry.attempt = std::max(retry.attempt, attempt) + 1;
  ++retry.failures;
  // Where outputs are reduced, it runs alone: its next failure shall spoil no other leaf's partial.
  if (job.reduction != ReductionKind::kNone) {
    retry.suspect = true;
    retry.level = 0;
  }
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
  if (crash.run.n == kFormerLife) {
    if (job != nullptr && worker.struck != worker.incarnation)
      OnFormerLife(turn, *job, worker, crash);
    return;
  }
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
