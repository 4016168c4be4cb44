// Accumulators: an executor keeps one a job whose outputs are all reduced and exact, and hands it
// over as one partial, with exactly the pieces in it (docs/ARCHITECTURE.md).
#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "worker/core/worker_core.h"

namespace tandem::worker {

void WorkerCore::FlushWhatIsDue(MonoTime now, Effects* effects) {
  for (const auto& [id, device] : accumulating_) {
    JobState& job = jobs_.at(id);
    Accumulator& accumulator = job.on[device].accumulator;
    const bool idle = job.pool.empty() && job.in_flight == 0;
    if (!idle) {
      accumulator.idle_since = MonoTime::InfiniteFuture();
    } else if (accumulator.idle_since == MonoTime::InfiniteFuture()) {
      accumulator.idle_since = now;
    }
    if (FlushIsDue(job, device, now)) Flush(&job, device, effects);
  }
}

bool WorkerCore::FlushIsDue(const JobState& job, DeviceIndex device, MonoTime now) const {
  const Accumulator& accumulator = job.on[device].accumulator;
  if (accumulator.flushing || accumulator.empty()) return false;
  if (accumulator.tainted || job.fault.has_value() || draining_) return true;
  if (job.pool.empty() && job.in_flight == 0) {
    // Nothing is left to run; more may be on its way.
    return job.share_leaves < 1 || now - accumulator.idle_since >= Linger(job);
  }
  if (!job.owner->runnable.empty()) {
    const JobState& next = jobs_.at(job.owner->runnable.begin()->second);
    if (RunsAlone(next, EndAt(next, device))) return true;  // nothing shall be lost with it
  }
  return accumulator.work >=
         std::max(options_.flush.work_to_push * PushTime(job), options_.flush.work_min);
}

absl::Duration WorkerCore::PushTime(const JobState& job) const {
  return options_.flush.push_fixed + absl::Seconds(static_cast<double>(job.info.partial_bytes) /
                                                   options_.flush.push_bytes_per_second);
}

// Idle for as long as a push would take, in the hope that it is not needed: at most twice the best.
absl::Duration WorkerCore::Linger(const JobState& job) const {
  return std::max(options_.flush.linger, PushTime(job));
}

void WorkerCore::Flush(JobState* job, DeviceIndex device, Effects* effects) {
  job->on[device].accumulator.flushing = true;
  ++counters_.flushes;
  effects->to_executors.push_back(FlushJob{job->owner->executors[device].id, job->info.job});
}

void WorkerCore::On(PartialFinished event, MonoTime, Effects* effects) {
  JobState* job = FindJob(event.job);
  const auto from = executors_.find(event.executor);
  if (job == nullptr || from == executors_.end() || from->second->owner != job->owner) {
    outbox_.Discard(event.executor, event.outputs, effects);
    return;
  }
  const DeviceIndex device = from->second->device;
  Accumulator& accumulator = OnDevice(job, device).accumulator;
  accumulator.flushing = false;
  accumulator.tainted = false;
  std::sort(event.pieces.begin(), event.pieces.end());
  const bool whole =
      !event.pieces.empty() &&
      std::adjacent_find(event.pieces.begin(), event.pieces.end()) == event.pieces.end() &&
      std::all_of(event.pieces.begin(), event.pieces.end(),
                  [&](PieceId id) { return accumulator.pieces.contains(id); });
  if (!whole) {
    // It holds a piece whose leases are gone: none of it counts.
    outbox_.Discard(event.executor, event.outputs, effects);
    RunAgain(job, device, std::move(event.pieces), effects);
    return;
  }
  OutItem item;
  item.job = event.job;
  item.tasks = event.tasks;
  absl::Duration busy;
  for (const PieceId id : event.pieces) {
    const auto found = accumulator.pieces.find(id);
    Accumulator::Held& held = found->second;
    busy += held.busy;
    for (LeaseRun& run : held.runs) {
      accumulator.leaves -= run.count();
      item.runs.push_back(std::move(run));
    }
    std::move(held.failures.begin(), held.failures.end(), std::back_inserter(item.failures));
    accumulator.pieces.erase(found);
  }
  accumulator.work -= busy;
  item.busy_ns = static_cast<uint64_t>(std::max<int64_t>(absl::ToInt64Nanoseconds(busy), 0)) /
                 std::max(from->second->lanes, 1u);
  std::sort(item.runs.begin(), item.runs.end(),
            [](const LeaseRun& a, const LeaseRun& b) { return a.first() < b.first(); });
  std::vector<LeaseRun> joined;
  for (LeaseRun& run : item.runs) {
    if (!joined.empty() && joined.back().Precedes(run)) {
      joined.back().leaves.count += run.count();
    } else {
      joined.push_back(std::move(run));
    }
  }
  item.runs = std::move(joined);
  std::sort(item.failures.begin(), item.failures.end(),
            [](const TaskFailure& a, const TaskFailure& b) { return a.task < b.task; });
  if (accumulator.empty()) accumulating_.erase({event.job, device});
  outbox_.Add(std::move(item), event.executor, std::move(event.outputs), effects);
}

// Pieces of the accumulator whose value is lost. Unknown ones are passed over.
void WorkerCore::RunAgain(JobState* job, DeviceIndex device, std::vector<PieceId> pieces,
                          Effects* effects) {
  Accumulator& accumulator = OnDevice(job, device).accumulator;
  std::sort(pieces.begin(), pieces.end());
  for (auto id = pieces.rbegin(); id != pieces.rend(); ++id) {
    const auto found = accumulator.pieces.find(*id);
    if (found == accumulator.pieces.end()) continue;
    accumulator.work -= found->second.busy;
    for (auto run = found->second.runs.rbegin(); run != found->second.runs.rend(); ++run) {
      accumulator.leaves -= run->count();
      job->splits.Forget(*run);
      Accept(job, std::move(*run), /*front=*/true, effects);
    }
    accumulator.pieces.erase(found);
  }
  if (accumulator.empty()) accumulating_.erase({job->info.job, device});
}

}  // namespace tandem::worker
