// Reductions: when a job has partials to merge, who merges them, and what comes of it.
//
// Merging is work for executors. While a job runs, a merge is asked for when as many partials as
// one takes have piled up, so that the core's memory stays bounded; when every leaf is done, until
// one partial is left: the result. A job without tasks (or without any value) asks for a merge of
// nothing, which makes the identity.
#include "master/core/merging.h"

#include <utility>

#include "common/base/reason.h"
#include "common/base/strings.h"
#include "common/model/job_order.h"
#include "master/core/recall.h"
#include "master/core/reports.h"

namespace tandem::master {
namespace {

// A partial of leaves that were given up has none.
bool HasValue(const OutputsHandle& outputs) { return outputs != nullptr && !outputs->empty(); }

LeafInterval NodeFor(const Job& job, const std::vector<uint64_t>& inputs) {
  return inputs.empty() ? IntervalOf(job.tree().leaves()) : job.partials.NodeOf(inputs);
}

// Replaces partials by one.
void Replace(Turn& turn, Job& job, std::vector<uint64_t> inputs, OutputsHandle outputs,
             uint64_t tasks, uint64_t failed) {
  PartialsMerged merged;
  merged.job = job.id;
  merged.result = {.id = job.partials.next_id(),
                   .leaves = {},
                   .outputs = std::move(outputs),
                   .tasks = tasks,
                   .failed = failed};
  if (job.reduction == ReductionKind::kOrdered) merged.result.leaves = {NodeFor(job, inputs)};
  merged.consumed = std::move(inputs);
  turn.Record(std::move(merged));
}

struct PartialSum {
  uint64_t tasks = 0;
  uint64_t failed = 0;
  std::vector<uint64_t> with_value;
};
PartialSum SumOf(const Job& job, const std::vector<uint64_t>& inputs) {
  PartialSum sum;
  for (uint64_t id : inputs) {
    const Partial& partial = job.partials.Get(id);
    sum.tasks += partial.tasks;
    sum.failed += partial.failed;
    if (HasValue(partial.outputs)) sum.with_value.push_back(id);
  }
  return sum;
}

// The whole job's only partial without a value, or none at all: the identity is wanted.
bool WantsIdentity(const Job& job, std::vector<uint64_t>* inputs) {
  if (!job.all_done() || !job.merges.empty() || job.partials.size() > 1) return false;
  job.partials.ForEach([&](const Partial& partial) {
    if (!HasValue(partial.outputs)) inputs->push_back(partial.id);
  });
  return job.partials.size() == inputs->size();
}

// Merges that need no executor: of one value with parts that have none. True if there is one. (To a
// kernel's own merge every task adds something, also one that was given up.)
bool MergeWithoutWork(Turn& turn, Job& job, const std::vector<uint64_t>& inputs) {
  const PartialSum sum = SumOf(job, inputs);
  if (sum.with_value.size() > (OwnMerge(*job.bound) ? 0u : 1u)) return false;
  OutputsHandle outputs;
  if (!sum.with_value.empty()) outputs = job.partials.Get(sum.with_value.front()).outputs;
  Replace(turn, job, inputs, std::move(outputs), sum.tasks, sum.failed);
  return true;
}

void SendMerge(Turn& turn, Job& job, Worker& worker, std::vector<uint64_t> inputs) {
  MergeGrant grant;
  grant.job = job.id;
  grant.n = turn.state.next_n++;
  // Where the order counts, leaves without a value are named too.
  const bool ordered = job.reduction == ReductionKind::kOrdered;
  for (uint64_t id : ordered ? inputs : SumOf(job, inputs).with_value) {
    grant.inputs.push_back(job.partials.Get(id));
  }
  for (uint64_t id : inputs) job.partials.SetMerging(id, true);
  Describe(turn, job, worker);
  job.merges[grant.n] = {worker.id, std::move(inputs)};
  ++worker.merges;
  ++turn.state.counters.merges;
  turn.out.to_workers.push_back({worker.id, std::move(grant)});
}

void MergeFailed(Turn& turn, Job& job, const std::string& why) {
  if (++job.merge_failures >= turn.state.options.merge_attempts_max) {
    EndJob(turn, job, JobState::kFailed,
           StrCat(reason::kTaskFailed, ": merging its partials failed ", job.merge_failures,
                  " times, last: ", why));
    return;
  }
  turn.state.merge_ready.insert(job.id);
  turn.schedule_all = true;
}

}  // namespace

bool GrantMerge(Turn& turn, Job& job, Worker& worker) {
  for (;;) {
    std::vector<uint64_t> inputs;
    if (!WantsIdentity(job, &inputs)) {
      inputs =
          job.partials.PlanMerge(job.tree(), job.all_done(), turn.state.options.merge_inputs_max);
      if (inputs.empty()) {
        turn.state.merge_ready.erase(job.id);
        return false;
      }
      if (MergeWithoutWork(turn, job, inputs)) {
        AfterProgress(turn, job);
        if (job.ended()) return false;
        continue;
      }
    }
    SendMerge(turn, job, worker, std::move(inputs));
    return true;
  }
}

void OnMerged(Turn& turn, Worker& worker, const MergeCommit& merge) {
  Job* job = turn.state.FindActive(merge.job);
  const auto it =
      job == nullptr ? std::map<uint64_t, MergeLease>::iterator() : job->merges.find(merge.n);
  if (job == nullptr || it == job->merges.end() || it->second.worker != worker.id) {
    ++turn.state.counters.stale_commits;
    return;
  }
  std::vector<uint64_t> inputs = std::move(it->second.inputs);
  job->merges.erase(it);
  --worker.merges;
  for (uint64_t id : inputs) job->partials.SetMerging(id, false);
  const PartialSum sum = SumOf(*job, inputs);
  turn.MarkDirty(*job);
  if (!merge.error.empty()) return MergeFailed(turn, *job, merge.error);
  if (!HasValue(merge.outputs) || merge.tasks != sum.tasks) {
    return MergeFailed(turn, *job,
                       StrCat("the merge counts ", merge.tasks, " tasks, its inputs ", sum.tasks));
  }
  Replace(turn, *job, std::move(inputs), merge.outputs, sum.tasks, sum.failed);
  AfterProgress(turn, *job);
}

void AfterProgress(Turn& turn, Job& job) {
  if (job.ended()) return;
  const JobSpec& spec = job.spec();
  if (spec.max_task_failures.has_value() && job.tasks_failed > *spec.max_task_failures) {
    return EndJob(turn, job, JobState::kFailed,
                  StrCat(reason::kTaskFailed, ": ", job.tasks_failed,
                         " tasks failed, more than max_task_failures = ", *spec.max_task_failures,
                         " allows"));
  }
  if (!spec.allow_failed && job.given_up_in_row >= turn.state.options.given_up_in_row_max) {
    return EndJob(turn, job, JobState::kFailed,
                  StrCat(reason::kCrashLimit, ": ", job.given_up_in_row,
                         " leaves in a row were given up, each after losing ", job.crash_limit(),
                         " executors, and none was finished between them"));
  }
  RefreshTail(turn.state, job);
  if (!job.all_done()) {
    if (!job.partials.MayMerge(false, turn.state.options.merge_inputs_max)) return;
  } else {
    if (job.tasks_failed > 0 && !spec.allow_failed) {
      return EndJob(turn, job, JobState::kFailed,
                    StrCat(reason::kTaskFailed, ": ", job.tasks_failed, " of ",
                           job.tree().task_count(), " tasks failed"));
    }
    if (job.reduction == ReductionKind::kNone) {
      return EndJob(turn, job, JobState::kSucceeded, "");
    }
    std::vector<uint64_t> inputs;
    if (job.partials.size() == 1 && job.merges.empty() && !WantsIdentity(job, &inputs)) {
      return EndJob(turn, job, JobState::kSucceeded, "");
    }
    if (!std::holds_alternative<Merging>(job.phase)) Move(&job.phase, Merging{});
  }
  turn.MarkDirty(job);
  if (turn.state.merge_ready.insert(job.id).second) turn.schedule_all = true;
}

}  // namespace tandem::master
