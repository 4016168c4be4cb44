// How devices share out leases, as people are told: a bounded part of the grants is followed until
// they end. Of all others this costs a look at two counts.
#include <string>
#include <vector>

#include "worker/core/worker_core.h"

namespace tandem::worker {
namespace {

// What a device is bound by, as KernelRate says it; the CPU by itself, unless by host stages.
std::string BoundBy(DeviceKind kind, const BatchSeconds& stages) {
  if (!(stages.Alone() > 0)) return "";
  const Stage stage = stages.Binds();
  if (kind == DeviceKind::kCpu && stage != Stage::kHost) return "cpu";
  return std::string(StageName(stage));
}

LeaseShare ToShare(const WorkerDevice& device, const LeaseSplits::Share& share, MonoTime since) {
  return {.device = device.kind,
          .device_name = device.name,
          .tasks = share.tasks,
          .pieces = share.pieces,
          .begin = share.begin - since,
          .end = share.end - since,
          .host = absl::Seconds(share.stages.host),
          .up = absl::Seconds(share.stages.up),
          .grid = absl::Seconds(share.stages.grid),
          .down = absl::Seconds(share.stages.down),
          .bound_by = BoundBy(device.kind, share.stages)};
}

}  // namespace

// A single leaf cannot be shared: it is followed while few others are.
bool WorkerCore::MayNote(JobState* job, const LeaseRun& run) {
  if (run.count() == 0 || !job->splits.has_room()) return false;
  const NoteLimits& limits = options_.notes;
  const double least = run.count() > 1 ? 1 : limits.worker.burst / 2;
  if (!job->notes.Has(limits.job, 1, last_step_)) return false;
  if (!notes_.Has(limits.worker, least, last_step_)) return false;
  job->notes.Take();
  notes_.Take();
  return true;
}

void WorkerCore::NoteFinished(JobState* job, const LeaseRun& run, const LeaseSplits::Share& piece) {
  if (const auto range = job->splits.Finished(run, piece)) TellSplit(job, *range);
}

void WorkerCore::NoteLeft(JobId id, const std::vector<LeaseRun>& runs) {
  JobState* job = FindJob(id);
  if (job == nullptr) return;
  for (const LeaseRun& run : runs) {
    if (const auto range = job->splits.Left(run)) TellSplit(job, *range);
  }
}

void WorkerCore::TellSplit(JobState* job, const LeaseSplits::Range& range) {
  LeaseSplit& split = splits_.emplace_back();
  split.job = job->info.job;
  split.lease = range.first.n;
  split.leases = range.leases;
  split.granted = job->tree.Tasks(range.granted);
  for (const LeafRange& kept : range.Kept()) split.kept.push_back(job->tree.Tasks(kept));
  for (const LeaseSplits::Share& share : range.shares) {
    split.shares.push_back(ToShare(devices_[share.device], share, range.at));
  }
}

}  // namespace tandem::worker
