#include "worker/server/translate.h"

#include <algorithm>
#include <utility>

#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/model/all_capabilities.h"
#include "common/model/bound_job.h"
#include "common/wire/lease_messages.h"

namespace tandem::worker {
namespace {

// Outputs of adjacent ranges, one behind the other, are those of both ranges: whole items along the
// leading dimension, no offsets in front.
bool Appends(const BoundOutput& output) {
  return output.kind == BoundOutput::Kind::kConcat && output.dim == 0;
}

// What a task's cost depends on besides its kernel, as far as shapes say: "m=64 k=21".
std::string InnerExtents(const BoundJob& job) {
  std::string text;
  const std::vector<std::string>& names = job.kernel.signature.axes();
  for (size_t i = 0; i < job.axes.size(); ++i) {
    if (static_cast<int>(i) == job.split_axis_index) continue;
    StrAppend(&text, text.empty() ? "" : " ", names[i], "=", job.axes[i]);
  }
  if (text.size() > DeviceModel::kNameBytesMax) text.resize(DeviceModel::kNameBytesMax);
  return text;
}

absl::Status TakeOutputs(google::protobuf::RepeatedPtrField<tandem::v1::OutputPiece>* from,
                         const StagingFile& staging, std::vector<StagedOutput>* to) {
  to->reserve(static_cast<size_t>(from->size()));
  for (tandem::v1::OutputPiece& piece : *from) {
    StagedOutput& output = to->emplace_back();
    output.output = piece.output();
    if (!piece.has_region() || piece.region().length() == 0) {
      output.inline_bytes = std::move(*piece.mutable_inline_());
      continue;
    }
    output.offset = piece.region().offset();
    output.length = piece.region().length();
    RETURN_IF_ERROR(staging.Read(output.offset, output.length).status());
  }
  return absl::OkStatus();
}

absl::Status TakeFailures(google::protobuf::RepeatedPtrField<tandem::v1::TaskFailure>* from,
                          std::vector<TaskFailure>* to) {
  to->resize(static_cast<size_t>(from->size()));
  for (int i = 0; i < from->size(); ++i) {
    RETURN_IF_ERROR(wire::Decode(from->Mutable(i), &(*to)[static_cast<size_t>(i)]));
  }
  return absl::OkStatus();
}

std::vector<PieceId> Pieces(const google::protobuf::RepeatedField<uint64_t>& from) {
  return std::vector<PieceId>(from.begin(), from.end());
}

BatchMeasured StagesOf(const executor::v1::PieceDone& done) {
  constexpr double kNano = 1e-9;
  return {static_cast<double>(done.host_ns()) * kNano, static_cast<double>(done.up_ns()) * kNano,
          static_cast<double>(done.grid_ns()) * kNano, static_cast<double>(done.down_ns()) * kNano,
          static_cast<double>(done.bytes_up()),        static_cast<double>(done.bytes_down())};
}

absl::Status TakeAll(ExecutorId executor, const StagingFile& staging,
                     executor::v1::FromExecutor* message, std::vector<Event>* events) {
  for (const executor::v1::Shrunk& shrunk : message->shrunk()) {
    events->push_back(PieceShrunk{executor, shrunk.piece(), shrunk.leaves()});
  }
  for (executor::v1::PieceDone& done : *message->mutable_done()) {
    PieceFinished event{executor,
                        done.piece(),
                        absl::Nanoseconds(done.busy_ns()),
                        absl::Nanoseconds(done.fetch_ns()),
                        done.accumulated(),
                        {},
                        {},
                        done.tasks(),
                        done.first_launch(),
                        StagesOf(done)};
    RETURN_IF_ERROR(TakeOutputs(done.mutable_outputs(), staging, &event.outputs));
    RETURN_IF_ERROR(TakeFailures(done.mutable_failures(), &event.failures));
    events->push_back(std::move(event));
  }
  for (executor::v1::MergeDone& done : *message->mutable_merges()) {
    MergeFinished event{executor,
                        done.piece(),
                        {},
                        done.tasks(),
                        done.failed(),
                        std::move(*done.mutable_error()),
                        absl::Nanoseconds(done.busy_ns())};
    RETURN_IF_ERROR(TakeOutputs(done.mutable_outputs(), staging, &event.outputs));
    events->push_back(std::move(event));
  }
  for (executor::v1::PartialDone& done : *message->mutable_partials()) {
    PartialFinished event{executor, JobId(done.job()), Pieces(done.pieces()), {}, done.tasks()};
    RETURN_IF_ERROR(TakeOutputs(done.mutable_outputs(), staging, &event.outputs));
    events->push_back(std::move(event));
  }
  for (const uint64_t piece : message->returned_pieces()) {
    events->push_back(PieceReturned{executor, piece});
  }
  for (executor::v1::TooLarge& large : *message->mutable_too_large()) {
    events->push_back(PieceTooLarge{executor, large.piece(), large.need_bytes(),
                                    large.budget_bytes(), std::move(*large.mutable_reason())});
  }
  for (executor::v1::JobError& error : *message->mutable_job_errors()) {
    events->push_back(JobErrored{executor, JobId(error.job()), std::move(*error.mutable_reason()),
                                 error.fatal(), Pieces(error.pieces())});
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<JobDescribed> Describe(wire::JobDescription description) {
  JobDescribed described = DescribeRefused(description);
  ASSIGN_OR_RETURN(const BoundJob job, ValidateAndBind(std::move(description.spec),
                                                       description.kernel, kAllCapabilities));
  described.kernel = job.kernel_identity;
  described.task_count = job.task_count();
  described.grain = job.grain();
  described.reduces = job.has_reduction();
  described.accumulates = described.reduces && !job.kernel.whole_leaf;
  described.appends = !described.reduces;
  for (const BoundOutput& output : job.outputs) {
    described.accumulates = described.accumulates && output.accumulates();
    described.appends = described.appends && Appends(output);
    if (output.reduced()) described.partial_bytes += output.PieceBytes(job.grain());
  }
  described.cost_ns_per_task = job.ns_per_task;
  described.extents = InnerExtents(job);
  described.time_limit = job.spec.time_limit;
  described.device = job.spec.device;
  described.gpu_memory_bytes = job.spec.resources.gpu_memory_bytes;
  return described;
}

JobDescribed DescribeRefused(const wire::JobDescription& description) {
  JobDescribed described;
  described.job = description.job;
  described.owner = description.spec.owner;
  described.kernel = description.kernel.name;
  described.task_count = RangeTree::kTasksMax;
  described.grain = 1;
  return described;
}

absl::Status ToEvents(ExecutorId executor, const StagingFile& staging,
                      executor::v1::FromExecutor* message, std::vector<Event>* events) {
  const absl::Status status = TakeAll(executor, staging, message, events);
  if (status.ok()) return status;
  return Error(absl::StatusCode::kDataLoss, reason::kProtocolError,
               StrCat("the executor said something impossible: ", ToStd(status.message())));
}

executor::v1::ToExecutor* ToExecutorBuilder::At(Rank rank, Send send) {
  if (rank < last_) Finish(send);
  last_ = rank;
  empty_ = false;
  return &message_;
}

void ToExecutorBuilder::Add(const SetupJob&, const executor::v1::JobSetup& setup, Send send) {
  *At(kSetup, send)->add_setups() = setup;
}

void ToExecutorBuilder::Add(const DiscardAccumulator& effect, Send send) {
  At(kDiscard, send)->add_discard_accumulators(effect.job.value());
}

void ToExecutorBuilder::Add(const CancelPiece& effect, Send send) {
  At(kCancel, send)->add_cancel_pieces(effect.piece);
}

void ToExecutorBuilder::Add(RunPiece effect, Send send) {
  executor::v1::RunPiece* run = At(kRun, send)->add_runs();
  run->set_piece(effect.piece);
  run->set_job(effect.job.value());
  run->set_first_leaf(effect.leaves.first);
  run->set_leaf_count(effect.leaves.count);
  run->set_attempt(effect.attempt);
  run->set_group(effect.group);
  run->set_suspect(effect.suspect);
  run->set_inline_bytes_max(effect.inline_bytes_max);
  run->mutable_skip_tasks()->Add(effect.skip_tasks.begin(), effect.skip_tasks.end());
}

void ToExecutorBuilder::Add(const ShrinkPiece& effect, Send send) {
  executor::v1::ShrinkPiece* shrink = At(kShrink, send)->add_shrinks();
  shrink->set_piece(effect.piece);
  shrink->set_leaves(effect.leaves);
}

void ToExecutorBuilder::Add(const RunMerge& effect, Send send) {
  executor::v1::MergePiece* merge = At(kMerge, send)->add_merges();
  merge->set_piece(effect.piece);
  merge->set_job(effect.job.value());
  merge->set_group(effect.group);
  for (const Partial& input : effect.inputs) wire::Encode(input, merge->add_inputs());
}

void ToExecutorBuilder::Add(const FlushJob& effect, Send send) {
  At(kFlush, send)->add_flush_jobs(effect.job.value());
}

void ToExecutorBuilder::Add(const ForgetJob& effect, Send send) {
  At(kForget, send)->add_forget_jobs(effect.job.value());
}

void ToExecutorBuilder::Add(const ReleaseStaging& effect) {
  executor::v1::ReleaseRegion* release = message_.add_releases();
  release->set_offset(effect.offset);
  release->set_length(effect.length);
  empty_ = false;
}

void ToExecutorBuilder::Finish(Send send) {
  if (!empty_) send(message_);
  message_.Clear();
  last_ = kNothing;
  empty_ = true;
}

}  // namespace tandem::worker
