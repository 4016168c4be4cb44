// What executors finish, return and refuse.
#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/strings.h"
#include "worker/core/worker_core.h"

namespace tandem::worker {
namespace {

uint64_t BusyNanos(absl::Duration busy, const OwnersExecutor& executor) {
  return static_cast<uint64_t>(std::max<int64_t>(absl::ToInt64Nanoseconds(busy), 0)) /
         std::max(executor.lanes, 1u);
}

uint64_t FailureBytes(const std::vector<TaskFailure>& failures) {
  constexpr uint64_t kEachMax = 24;  // besides its reason, on the wire
  uint64_t bytes = 0;
  for (const TaskFailure& failure : failures) bytes += failure.reason.size() + kEachMax;
  return bytes;
}

// What the device measured; where it measured nothing, all but host stages is the grid.
BatchMeasured MeasuredOf(const PieceFinished& event) {
  BatchMeasured measured = event.stages;
  if (measured.up_seconds + measured.grid_seconds + measured.down_seconds <= 0) {
    const double seconds = std::max(absl::ToDoubleSeconds(event.busy), 0.0);
    measured.grid_seconds = std::max(seconds - measured.host_seconds, 0.0);
  }
  return measured;
}

}  // namespace

void WorkerCore::On(PieceFinished event, MonoTime now, Effects* effects) {
  InFlightPiece piece;
  TellFinished(event, now);
  if (!TakePieceOf(event.executor, event.piece, PieceKind::kRun, &piece)) {
    outbox_.Discard(event.executor, event.outputs, effects);
    return;
  }
  const MonoTime begin = std::exchange(lanes_[piece.lane].busy_since, now);
  lanes_[piece.lane].last_end = now;
  piece.executor->losses = 0;
  const DeviceIndex device = piece.executor->device;
  JobState* job = FindJob(piece.job);
  if (job != nullptr) job->losses = 0;
  if (piece.is_void) {
    outbox_.Discard(event.executor, event.outputs, effects);
    if (event.accumulated && job != nullptr) OnDevice(job, device).accumulator.tainted = true;
    return;
  }
  counters_.leaves += piece.run.count();
  const TaskRange range = job->tree.Tasks(LeafRange{piece.run.first(), piece.run.end()});
  JobOnDevice& on = OnDevice(job, device);
  // A suspect runs apart from others and perhaps task by task, which says little of them.
  if (!event.first_launch && !piece.run.suspect) {
    Learn(job, device, static_cast<double>(range.size()), event, now);
  }
  on.proven_leaves = std::max(on.proven_leaves, piece.run.count());
  on.too_large = 0;
  // Too many failures for one message: in halves.
  if (!event.accumulated && piece.run.count() > 1 && piece.renewed.empty() &&
      FailureBytes(event.failures) > options_.report_bytes_max) {
    job->piece_leaves_max = piece.run.count() / 2;
    outbox_.Discard(event.executor, event.outputs, effects);
    Accept(job, std::move(piece.run), /*front=*/true, effects);
    return;
  }
  if (!job->splits.open().empty()) {
    const BatchMeasured took = MeasuredOf(event);
    // Of pieces that ended together, all but the first seem to have taken no time.
    const MonoTime since = std::min(begin, now - event.busy);
    const BatchSeconds stages{took.host_seconds, took.up_seconds, took.grid_seconds,
                              took.down_seconds};
    NoteFinished(job, piece.run, {device, range.size(), 1, since, now, stages});
  }
  if (event.accumulated) {
    Accumulator& accumulator = on.accumulator;
    accumulator.leaves += piece.run.count();
    accumulator.work += event.busy;
    accumulator.pieces.emplace(
        event.piece, Accumulator::Held{RunsOf(&piece), std::move(event.failures), event.busy});
    accumulating_.insert({piece.job, device});
    return;
  }
  OutItem item;
  item.job = piece.job;
  item.appends = job->info.appends;
  item.runs = RunsOf(&piece);
  item.failures = std::move(event.failures);
  item.busy_ns = BusyNanos(event.busy, *piece.executor);
  item.tasks = event.tasks;
  outbox_.Add(std::move(item), event.executor, std::move(event.outputs), effects);
}

// The job's own rate, for this job; the device's model, for those that come.
void WorkerCore::Learn(JobState* job, DeviceIndex device, double tasks, const PieceFinished& event,
                       MonoTime now) {
  const double seconds = std::max(absl::ToDoubleSeconds(event.busy), 0.0);
  RateModel& rate = OnDevice(job, device).rate;
  rate.Add(tasks, seconds);
  WorkerDevice& on = devices_[device];
  if (!on.learned.Learn(job->model_key, {tasks, job->info.cost_ns_per_task * 1e-9},
                        MeasuredOf(event), now)) {
    return;
  }
  const auto [line, is_new] = on.told.try_emplace(job->model_key);
  // On a device busy times overlap: there the stages say how many it can do.
  if (on.kind == DeviceKind::kCpu) line->second.tasks_per_second = on.lanes / rate.slope();
  on.news |= is_new;
}

void WorkerCore::On(MergeFinished event, MonoTime now, Effects* effects) {
  InFlightPiece piece;
  const bool known = TakePieceOf(event.executor, event.piece, PieceKind::kMerge, &piece);
  if (known) lanes_[piece.lane].busy_since = lanes_[piece.lane].last_end = now;
  if (!known || piece.is_void) {
    outbox_.Discard(event.executor, event.outputs, effects);
    return;
  }
  ++counters_.merges;
  piece.executor->losses = 0;
  OutItem item;
  item.kind = OutItem::Kind::kMerge;
  item.job = piece.job;
  item.merge_n = piece.merge->grant.n;
  item.merge_failed = event.failed;
  item.tasks = event.tasks;
  item.text = std::move(event.error);
  outbox_.Add(std::move(item), event.executor, std::move(event.outputs), effects);
}

void WorkerCore::On(PieceReturned event, MonoTime, Effects* effects) {
  InFlightPiece piece;
  if (!TakePieceOf(event.executor, event.piece, PieceKind::kAny, &piece) || piece.is_void) return;
  if (piece.merge != nullptr) {
    piece.executor->owner->merges.push_front(std::move(*piece.merge));
    return;
  }
  if (piece.recalled) {
    Return(piece.job, RunsOf(&piece), effects);
    return;
  }
  JobState* job = FindJob(piece.job);
  std::vector<LeaseRun> runs = RunsOf(&piece);
  for (auto run = runs.rbegin(); run != runs.rend(); ++run) {
    Accept(job, std::move(*run), /*front=*/true, effects);
  }
}

void WorkerCore::On(JobErrored event, MonoTime now, Effects* effects) {
  JobState* job = FindJob(event.job);
  // 0: the supervisor itself; what it could not understand will not be clearer later.
  const auto said = executors_.find(event.executor);
  const bool own = job != nullptr && said != executors_.end() && said->second->owner == job->owner;
  // What another device refuses the CPU may run.
  const bool bars = own && said->second->device != kCpuDevice && Eligible(*job, kCpuDevice);
  if (bars) {
    job->barred |= uint64_t{1} << said->second->device;
    ReturnWhatFitsNowhere(job, effects);
  } else if (job != nullptr && (own || event.executor == 0)) {
    const MonoTime until =
        event.executor == 0 ? MonoTime::InfiniteFuture() : now + options_.refusal;
    RefuseJob(job, {event.job, event.reason, event.fatal}, until, effects);
  }
  for (const PieceId id : event.pieces) {
    InFlightPiece piece;
    if (!TakePieceOf(event.executor, id, PieceKind::kAny, &piece) || piece.is_void) continue;
    if (piece.merge != nullptr) {
      OutItem item;
      item.kind = OutItem::Kind::kMerge;
      item.job = piece.job;
      item.merge_n = piece.merge->grant.n;
      item.text = event.reason;
      outbox_.Add(std::move(item), 0, {}, effects);
    } else if (bars && !piece.recalled) {
      for (LeaseRun& run : RunsOf(&piece)) Accept(job, std::move(run), /*front=*/true, effects);
    } else {
      Return(piece.job, RunsOf(&piece), effects);
    }
  }
}

}  // namespace tandem::worker
