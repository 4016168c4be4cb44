// Why a job waits: the first thing that is missing.
#include "master/core/turn.h"

namespace tandem::master {

WaitReason WhyWaiting(const State& state, const Job& job) {
  if (job.ended() || !state.MayRun(job) || !job.leases.empty() || !job.merges.empty())
    return WaitReason::kNone;
  const JobClass& job_class = state.classes[job.job_class];
  bool any = false, kernel = false, fits = false, fit = false, takes = false;
  for (const auto& [id, worker] : state.workers) {
    if (!worker->attached()) continue;
    any = true;
    kernel = kernel || worker->kernels.contains(job_class.kernel);
    if (!Fits(*worker, job_class)) continue;
    fits = true;
    const auto at = worker->jobs.find(job.id);
    if (at != worker->jobs.end() && at->second.unfit) continue;
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

void RefreshWaits(Turn& turn) {
  for (const auto& [id, job] : turn.state.jobs) {
    if (job->ended() || !job->leases.empty()) continue;
    if (WhyWaiting(turn.state, *job) != job->wait_reason) turn.MarkDirty(*job);
  }
}

}  // namespace tandem::master
