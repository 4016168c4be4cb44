// Executor: from ready pieces to batches, and from batches to what is reported.
#include <algorithm>
#include <bit>
#include <utility>

#include "common/base/error.h"
#include "common/base/strings.h"
#include "common/model/job_order.h"
#include "worker/executor/executor.h"
#include "worker/executor/failure_text.h"
#include "worker/executor/run.h"

namespace tandem::worker {
namespace {

// Pieces that gather in larger partials never run on the loop.
constexpr uint64_t kPartialHereBytes = 16 << 10;
// What a grid takes beyond so many times what its tasks take one core is the price of a grid.
constexpr double kDeviceTimeMax = 100;

void CountStages(const PieceCost& cost, Usage* usage) {
  usage->up_ns += cost.up_ns;
  usage->grid_ns += cost.grid_ns;
  usage->down_ns += cost.down_ns;
  usage->bytes_up += cost.bytes_up;
  usage->bytes_down += cost.bytes_down;
}

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
  if (piece->keep_leaves > 0) return Restart(piece, piece->keep_leaves);
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

bool Executor::LaneTakes(const LaneState& lane, double device_ns) const {
  if (lane.in_flight < limits_.small_batches_a_lane) return true;
  return lane.in_flight < limits_.batches_a_lane &&
         (device_ns <= 0 || device_ns >= limits_.queue_ns);
}

void Executor::DispatchLane(uint32_t index) {
  LaneState& lane = lanes_[index];
  while (!lane.merges.empty() && lane.in_flight < limits_.batches_a_lane) {
    Merge* merge = lane.merges.front();
    lane.merges.pop_front();
    RunMerge(merge);
  }
  while (!lane.ready.empty() && LaneTakes(lane, lane.ready.front()->device_ns())) {
    std::unique_ptr<Run> run = GatherRun(index);
    AllocateRun(run.get());
    if (!run->pieces.empty()) SubmitRun(std::move(run));
  }
}

bool Executor::Joins(const Run& run, const Piece& piece) const {
  const Piece& first = *run.pieces.front();
  if (piece.job()->kernel() != first.job()->kernel() || piece.suspect() || first.suspect() ||
      Pinned(piece.job()->bound()) != Pinned(first.job()->bound()) ||
      piece.job()->gpu_memory_bytes() != first.job()->gpu_memory_bytes()) {
    return false;
  }
  // Where nothing is known, only what a task or so takes may be gathered blindly.
  const double expected = piece.device_ns();
  if (expected <= 0 || run.device_ns <= 0) return piece.job() == first.job();
  return run.device_ns + expected <= limits_.merge_ns;
}

std::unique_ptr<Executor::Run> Executor::GatherRun(uint32_t index) {
  std::deque<Piece*>& ready = lanes_[index].ready;
  auto run = std::make_unique<Run>();
  run->lane = index;
  const auto take = [&](Piece* piece) {
    run->pieces.push_back(piece);
    run->batch.expected_ns += piece->expected_ns();
    run->device_ns += piece->device_ns();
    run->tasks += static_cast<int64_t>(piece->tasks().size());
  };
  take(ready.front());
  ready.pop_front();
  std::vector<Piece*> passed;
  auto next = ready.begin();
  for (; next != ready.end() && run->pieces.size() < limits_.merge_pieces_max; ++next) {
    if (Joins(*run, **next)) {
      take(*next);
    } else {
      passed.push_back(*next);
    }
  }
  next = ready.erase(ready.begin(), next);
  ready.insert(next, passed.begin(), passed.end());
  return run;
}

// Room for every piece; those that have none fail.
void Executor::AllocateRun(Run* run) {
  ContentIds* const contents = device_->properties().own_memory ? &contents_ : nullptr;
  std::vector<Piece*> pieces;
  for (Piece* piece : run->pieces) {
    absl::Status status = piece->Allocate(&outputs_, resources_.pool, contents);
    if (status.ok()) status = Accumulate(piece);
    if (!status.ok()) {
      FailPiece(piece, status, false);
      continue;
    }
    piece->state = Piece::State::kRunning;
    pieces.push_back(piece);
  }
  run->pieces = std::move(pieces);
}

void Executor::SubmitRun(std::unique_ptr<Run> run) {
  Piece* const first = run->pieces.front();
  if (run->pieces.size() == 1 && !device_->properties().own_memory && first->cuttable() &&
      first->expected_ns() >= limits_.cut_ns) {
    first->MakeCuttable();
  }
  bool before = false;
  bool after = false;
  bool known = true;
  for (Piece* piece : run->pieces) {
    before |= piece->needs_before();
    after |= piece->needs_after();
    // The loop's own partial would cost more than a change of threads.
    known &= piece->job()->cost.measured() && !piece->suspect() &&
             piece->job()->partial_bytes() <= kPartialHereBytes;
    run->batch.parts.push_back(piece->Part());
  }
  const uint32_t lane = run->lane;
  Run* raw = run.release();  // RunDone takes it back.
  Batch& batch = raw->batch;
  batch.kernel = raw->pieces.front()->job()->kernel();
  batch.may_run_here = known && !before && !after;
  batch.memory_bytes = raw->pieces.front()->job()->gpu_memory_bytes();
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
  if (!device_->properties().own_memory) batch.gate = &raw->gate;
  lanes_[lane].runs.push_back(raw);
  Count("batches", 1);
  Count("parts", raw->pieces.size());
  if (raw->pieces.size() > 1) Count("merged_parts", raw->pieces.size());
  ++lanes_[lane].in_flight;
  ++running_;
  device_->Submit(lane, &batch);
}

// The piece's batch waits behind one that runs, for how long nobody knows: it is taken back from
// the device, and its pieces are as if they had just come. False: it has begun.
bool Executor::Withdraw(Piece* piece) {
  if (device_->properties().own_memory) return false;
  for (Run* run : lanes_[piece->lane()].runs) {
    if (std::find(run->pieces.begin(), run->pieces.end(), piece) == run->pieces.end()) continue;
    if (!run->gate.Take()) return false;
    for (Piece* waiting : std::exchange(run->pieces, {})) {
      if (waiting->accumulator != nullptr && waiting->job()->accumulates()) {
        QuitAccumulator(waiting);
      }
      if (waiting != piece && waiting->job()->forgotten) {
        ErasePiece(waiting);  // nobody waits for it
      } else {
        Restart(waiting, waiting->leaves());
      }
    }
    Count("withdrawn_batches", 1);
    return true;
  }
  return false;
}

// A share of what a run cost.
PieceCost Executor::CostOf(const Run& run, double share) const {
  const Batch& batch = run.batch;
  const auto part = [share](auto whole) {
    return static_cast<uint64_t>(std::max(0.0, static_cast<double>(whole) * share));
  };
  PieceCost cost;
  cost.first_launch = batch.first_launch;
  cost.busy_ns = part(batch.busy_ns);
  cost.host_ns = std::min(part(run.host_ns + batch.host_ns), cost.busy_ns);
  cost.up_ns = part(batch.up_ns);
  cost.down_ns = part(batch.down_ns);
  // A CPU's body is its grid.
  cost.grid_ns =
      device_->properties().own_memory ? part(batch.grid_ns) : cost.busy_ns - cost.host_ns;
  cost.bytes_up = part(batch.bytes_up);
  cost.bytes_down = part(batch.bytes_down);
  return cost;
}

void Executor::RunDone(Run* raw) {
  std::unique_ptr<Run> run(raw);
  --running_;
  LaneState& lane = lanes_[run->lane];
  std::erase(lane.runs, raw);
  if (--lane.in_flight == 0) lane.idle_since_ns = LoopNanos();
  if (run->pieces.empty()) return;  // withdrawn
  const Batch& batch = run->batch;
  if (!batch.status.ok()) {
    if (absl::Status health = device_->health(); !health.ok()) {
      health_ = std::move(health);
      return;
    }
    if (batch.too_large) return HalveRun(std::move(run));
  }
  if (LeafCursor* cursor = run->pieces.front()->cursor(); cursor != nullptr) TakeCut(run.get());
  if (run->pieces.empty()) return;
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
  if (batch.bytes_up + batch.bytes_down > 0) {
    Count("bytes_up", batch.bytes_up);
    Count("bytes_down", batch.bytes_down);
  }
  for (size_t i = 0; i < run->pieces.size(); ++i) {
    Piece* piece = run->pieces[i];
    piece->cost = CostOf(*run, std::min(shares[i], 1.0));
    Usage& usage = CountFor(piece->job());
    usage.host_ns += piece->cost.host_ns;
    usage.body_ns += piece->cost.busy_ns - piece->cost.host_ns;
    if (device_->properties().own_memory) CountStages(piece->cost, &usage);
    usage.fetch_ns += static_cast<uint64_t>(piece->ready_ns - piece->arrived_ns);
    absl::Status status = batch.status;
    if (status.ok() && !run->after.empty()) status = run->after[i];
    if (!status.ok()) {
      FailPiece(piece, status, false);
    } else if (piece->collects()) {
      CollectPiece(piece, batch.parts[i].failed);
    } else {
      FinishPiece(piece, batch.parts[i].failed);
    }
  }
}

// A piece that was cut short while it ran.
void Executor::TakeCut(Run* run) {
  Piece* const piece = run->pieces.front();
  const uint64_t had = piece->tasks().size();
  piece->TakeCut();
  run->tasks = static_cast<int64_t>(piece->tasks().size());
  run->batch.expected_ns *= static_cast<double>(run->tasks) / static_cast<double>(had);
  if (piece->leaves() > 0) return;
  // All of it went back before it had begun.
  if (piece->job()->accumulates()) QuitAccumulator(piece);
  run->pieces.clear();
  ErasePiece(piece);
}

// The device has no room for all of them at a time: half of them, and then the others.
void Executor::HalveRun(std::unique_ptr<Run> run) {
  Count("halved_batches", 1);
  if (run->pieces.size() == 1) return HalvePiece(run->pieces.front(), run->batch);
  const size_t half = run->pieces.size() / 2;
  for (const auto& [begin, end] : {std::pair(size_t{0}, half), {half, run->pieces.size()}}) {
    auto part = std::make_unique<Run>();
    part->lane = run->lane;
    for (size_t i = begin; i < end; ++i) {
      Piece* const piece = run->pieces[i];
      part->pieces.push_back(piece);
      part->batch.expected_ns += piece->expected_ns();
      part->tasks += static_cast<int64_t>(piece->tasks().size());
    }
    SubmitRun(std::move(part));
  }
}

// The far half of its leaves goes back; one leaf alone is too large for this device.
void Executor::HalvePiece(Piece* piece, const Batch& batch) {
  if (piece->accumulator != nullptr && piece->job()->accumulates()) {
    QuitAccumulator(piece);
  }
  if (piece->leaves() > 1) {
    const uint64_t kept = std::bit_ceil(piece->leaves()) / 2;
    SayShrunk(piece->id(), kept);
    return Restart(piece, kept);
  }
  executor::v1::TooLarge* too_large = reply_.add_too_large();
  too_large->set_piece(piece->id());
  too_large->set_need_bytes(batch.need_bytes);
  too_large->set_budget_bytes(batch.budget_bytes);
  too_large->set_reason(StrCat(
      reason::kGpuOom, ": one leaf of the job is too large: ", ToStd(batch.status.message())));
  has_reply_ = true;
  ErasePiece(piece);
}

void Executor::FinishPiece(Piece* piece, int64_t failed) {
  executor::v1::PieceDone* done = reply_.add_done();
  has_reply_ = true;
  piece->Finish(failed, done);
  Usage& usage = CountFor(piece->job());
  ++usage.pieces;
  usage.tasks += done->tasks();
  CountOutputs(done->outputs(), &usage);
  if (piece->job()->accumulates()) LeaveAccumulator(piece, done);
  ErasePiece(piece);
}

// How long the next batches of the kernel keep the device busy by what is in them: more tasks in a
// grid do not pay its price again.
void Executor::LearnDeviceTime(const Run& run) {
  const Batch& batch = run.batch;
  if (!batch.status.ok() || batch.first_launch || batch.grid_ns <= 0 || batch.expected_ns <= 0) {
    return;
  }
  constexpr double kNewest = 0.5;
  const double seen =
      std::min(static_cast<double>(batch.grid_ns) / batch.expected_ns, kDeviceTimeMax);
  for (Piece* piece : run.pieces) {
    Job* job = piece->job();
    const auto [known, fresh] = device_time_.try_emplace(job->bound().kernel_identity, seen);
    if (piece == run.pieces.front() && !fresh) known->second += kNewest * (seen - known->second);
    job->device_time = known->second;
  }
}

// What the run cost is told to each job in it, and to jobs of the kernel still to come.
void Executor::Learn(const Run& run) {
  const Batch& batch = run.batch;
  // What a core takes is not seen here.
  if (device_->properties().own_memory) return LearnDeviceTime(run);
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
