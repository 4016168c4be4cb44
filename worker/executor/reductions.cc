// Executor: accumulators of exact reductions, and merges.
#include <algorithm>
#include <utility>

#include "common/base/error.h"
#include "common/base/strings.h"
#include "worker/executor/executor.h"
#include "worker/executor/failure_text.h"
#include "worker/executor/run.h"

namespace tandem::worker {

absl::Status Executor::Accumulate(Piece* piece) {
  Job* job = piece->job();
  if (!job->accumulates() && !piece->collects()) return absl::OkStatus();
  if (piece->collects()) {
    piece->accumulator = std::make_shared<JobAccumulator>();
    piece->accumulator->device = device_->NewAccumulator(job->kernel(), job->args().bare());
    return absl::OkStatus();
  }
  if (job->accumulator == nullptr) {
    job->accumulator = std::make_shared<JobAccumulator>();
    job->accumulator->device = device_->NewAccumulator(job->kernel(), job->args().bare());
  }
  piece->accumulator = job->accumulator;
  ++piece->accumulator->running;
  return absl::OkStatus();
}

// A piece has run: it counts in its accumulator, unless that became void meanwhile.
void Executor::LeaveAccumulator(Piece* piece, executor::v1::PieceDone* done) {
  const std::shared_ptr<JobAccumulator> accumulator = piece->accumulator;
  if (accumulator->discarded) {
    reply_.mutable_done()->RemoveLast();
    reply_.add_returned_pieces(piece->id());
  } else {
    accumulator->pieces.push_back(piece->id());
    accumulator->tasks += done->tasks();
  }
  QuitAccumulator(piece);
}

// A piece adds nothing more to its accumulator.
void Executor::QuitAccumulator(Piece* piece) {
  const std::shared_ptr<JobAccumulator> accumulator = piece->accumulator;
  --accumulator->running;
  const auto closing = closing_.find(accumulator.get());
  if (closing == closing_.end() || accumulator->running > 0) return;
  closing_.erase(closing);
  Collect(accumulator, piece->job());
}

// Every flush is answered.
void Executor::SayNothingGathered(uint64_t job) {
  reply_.add_partials()->set_job(job);
  has_reply_ = true;
}

void Executor::Flush(uint64_t id) {
  Job* job = FindJob(id);
  if (job == nullptr || job->accumulator == nullptr) return SayNothingGathered(id);
  std::shared_ptr<JobAccumulator> accumulator = std::exchange(job->accumulator, nullptr);
  if (accumulator->running > 0) {
    closing_[accumulator.get()] = accumulator;
  } else {
    Collect(std::move(accumulator), job);
  }
}

void Executor::Discard(uint64_t id) {
  Job* job = FindJob(id);
  if (job == nullptr) return;
  if (job->accumulator != nullptr) {
    job->accumulator->discarded = true;
    job->accumulator = nullptr;
  }
  for (const auto& [number, piece] : pieces_) {
    if (piece->job() == job && piece->accumulator != nullptr && job->accumulates()) {
      piece->accumulator->discarded = true;
    }
  }
}

void Executor::Collect(std::shared_ptr<JobAccumulator> accumulator, Job* job) {
  if (accumulator->pieces.empty() || accumulator->discarded) return SayNothingGathered(job->id());
  absl::StatusOr<PartialOutput> made = PartialOutput::Make(*job, accumulator->tasks, &outputs_,
                                                           resources_.pool, kPartialInlineBytesMax);
  if (!made.ok()) {
    health_ = made.status();
    return;
  }
  auto output = std::make_shared<PartialOutput>(*std::move(made));
  ++running_;
  ++job->pieces;
  void* into = output->data();
  Accumulator* device = accumulator->device.get();
  const uint32_t lane = 0;
  device_->Collect(
      lane, device, into, [this, accumulator, job, output](absl::Status status, int64_t busy_ns) {
        if (status.ok()) status = output->Store();
        completions_.Push([this, accumulator, job, output, busy_ns, status = std::move(status)] {
          --running_;
          --job->pieces;
          if (!status.ok()) {
            health_ = status;
          } else if (!accumulator->discarded) {
            executor::v1::PartialDone* done = reply_.add_partials();
            has_reply_ = true;
            done->set_job(job->id());
            done->mutable_pieces()->Add(accumulator->pieces.begin(), accumulator->pieces.end());
            done->set_tasks(accumulator->tasks);
            output->Finish(done->mutable_outputs());
            Usage& usage = CountFor(job);
            ++usage.partials;
            usage.merge_ns += static_cast<uint64_t>(std::max<int64_t>(busy_ns, 0));
            CountOutputs(done->outputs(), &usage);
          }
          ReleaseJob(job);
        });
      });
}

// The exact reductions of a piece that has other outputs too.
void Executor::CollectPiece(Piece* piece, int64_t failed) {
  ++running_;
  device_->Collect(
      piece->lane(), piece->accumulator->device.get(), piece->partial()->data(),
      [this, piece, failed](absl::Status status, int64_t collect_ns) {
        if (status.ok()) status = piece->partial()->Store();
        completions_.Push([this, piece, failed, collect_ns, status = std::move(status)] {
          --running_;
          if (!status.ok()) return FailPiece(piece, status, false);
          piece->cost.busy_ns += static_cast<uint64_t>(std::max<int64_t>(0, collect_ns));
          FinishPiece(piece, failed);
        });
      });
}

void Executor::MergeSettled(Merge* merge, const absl::Status& status) {
  if (!status.ok()) return MergeRan(merge, status, 0);
  if (merge->work_bytes() > limits_.merge_here_bytes) {
    lanes_[merge->lane() % lanes_.size()].merges.push_back(merge);
    return;
  }
  const int64_t start = LoopNanos();
  const absl::Status ran = merge->Run();
  MergeRan(merge, ran, LoopNanos() - start);
}

void Executor::RunMerge(Merge* merge) {
  const uint32_t lane = merge->lane() % static_cast<uint32_t>(lanes_.size());
  ++lanes_[lane].in_flight;
  ++running_;
  auto* work = new HostWork;
  auto status = std::make_shared<absl::Status>();
  work->run = [merge, status](HostCrew&) { *status = merge->Run(); };
  work->done = [this, merge, status, lane](HostWork* done) {
    const std::unique_ptr<HostWork> owned(done);
    completions_.Push([this, merge, status, lane, busy = owned->busy_ns] {
      if (--lanes_[lane].in_flight == 0) lanes_[lane].idle_since_ns = LoopNanos();
      --running_;
      MergeRan(merge, *status, busy);
    });
  };
  device_->SubmitWork(lane, work);
}

void Executor::MergeRan(Merge* merge, const absl::Status& status, int64_t busy_ns) {
  executor::v1::MergeDone* done = reply_.add_merges();
  has_reply_ = true;
  if (status.ok()) {
    merge->Finish(done);
  } else {
    done->set_piece(merge->id());
    done->set_error(FailureText(status));
  }
  done->set_busy_ns(static_cast<uint64_t>(busy_ns));
  Job* job = merge->job();
  Usage& usage = CountFor(job);
  ++usage.merges;
  usage.merge_ns += static_cast<uint64_t>(busy_ns);
  CountOutputs(done->outputs(), &usage);
  merges_.erase(merge->id());
  --job->pieces;
  ReleaseJob(job);
}

}  // namespace tandem::worker
