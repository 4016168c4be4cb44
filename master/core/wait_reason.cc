// Why a job waits: the first thing that is missing; and jobs that are not to wait for it.
#include <string>
#include <variant>
#include <vector>

#include "common/base/reason.h"
#include "common/base/strings.h"
#include "master/core/large_leaves.h"
#include "master/core/turn.h"

namespace tandem::master {
namespace {

// Has the worker room for anything of it that is free?
bool HoldsSome(const Worker& worker, const Job& job) {
  return !job.free.empty() || !job.free_suspects.empty() || job.free_large.empty() ||
         HasLarge(job, worker);
}

std::string NoGpuText(const State& state, const Job& job) {
  const Worker* largest = nullptr;
  for (const auto& [id, worker] : state.workers) {
    if (!worker->attached() || !Fits(*worker, state.classes[job.job_class])) continue;
    if (largest == nullptr || worker->gpu_budget_bytes > largest->gpu_budget_bytes) {
      largest = worker.get();
    }
  }
  if (largest == nullptr) {
    return StrCat(reason::kNoGpu,
                  ": the job is for a GPU, and no attached worker with its kernel has one");
  }
  return StrCat(reason::kNoGpu, ": the job is to have ",
                HumanSize(job.spec().resources.gpu_memory_bytes),
                " of a device's memory (--gpu-memory), and the largest budget of an attached "
                "worker is ",
                HumanSize(largest->gpu_budget_bytes), ", of ", largest->name);
}

// Why the job fails that is not to wait; "": it waits for what will pass.
std::string WhyNever(const State& state, const Job& job) {
  switch (WhyWaiting(state, job)) {
    case WaitReason::kNoWorker:
      return StrCat(reason::kUnsatisfiable, ": no worker is attached");
    case WaitReason::kNoKernel:
      return StrCat(reason::kUnsatisfiable, ": no attached worker has kernel ",
                    job.bound->kernel_identity);
    case WaitReason::kResources:
    case WaitReason::kUnsatisfiable:
      break;
    default:
      return "";
  }
  std::string note = WaitNote(state, job, WhyWaiting(state, job));
  if (!note.empty()) return note;
  return StrCat(reason::kUnsatisfiable, ": no attached worker may run the job");
}

}  // namespace

WaitReason WhyWaiting(const State& state, const Job& job) {
  if (job.ended() || !state.MayRun(job) || !job.leases.empty() || !job.merges.empty())
    return WaitReason::kNone;
  const JobClass& job_class = state.classes[job.job_class];
  bool any = false, kernel = false, fits = false, fit = false, takes = false;
  for (const auto& [id, worker] : state.workers) {
    if (!worker->attached()) continue;
    any = true;
    kernel = kernel || worker->kernels.contains(job_class.kernel);
    if (!Fits(*worker, job_class) || !HasMemory(*worker, job)) continue;
    fits = true;
    const auto at = worker->jobs.find(job.id);
    if (at != worker->jobs.end() && at->second.unfit) continue;
    if (!HoldsSome(*worker, job)) continue;
    fit = true;
    takes = takes || worker->takes_work();
  }
  if (!any) return WaitReason::kNoWorker;
  if (!kernel) return WaitReason::kNoKernel;
  if (!fits) return WaitReason::kResources;
  if (!fit) return WaitReason::kUnsatisfiable;
  if (!takes) return WaitReason::kDrained;
  // There are workers for it; they are busy with what comes first.
  return WaitReason::kPriority;
}

std::string WaitNote(const State& state, const Job& job, WaitReason why) {
  const bool gpu = job.spec().device == DeviceChoice::kGpu;
  return why == WaitReason::kResources && gpu ? NoGpuText(state, job) : job.wait_note;
}

void RefreshWaits(Turn& turn) {
  for (const auto& [id, job] : turn.state.jobs) {
    if (job->ended() || !job->leases.empty()) continue;
    if (WhyWaiting(turn.state, *job) != job->wait_reason) turn.MarkDirty(*job);
  }
}

void FailUnsatisfiable(Turn& turn) {
  const State& state = turn.state;
  std::vector<Job*> asked;  // jobs for which it may be otherwise now
  const auto ask = [&asked](Job* job) {
    if (job != nullptr && job->spec().fail_unsatisfiable) asked.push_back(job);
  };
  for (const JobId id : state.dirty) ask(turn.state.FindActive(id));
  if (turn.workers_changed) {
    for (const auto& [id, job] : state.jobs) ask(job->ended() ? nullptr : job.get());
  }
  if (asked.empty()) return;
  for (const auto& [id, worker] : state.workers) {
    const bool away = std::holds_alternative<Expected>(worker->phase) ||
                      std::holds_alternative<Detached>(worker->phase);
    if (away) return;  // It may be the one.
  }
  for (Job* const job : asked) {
    if (job->ended()) continue;
    const std::string why = WhyNever(state, *job);
    if (why.empty()) continue;
    EndJob(turn, *job, JobState::kFailed,
           StrCat(why, "; it was not to wait (--fail-unsatisfiable)"));
  }
}

}  // namespace tandem::master
