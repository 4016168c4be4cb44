// Leaves for which a device has not the memory.
//
// Such a leaf goes to the CPU where its job allows that, else to a device of this worker with a
// larger budget, else back to the master, which knows of other workers' budgets. Each refusal
// raises what is known of its need above the budget that refused it, so that it comes to an end.
#include <algorithm>
#include <utility>

#include "worker/core/worker_core.h"

namespace tandem::worker {

bool WorkerCore::HeldSomewhere(const JobState& job, const LeaseRun& run) const {
  for (DeviceIndex device = 0; device < devices_.size(); ++device) {
    if (Eligible(job, device) && Holds(device, run)) return true;
  }
  return false;
}

void WorkerCore::ReturnTooLarge(JobId job, LeaseRun run, uint64_t budget_bytes, Effects* effects) {
  OutItem item;
  item.kind = OutItem::Kind::kReturn;
  item.job = job;
  item.gpu_need_bytes = run.need_bytes;
  item.gpu_budget_bytes = budget_bytes;
  item.runs.push_back(std::move(run));
  NoteLeft(job, item.runs);
  outbox_.Add(std::move(item), 0, {}, effects);
}

void WorkerCore::ReturnWhatFitsNowhere(JobState* job, Effects* effects) {
  std::vector<LeafInterval> nowhere;
  for (const LeaseRun& run : job->pool.runs()) {
    if (run.need_bytes > 0 && !HeldSomewhere(*job, run)) nowhere.push_back(run.leaves);
  }
  for (const LeafInterval& leaves : nowhere) {
    for (LeaseRun& run : job->pool.TakeWithin(leaves.first, leaves.first + leaves.count)) {
      const uint64_t budget = run.need_bytes - 1;
      ReturnTooLarge(job->info.job, std::move(run), budget, effects);
    }
  }
  if (!nowhere.empty()) UpdateRunnable(job);
}

void WorkerCore::On(PieceTooLarge event, MonoTime now, Effects* effects) {
  InFlightPiece piece;
  if (!TakePieceOf(event.executor, event.piece, PieceKind::kRun, &piece) || piece.is_void) return;
  JobState* const job = FindJob(piece.job);
  const DeviceIndex device = piece.executor->device;
  std::vector<LeaseRun> runs = RunsOf(&piece);
  const bool cpu = Eligible(*job, kCpuDevice);
  const bool taken = event.need_bytes <= event.budget_bytes;  // by others, for now
  if (taken && !cpu) {
    RefuseJob(job, {piece.job, std::move(event.reason)}, now + options_.refusal, effects);
  }
  if (piece.recalled || (taken && !cpu)) return Return(piece.job, std::move(runs), effects);
  const uint64_t above = devices_[device].budget_bytes + 1;  // that is kBudgetMax at most
  for (LeaseRun& run : runs) {
    run.need_bytes = std::max({run.need_bytes, event.need_bytes, above});
    if (!HeldSomewhere(*job, run)) {
      ReturnTooLarge(piece.job, std::move(run), event.budget_bytes, effects);
      continue;
    }
    // Core groups pull from the back.
    Accept(job, std::move(run), /*front=*/!cpu, effects);
  }
  bool another = false;
  for (DeviceIndex other = 0; other < devices_.size(); ++other) {
    const bool larger = devices_[other].budget_bytes > devices_[device].budget_bytes;
    another |= (other == kCpuDevice || larger) && Eligible(*job, other);
  }
  if (++OnDevice(job, device).too_large >= options_.pull.too_large_max && another) {
    job->barred |= uint64_t{1} << device;
    ReturnWhatFitsNowhere(job, effects);
  }
}

}  // namespace tandem::worker
