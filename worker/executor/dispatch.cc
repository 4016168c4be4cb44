// Executor: from ready pieces to batches, and from batches to what is reported.
#include <algorithm>
#include <utility>

#include "common/base/error.h"
#include "common/base/strings.h"
#include "common/model/job_order.h"
#include "worker/executor/executor.h"
#include "worker/executor/failure_text.h"
#include "worker/executor/run.h"

namespace tandem::worker {
namespace {

// A lane runs one batch and has another behind it.
constexpr uint32_t kBatchesALane = 2;
// Pieces that gather in larger partials never run on the loop.
constexpr uint64_t kPartialHereBytes = 16 << 10;

}  // namespace

void CountOutputs(const google::protobuf::RepeatedPtrField<tandem::v1::OutputPiece>& outputs,
                  Usage* usage) {
  for (const tandem::v1::OutputPiece& output : outputs) {
    if (output.has_region()) {
      usage->pushed_output_bytes += output.region().length();
    } else {
      usage->inline_output_bytes += output.inline_().size();
    }
  }
}

void Executor::PieceSettled(Piece* piece, const absl::Status& status) {
  if (piece->cancelled) return ErasePiece(piece);
  if (!status.ok()) return FailPiece(piece, status, FailsEverywhere(status));
  piece->ready_ns = LoopNanos();
  piece->state = Piece::State::kReady;
  LaneState& lane = lanes_[piece->lane()];
  if (lane.idle()) {
    const int64_t since = std::max(lane.idle_since_ns, piece->arrived_ns);
    CountFor(piece->job()).stall_ns += static_cast<uint64_t>(piece->ready_ns - since);
  }
  lane.ready.push_back(piece);
}

bool Executor::LaneTakes(const LaneState& lane, double expected_ns) const {
  if (lane.in_flight == 0) return true;
  return lane.in_flight < kBatchesALane && (expected_ns <= 0 || expected_ns >= limits_.queue_ns);
}

void Executor::DispatchLane(uint32_t index) {
  LaneState& lane = lanes_[index];
  while (!lane.merges.empty() && lane.in_flight < kBatchesALane) {
    Merge* merge = lane.merges.front();
    lane.merges.pop_front();
    RunMerge(merge);
  }
  while (!lane.ready.empty() && LaneTakes(lane, lane.ready.front()->expected_ns())) {
    SubmitRun(index, GatherRun(index));
  }
}

bool Executor::Joins(const Run& run, const Piece& piece) const {
  const Piece& first = *run.pieces.front();
  if (piece.job()->kernel() != first.job()->kernel() || piece.suspect() || first.suspect() ||
      Pinned(piece.job()->bound()) != Pinned(first.job()->bound())) {
    return false;
  }
  if (run.pieces.size() >= limits_.merge_pieces_max) return false;
  // Where nothing is known, only what a task or so takes may be gathered blindly.
  const double expected = piece.expected_ns();
  if (expected <= 0 || run.batch.expected_ns <= 0) return piece.job() == first.job();
  return run.batch.expected_ns + expected <= limits_.merge_ns;
}

std::unique_ptr<Executor::Run> Executor::GatherRun(uint32_t index) {
  std::deque<Piece*>& ready = lanes_[index].ready;
  auto run = std::make_unique<Run>();
  run->lane = index;
  const auto take = [&](Piece* piece) {
    run->pieces.push_back(piece);
    run->batch.expected_ns += piece->expected_ns();
    run->tasks += static_cast<int64_t>(piece->tasks().size());
  };
  take(ready.front());
  ready.pop_front();
  std::deque<Piece*> rest;
  for (Piece* piece : ready) {
    if (Joins(*run, *piece)) {
      take(piece);
    } else {
      rest.push_back(piece);
    }
  }
  ready = std::move(rest);
  return run;
}

void Executor::SubmitRun(uint32_t lane, std::unique_ptr<Run> run) {
  bool before = false;
  bool after = false;
  bool known = true;
  std::vector<Piece*> pieces;
  for (Piece* piece : run->pieces) {
    absl::Status status = piece->Allocate(&outputs_, resources_.pool);
    if (status.ok()) status = Accumulate(piece);
    if (!status.ok()) {
      FailPiece(piece, status, false);
      continue;
    }
    piece->state = Piece::State::kRunning;
    before |= piece->needs_before();
    after |= piece->needs_after();
    // The loop's own partial would cost more than a change of threads.
    known &= piece->job()->cost.measured() && !piece->suspect() &&
             piece->job()->partial_bytes() <= kPartialHereBytes;
    run->batch.parts.push_back(piece->Part());
    pieces.push_back(piece);
  }
  run->pieces = std::move(pieces);
  if (run->pieces.empty()) return;
  Run* raw = run.release();  // RunDone takes it back.
  Batch& batch = raw->batch;
  batch.kernel = raw->pieces.front()->job()->kernel();
  batch.may_run_here = known && !before && !after;
  if (before) {
    batch.before = [raw](HostCrew& crew) {
      const int64_t start = LoopNanos();
      for (Piece* piece : raw->pieces) piece->Before(crew);
      raw->host_ns += LoopNanos() - start;
    };
  }
  if (after) {
    raw->after.resize(raw->pieces.size());
    batch.after = [this, raw](HostCrew& crew) {
      if (!raw->batch.status.ok()) return;
      const int64_t start = LoopNanos();
      for (size_t i = 0; i < raw->pieces.size(); ++i) {
        raw->after[i] = raw->pieces[i]->After(crew, raw->batch.parts[i].failed, &outputs_);
      }
      raw->host_ns += LoopNanos() - start;
    };
  }
  batch.done = [this, raw](Batch*) { completions_.Push([this, raw] { RunDone(raw); }); };
  Count("batches", 1);
  Count("parts", raw->pieces.size());
  if (raw->pieces.size() > 1) Count("merged_parts", raw->pieces.size());
  ++lanes_[lane].in_flight;
  ++running_;
  device_->Submit(lane, &batch);
}

void Executor::RunDone(Run* raw) {
  const std::unique_ptr<Run> run(raw);
  --running_;
  LaneState& lane = lanes_[run->lane];
  if (--lane.in_flight == 0) lane.idle_since_ns = LoopNanos();
  const Batch& batch = run->batch;
  // All by what was known at one time: what is learned now, or was since it was gathered, would
  // give each of them all of it.
  std::vector<double> shares;
  double expected_ns = 0;
  for (const Piece* piece : run->pieces) {
    shares.push_back(piece->expected_ns());
    expected_ns += shares.back();
  }
  const auto even = 1.0 / static_cast<double>(shares.size());
  for (double& share : shares) share = expected_ns > 0 ? share / expected_ns : even;
  Learn(*run);
  for (size_t i = 0; i < run->pieces.size(); ++i) {
    Piece* piece = run->pieces[i];
    const double share = shares[i];
    const auto busy =
        static_cast<int64_t>(static_cast<double>(batch.busy_ns) * std::min(share, 1.0));
    const auto host = static_cast<int64_t>(static_cast<double>(run->host_ns + batch.host_ns) *
                                           std::min(share, 1.0));
    Usage& usage = CountFor(piece->job());
    usage.host_ns += static_cast<uint64_t>(std::clamp<int64_t>(host, 0, busy));
    usage.body_ns += static_cast<uint64_t>(std::max<int64_t>(busy - host, 0));
    usage.fetch_ns += static_cast<uint64_t>(piece->ready_ns - piece->arrived_ns);
    absl::Status status = batch.status;
    if (status.ok() && !run->after.empty()) status = run->after[i];
    if (!status.ok()) {
      FailPiece(piece, status, false);
    } else if (piece->collects()) {
      CollectPiece(piece, batch.parts[i].failed, busy);
    } else {
      FinishPiece(piece, batch.parts[i].failed, busy);
    }
  }
}

void Executor::FinishPiece(Piece* piece, int64_t failed, int64_t busy_ns) {
  executor::v1::PieceDone* done = reply_.add_done();
  has_reply_ = true;
  piece->Finish(failed, done);
  done->set_busy_ns(static_cast<uint64_t>(busy_ns));
  Usage& usage = CountFor(piece->job());
  ++usage.pieces;
  usage.tasks += done->tasks();
  CountOutputs(done->outputs(), &usage);
  if (piece->job()->accumulates()) LeaveAccumulator(piece, done);
  ErasePiece(piece);
}

// What the run cost is told to each job in it, and to jobs of the kernel still to come.
void Executor::Learn(const Run& run) {
  const Batch& batch = run.batch;
  if (!batch.status.ok() || batch.busy_ns <= 0 || run.tasks == 0) return;
  const DeviceProperties& device = device_->properties();
  const double threads = static_cast<double>(device.cores) / device.lanes;
  const double cost = static_cast<double>(batch.busy_ns) * threads;
  for (Piece* piece : run.pieces) {
    Job* job = piece->job();
    if (batch.expected_ns > 0) {
      job->cost.Learn(cost / batch.expected_ns, cost);
    } else {
      job->cost.Set(cost / static_cast<double>(run.tasks));
    }
    const double hinted = job->bound().ns_per_task;
    if (hinted > 0) kernel_factor_[job->bound().kernel_identity] = job->cost.ns() / hinted;
  }
}

void Executor::FailPiece(Piece* piece, const absl::Status& status, bool fatal) {
  if (piece->accumulator != nullptr && piece->state == Piece::State::kRunning &&
      piece->job()->accumulates()) {
    // Part of it may be in the accumulator, beside pieces that were reported as done.
    health_ = status;
  }
  SayJobError(piece->job()->id(), FailureText(status), fatal, piece->id());
  ErasePiece(piece);
}

}  // namespace tandem::worker
