#include "master/core/large_leaves.h"

#include <algorithm>
#include <limits>
#include <string>
#include <variant>

#include "common/base/reason.h"
#include "common/base/strings.h"
#include "master/core/reports.h"

namespace tandem::master {
namespace {

// The largest budget of a worker that may run the job now or later; what is not known yet is any.
uint64_t LargestBudget(const State& state, const Job& job) {
  uint64_t largest = 0;
  for (const auto& [id, worker] : state.workers) {
    if (std::holds_alternative<Lost>(worker->phase)) continue;
    if (std::holds_alternative<Expected>(worker->phase)) {
      return std::numeric_limits<uint64_t>::max();
    }
    if (!Fits(*worker, state.classes[job.job_class])) continue;
    largest = std::max(largest, worker->gpu_budget_bytes);
  }
  return largest;
}

void Fail(Turn& turn, Job& job, uint64_t leaf, uint64_t need, uint64_t budget) {
  const LeafRange leaves{leaf, leaf + 1};
  const Retry* retry = job.retries.Find(leaf, leaves).retry;
  const std::string why = StrCat(
      reason::kGpuOom, ": a leaf of ", job.tree().Tasks(leaves).size(), " tasks needs at least ",
      HumanSize(need), " of a device's memory, and the largest budget of those that may run it is ",
      HumanSize(budget), ": choose a smaller --grain, or --device auto");
  FailLeaves(turn, job, leaves, retry == nullptr ? 1 : retry->attempt,
             [&why](uint64_t) { return why; });
}

}  // namespace

void OnTooLarge(Turn& turn, Job& job, LeafRange leaves, uint64_t need, uint64_t budget) {
  const uint64_t largest = LargestBudget(turn.state, job);
  for (uint64_t leaf = leaves.begin; leaf < leaves.end && !job.ended(); ++leaf) {
    if (need <= largest) {
      job.free_large.insert({need, leaf});
      job.wait_note = StrCat(reason::kGpuOom, ": a leaf needs at least ", HumanSize(need),
                             " of a device's memory; a worker that has so much is not free");
    } else {
      Fail(turn, job, leaf, need, std::max(budget, largest));
    }
  }
  RefreshReady(turn.state, job);
  turn.schedule_all = true;
  turn.MarkDirty(job);
  AfterProgress(turn, job);
}

void FailWhatFitsNowhere(Turn& turn) {
  for (const auto& [id, job] : turn.state.jobs) {
    if (job->free_large.empty()) continue;
    const uint64_t largest = LargestBudget(turn.state, *job);
    bool failed = false;
    while (!job->free_large.empty() && job->free_large.rbegin()->first > largest) {
      const auto [need, leaf] = *job->free_large.rbegin();
      job->free_large.erase({need, leaf});
      Fail(turn, *job, leaf, need, largest);
      failed = true;
    }
    if (!failed) continue;
    RefreshReady(turn.state, *job);
    turn.MarkDirty(*job);
    AfterProgress(turn, *job);
  }
}

}  // namespace tandem::master
