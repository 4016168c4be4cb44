#include "master/core/state.h"

#include <algorithm>

#include "common/base/check.h"
#include "master/core/recall.h"

namespace tandem::master {

Job* State::FindJob(JobId id) {
  const auto it = jobs.find(id);
  return it == jobs.end() ? nullptr : it->second.get();
}

Job* State::FindActive(JobId id) {
  Job* job = FindJob(id);
  return job == nullptr || job->ended() ? nullptr : job;
}

Worker* State::FindWorker(WorkerId id) {
  const auto it = workers.find(id);
  return it == workers.end() ? nullptr : it->second.get();
}

size_t State::KernelOf(const std::string& identity, const std::string& name) {
  const auto [it, added] = kernel_index.try_emplace(identity, kernels.size());
  if (added) {
    kernels.emplace_back();
    kernels.back().identity = identity;
    kernels.back().name = name;
  }
  return it->second;
}

size_t State::ClassOf(size_t kernel, DeviceChoice device) {
  for (size_t i = 0; i < classes.size(); ++i) {
    if (classes[i].kernel == kernel && classes[i].device == device) return i;
  }
  classes.emplace_back();
  classes.back().kernel = kernel;
  classes.back().device = device;
  return classes.size() - 1;
}

void RefreshReady(State& state, Job& job) {
  auto& ready = state.classes[job.job_class].ready;
  const bool free = !job.ended() && job.anything_free();
  const bool wanted = free && state.MayRun(job) && !(job.recovered && state.recovering());
  RefreshTail(state, job);
  if (!job.free_suspects.empty()) {
    state.suspect_jobs.insert(job.id);
  } else if (!state.suspect_jobs.empty()) {
    state.suspect_jobs.erase(job.id);
  }
  if (job.ready && !wanted) {
    ready.erase(job.rank);
    job.ready = false;
    return;
  }
  if (!wanted) return;
  if (!job.ready) {
    // A job that was away does not claim the time it was away for.
    const double served = state.served[job.spec().priority];
    job.served_base += std::max(0.0, served - job.served_seconds());
  }
  const JobRank rank{job.spec().priority, job.served_seconds(), job.id.value()};
  if (job.ready && rank == job.rank) return;
  if (job.ready) ready.erase(job.rank);
  job.rank = rank;
  job.ready = true;
  ready.emplace(rank, &job);
}

bool Fits(const Worker& worker, const JobClass& job_class) {
  if (job_class.device == DeviceChoice::kCpu && !worker.has_cpu) return false;
  if (job_class.device == DeviceChoice::kGpu && !worker.has_gpu) return false;
  return worker.kernels.contains(job_class.kernel);
}

bool HasMemory(const Worker& worker, const Job& job) {
  const bool cpu = worker.has_cpu && job.spec().device != DeviceChoice::kGpu;
  return cpu || job.spec().resources.gpu_memory_bytes <= worker.gpu_budget_bytes;
}

namespace {

void CountKernel(KernelEntry& kernel, const KernelAtWorker& at, bool count) {
  count ? ++kernel.workers : --kernel.workers;
  if (at.tasks_per_second <= 0) return;
  count ? ++kernel.measured : --kernel.measured;
  kernel.tasks_per_second += count ? at.tasks_per_second : -at.tasks_per_second;
  if (kernel.measured == 0) kernel.tasks_per_second = 0;  // What rounding left.
}

}  // namespace

void CountKernels(State& state, Worker& worker, bool count) {
  for (const auto& [index, at] : worker.kernels) CountKernel(state.kernels[index], at, count);
}

void SetRate(State& state, Worker& worker, size_t kernel, double tasks_per_second) {
  KernelAtWorker& at = worker.kernels.at(kernel);
  if (worker.takes_work()) CountKernel(state.kernels[kernel], at, false);
  at.tasks_per_second = tasks_per_second;
  if (worker.takes_work()) CountKernel(state.kernels[kernel], at, true);
}

void ClearTimer(State& state, Worker& worker) {
  if (!worker.timer_set) return;
  state.timers.erase({worker.timer, worker.id});
  worker.timer_set = false;
}

void SetTimer(State& state, Worker& worker) {
  ClearTimer(state, worker);
  MonoTime at = worker.deadline;
  if (const auto* expected = std::get_if<Expected>(&worker.phase)) at = expected->until;
  if (const auto* detached = std::get_if<Detached>(&worker.phase)) at = detached->until;
  if (std::holds_alternative<Lost>(worker.phase)) return;
  worker.timer = at;
  worker.timer_set = true;
  state.timers.emplace(at, worker.id);
}

}  // namespace tandem::master
