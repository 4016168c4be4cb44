#include "worker/executor/executor.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "common/base/checked_math.h"
#include "common/base/error.h"
#include "common/base/strings.h"
#include "common/wire/kernel.h"
#include "common/wire/lease_messages.h"
#include "worker/executor/failure_text.h"
#include "worker/executor/run.h"

namespace tandem::worker {
namespace {

// What a device takes for a second of one core, until a kernel has shown it.
constexpr double kDeviceTimeGuess = 0.05;

// Jobs whose setup failed are remembered, for the pieces that are already on their way.
constexpr size_t kBrokenJobsMax = 10'000;

// Items are written on the host: by a host stage, or not at all.
bool RunsOnDevices(const KernelInfo& kernel) {
  const auto& outputs = kernel.signature.outputs();
  return kernel.host_stages || std::none_of(outputs.begin(), outputs.end(), [](const OutputSig& o) {
           return o.dtype == DType::kBytes;
         });
}

}  // namespace

ExecutorLimits ExecutorLimits::For(const DeviceProperties& device) {
  ExecutorLimits limits;
  if (!device.own_memory) return limits;
  // Long enough for launch and copies to be nothing, so short that a second one can wait behind.
  limits.merge_ns = 1'000'000;
  limits.batches_a_lane = 4;
  limits.small_batches_a_lane = 2;
  // Two of them fit into the start log.
  limits.merge_pieces_max = std::clamp<size_t>(device.slots / 2, 1, limits.merge_pieces_max);
  return limits;
}

Executor::Executor(Device* device, StagingAllocator* staging, const KernelTable* kernels,
                   JobResources resources, std::function<void()> wake, const ExecutorLimits& limits)
    : device_(device),
      kernels_(kernels),
      resources_(std::move(resources)),
      limits_(limits),
      outputs_(staging),
      completions_(std::move(wake)),
      lanes_(device->properties().lanes),
      io_(std::make_unique<IoPool>(limits.io_threads)) {}

Executor::~Executor() {
  resources_.stopping->store(true);
  shutdown_ = true;
  while (running_ > 0) {
    if (!completions_.Drain()) std::this_thread::yield();
  }
}

void Executor::SayReady() {
  executor::v1::Ready* ready = reply_.mutable_ready();
  const DeviceProperties& device = device_->properties();
  for (const KernelInfo& kernel : kernels_->infos()) {
    if (!device.own_memory || RunsOnDevices(kernel)) wire::Encode(kernel, ready->add_kernels());
  }
  ready->set_shrinks(true);
  wire::Encode(DeviceInfo{device.kind, device.model, device.uuid, device.cores, device.memory_bytes,
                          device.lanes, device.budget_bytes},
               ready->mutable_device());
  has_reply_ = true;
}

void Executor::Handle(executor::v1::ToExecutor* message) {
  for (const executor::v1::ReleaseRegion& region : message->releases()) {
    (void)outputs_.Release(region.offset());  // A block that is no more needs no release.
  }
  for (executor::v1::JobSetup& setup : *message->mutable_setups()) SetUp(&setup);
  for (const uint64_t job : message->discard_accumulators()) Discard(job);
  for (const uint64_t piece : message->cancel_pieces()) Cancel(piece);
  for (const executor::v1::RunPiece& run : message->runs()) StartPiece(run);
  for (const executor::v1::ShrinkPiece& shrink : message->shrinks()) Shrink(shrink);
  for (executor::v1::MergePiece& merge : *message->mutable_merges()) StartMerge(&merge);
  for (const uint64_t job : message->flush_jobs()) Flush(job);
  for (const uint64_t job : message->forget_jobs()) Forget(job);
  if (message->shutdown()) Shutdown();
}

bool Executor::Pump() {
  bool moved = completions_.Drain();
  for (uint32_t lane = 0; lane < lanes_.size(); ++lane) DispatchLane(lane);
  // What ran on this thread has completed by now.
  moved |= completions_.Drain();
  return moved;
}

bool Executor::TakeReply(executor::v1::FromExecutor* reply) {
  const uint64_t fetched = resources_.bytes_fetched->exchange(0, std::memory_order_relaxed);
  if (fetched > 0) Count("bytes_fetched", fetched);
  for (Job* job : counted_) SayUsage(job);
  counted_.clear();
  if (!has_reply_) return false;
  reply->Clear();
  reply->Swap(&reply_);
  has_reply_ = false;
  return true;
}

void Executor::Count(const char* counter, uint64_t n) {
  (*reply_.mutable_counters())[counter] += n;
  has_reply_ = true;
}

Usage& Executor::CountFor(Job* job) {
  if (!job->counted) {
    job->counted = true;
    counted_.push_back(job);
    has_reply_ = true;
  }
  return job->usage;
}

void Executor::SayUsage(Job* job) {
  tandem::v1::JobUsage* said = reply_.add_usages();
  said->set_job(job->id());
  said->set_device(static_cast<tandem::v1::DeviceKind>(device_->properties().kind));
  job->usage.Take(job->operand_usage.get(), said->mutable_usage());
  job->counted = false;
}

void Executor::SayJobError(uint64_t job, const std::string& reason, bool fatal, uint64_t piece) {
  has_reply_ = true;
  executor::v1::JobError* error = nullptr;
  if (const int n = reply_.job_errors_size(); n > 0) {
    executor::v1::JobError* last = reply_.mutable_job_errors(n - 1);
    if (last->job() == job && last->reason() == reason) error = last;
  }
  if (error == nullptr) {
    error = reply_.add_job_errors();
    error->set_job(job);
    error->set_reason(reason);
  }
  error->set_fatal(fatal);
  if (piece != 0) error->add_pieces(piece);
}

void Executor::SetUp(executor::v1::JobSetup* setup) {
  const uint64_t id = setup->description().job();
  if (FindJob(id) != nullptr) return;
  broken_.erase(id);
  bool fatal = false;
  absl::StatusOr<std::unique_ptr<Job>> job = Job::Make(setup, *kernels_, resources_, &fatal);
  if (!job.ok()) {
    const std::string reason = FailureText(job.status());
    if (broken_.size() >= kBrokenJobsMax) broken_.erase(broken_.begin());
    broken_[id] = {reason, fatal};
    SayJobError(id, reason, fatal, 0);
    return;
  }
  const auto factor = kernel_factor_.find((*job)->bound().kernel_identity);
  if (factor != kernel_factor_.end() && (*job)->cost.ns() > 0)
    (*job)->cost.Set((*job)->cost.ns() * factor->second);
  if (device_->properties().own_memory) {
    const auto shown = device_time_.find((*job)->bound().kernel_identity);
    (*job)->device_time = shown != device_time_.end() ? shown->second : kDeviceTimeGuess;
  }
  // A job that was forgotten and still has pieces in flight is given another life beside them.
  auto& slot = jobs_[id];
  if (slot != nullptr) retired_.push_back(std::move(slot));
  slot = *std::move(job);
}

Job* Executor::FindJob(uint64_t id) {
  const auto it = jobs_.find(id);
  return it == jobs_.end() || it->second->forgotten ? nullptr : it->second.get();
}

void Executor::StartPiece(const executor::v1::RunPiece& run) {
  Job* job = FindJob(run.job());
  if (job == nullptr) {
    const auto broken = broken_.find(run.job());
    if (broken != broken_.end()) {
      return SayJobError(run.job(), broken->second.reason, broken->second.fatal, run.piece());
    }
    return SayJobError(run.job(), "PROTOCOL_ERROR: a piece of a job that was not set up", false,
                       run.piece());
  }
  const RangeTree& tree = job->bound().tree;
  const LeafRange leaves = {run.first_leaf(), SaturatingAdd(run.first_leaf(), run.leaf_count())};
  Node node;
  if (leaves.empty() || leaves.end > tree.leaf_count() ||
      (job->ordered() && !tree.NodeOf(leaves, &node)) || pieces_.contains(run.piece())) {
    return SayJobError(run.job(),
                       StrCat("PROTOCOL_ERROR: leaves ", leaves.ToString(), " of ",
                              tree.leaf_count(), " are no new piece of this job"),
                       false, run.piece());
  }
  if (shutdown_) {
    has_reply_ = true;
    reply_.add_returned_pieces(run.piece());
    return;
  }
  auto owned = std::make_unique<Piece>(run, job, static_cast<uint32_t>(lanes_.size()));
  Piece* piece = owned.get();
  pieces_.emplace(run.piece(), std::move(owned));
  ++job->pieces;
  piece->arrived_ns = LoopNanos();
  Settle(piece);
}

void Executor::Settle(Piece* piece) {
  if (piece->Settle()) return PieceSettled(piece, absl::OkStatus());
  ++running_;
  io_->Run([this, piece] {
    absl::Status status = piece->Wait();
    completions_.Push([this, piece, status = std::move(status)] {
      --running_;
      PieceSettled(piece, status);
    });
  });
}

void Executor::StartMerge(executor::v1::MergePiece* message) {
  Job* job = FindJob(message->job());
  if (shutdown_) {
    reply_.add_returned_pieces(message->piece());
    has_reply_ = true;
    return;
  }
  if (job == nullptr || merges_.contains(message->piece())) {
    executor::v1::MergeDone* done = reply_.add_merges();
    done->set_piece(message->piece());
    const auto broken = broken_.find(message->job());
    done->set_error(broken != broken_.end()
                        ? broken->second.reason
                        : "PROTOCOL_ERROR: a merge of a job that was not set up");
    has_reply_ = true;
    return;
  }
  auto owned = std::make_unique<Merge>(message, job, resources_.pool);
  Merge* merge = owned.get();
  merges_.emplace(merge->id(), std::move(owned));
  ++job->pieces;
  const absl::Status started = merge->Start(&outputs_);
  if (!started.ok() || !merge->waits()) return MergeSettled(merge, started);
  ++running_;
  io_->Run([this, merge] {
    absl::Status status = merge->Wait([this] { return resources_.stopping->load(); });
    completions_.Push([this, merge, status = std::move(status)] {
      --running_;
      MergeSettled(merge, status);
    });
  });
}

void Executor::Cancel(uint64_t id) {
  const auto it = pieces_.find(id);
  if (it == pieces_.end()) return;
  if (it->second->cancelled) return;
  if (it->second->state == Piece::State::kRunning && !Withdraw(it->second.get())) return;
  Piece* const piece = it->second.get();
  reply_.add_returned_pieces(id);
  has_reply_ = true;
  piece->cancelled = true;
  // One that waits is still in an I/O thread's hands.
  if (piece->state != Piece::State::kReady) return;
  std::erase(lanes_[piece->lane()].ready, piece);
  ErasePiece(piece);
}

void Executor::SayShrunk(uint64_t piece, uint64_t leaves) {
  executor::v1::Shrunk* shrunk = reply_.add_shrunk();
  shrunk->set_piece(piece);
  shrunk->set_leaves(leaves);
  has_reply_ = true;
}

void Executor::Shrink(const executor::v1::ShrinkPiece& shrink) {
  const auto it = pieces_.find(shrink.piece());
  // One that is not there any more is answered by its report, which is on its way.
  if (it == pieces_.end() || it->second->cancelled) return;
  Piece* piece = it->second.get();
  if (LeafCursor* const cursor = piece->cursor(); cursor != nullptr) {
    const uint64_t leaves = std::min<uint64_t>(shrink.leaves(), LeafCursor::kLeavesMax);
    return SayShrunk(shrink.piece(), cursor->Cut(static_cast<uint32_t>(leaves)));
  }
  const uint64_t has = piece->keep_leaves > 0 ? piece->keep_leaves : piece->leaves();
  const bool running = piece->state == Piece::State::kRunning;
  if (shrink.leaves() >= has || (running && !Withdraw(piece))) {
    return SayShrunk(shrink.piece(), has);
  }
  piece = it->second.get();
  SayShrunk(shrink.piece(), shrink.leaves());
  if (piece->state == Piece::State::kWaiting) {
    // It is in an I/O thread's hands.
    piece->keep_leaves = shrink.leaves();
    piece->cancelled = shrink.leaves() == 0;
    return;
  }
  std::erase(lanes_[piece->lane()].ready, piece);
  shrink.leaves() == 0 ? ErasePiece(piece) : Restart(piece, shrink.leaves());
}

void Executor::Restart(Piece* piece, uint64_t leaves) {
  executor::v1::RunPiece run = piece->run();
  run.set_leaf_count(leaves);
  auto fresh = std::make_unique<Piece>(run, piece->job(), static_cast<uint32_t>(lanes_.size()));
  fresh->arrived_ns = piece->arrived_ns;
  Piece* const restarted = fresh.get();
  pieces_[run.piece()] = std::move(fresh);
  Settle(restarted);
}

void Executor::Forget(uint64_t id) {
  broken_.erase(id);
  Job* job = FindJob(id);
  if (job == nullptr) return;
  Discard(id);
  job->forgotten = true;
  std::vector<Piece*> ready;
  for (const auto& [number, piece] : pieces_) {
    if (piece->job() != job || piece->state == Piece::State::kRunning) continue;
    piece->cancelled = true;
    if (piece->state == Piece::State::kReady) ready.push_back(piece.get());
  }
  ++job->pieces;  // the job outlives the last of them
  for (Piece* piece : ready) {
    std::erase(lanes_[piece->lane()].ready, piece);
    ErasePiece(piece);
  }
  --job->pieces;
  ReleaseJob(job);
}

void Executor::Shutdown() {
  if (shutdown_) return;
  shutdown_ = true;
  resources_.stopping->store(true);
  std::vector<uint64_t> unstarted;
  for (const auto& [id, piece] : pieces_) {
    if (piece->state != Piece::State::kRunning) unstarted.push_back(id);
  }
  for (const uint64_t id : unstarted) Cancel(id);
}

// A job goes when it was forgotten and nothing of it is in flight.
void Executor::ReleaseJob(Job* job) {
  if (!job->forgotten || job->pieces > 0) return;
  if (job->counted) {
    SayUsage(job);
    std::erase(counted_, job);
  }
  if (const auto it = jobs_.find(job->id()); it != jobs_.end() && it->second.get() == job) {
    jobs_.erase(it);
    return;
  }
  std::erase_if(retired_, [job](const std::unique_ptr<Job>& held) { return held.get() == job; });
}

void Executor::ErasePiece(Piece* piece) {
  Job* job = piece->job();
  pieces_.erase(piece->id());
  --job->pieces;
  ReleaseJob(job);
}

}  // namespace tandem::worker
