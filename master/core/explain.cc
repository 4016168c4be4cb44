// Why a worker gets what it gets: the unfinished jobs as it sees them, for people.
#include <algorithm>

#include "common/base/strings.h"
#include "master/core/core.h"
#include "master/core/turn.h"

namespace tandem::master {
namespace {

JobAtWorkerView Look(const State& state, const Job& job, const Worker& worker) {
  using Fit = JobAtWorkerView::Fit;
  JobAtWorkerView view;
  view.job = job.id;
  view.free_leaves = job.free.count() + job.free_suspects.count() + job.free_large.size();
  const auto at = worker.jobs.find(job.id);
  if (at != worker.jobs.end()) {
    view.leases = static_cast<uint64_t>(std::max<int64_t>(at->second.leases, 0));
    view.leaves = at->second.leaves;
  }
  const JobClass& job_class = state.classes[job.job_class];
  if (!worker.kernels.contains(job_class.kernel)) {
    view.fit = Fit::kNoKernel;
    view.note = StrCat("it does not have kernel ", state.kernels[job_class.kernel].identity);
  } else if (!Fits(worker, job_class)) {
    view.fit = Fit::kNoDevice;
    view.note = StrCat("the job is for a ", job_class.device == DeviceChoice::kGpu ? "GPU" : "CPU",
                       ", and it has none");
  } else if (!HasMemory(worker, job)) {
    view.fit = Fit::kNoDevice;
    view.note = StrCat("the job is to have ", HumanSize(job.spec().resources.gpu_memory_bytes),
                       " of a device's memory, and its largest budget is ",
                       HumanSize(worker.gpu_budget_bytes));
  } else if (at != worker.jobs.end() && at->second.unfit) {
    view.fit = Fit::kRefused;
    view.note = StrCat("it said that it cannot run the job: ", job.wait_note);
  } else if (worker.draining) {
    view.note = "nothing: it is drained";
  } else if (!worker.attached()) {
    view.note = "nothing: it is not attached";
  } else {
    view.note = ExplainGrant(state.options.policy, ViewOf(state, job, worker));
  }
  return view;
}

}  // namespace

std::string MasterCore::Explain(JobId job_id, WorkerId worker_id) const {
  const auto job = state_.jobs.find(job_id);
  const auto worker = state_.workers.find(worker_id);
  if (job == state_.jobs.end() || worker == state_.workers.end()) return "";
  return ExplainGrant(state_.options.policy, ViewOf(state_, *job->second, *worker->second));
}

std::vector<JobAtWorkerView> MasterCore::JobsAt(WorkerId worker_id, size_t count) const {
  const auto worker = state_.workers.find(worker_id);
  if (worker == state_.workers.end()) return {};
  std::vector<const Job*> jobs;
  for (const auto& [id, job] : state_.jobs) {
    if (!job->ended()) jobs.push_back(job.get());
  }
  const auto rank = [](const Job* job) {
    return JobRank{job->spec().priority, job->served_seconds(), job->id.value()};
  };
  const auto better = [&](const Job* a, const Job* b) { return rank(a) < rank(b); };
  count = std::min(count, jobs.size());
  const auto end = jobs.begin() + static_cast<std::ptrdiff_t>(count);
  std::partial_sort(jobs.begin(), end, jobs.end(), better);
  std::vector<JobAtWorkerView> views;
  for (auto it = jobs.begin(); it != end; ++it) {
    views.push_back(Look(state_, **it, *worker->second));
  }
  return views;
}

}  // namespace tandem::master
