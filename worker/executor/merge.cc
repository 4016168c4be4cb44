#include "worker/executor/merge.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/model/job_order.h"
#include "common/wire/lease_messages.h"

namespace tandem::worker {
namespace {

// A commit's outputs are those of its tasks too; only its partial is merged.
OutputsHandle OnlyReduced(const BoundJob& job, OutputsHandle outputs) {
  const auto placed = [&job](const OutputPiece& piece) {
    return piece.output >= job.outputs.size() || !job.outputs[piece.output].reduced();
  };
  if (outputs == nullptr || std::none_of(outputs->begin(), outputs->end(), placed)) return outputs;
  auto reduced = std::make_shared<CommitOutputs>(*outputs);
  std::erase_if(*reduced, placed);
  return reduced;
}

}  // namespace

Merge::Merge(executor::v1::MergePiece* message, Job* job, BufferPool* pool)
    : id_(message->piece()),
      job_(job),
      lane_(message->group()),
      pool_(pool),
      decoded_(DecodeInputs(message)) {}

Merge::~Merge() {
  for (Input& input : inputs_) pool_->Give(std::move(input.buffer));
}

absl::Status Merge::DecodeInputs(executor::v1::MergePiece* message) {
  inputs_.resize(static_cast<size_t>(message->inputs_size()));
  for (size_t i = 0; i < inputs_.size(); ++i) {
    Partial& partial = inputs_[i].partial;
    RETURN_IF_ERROR(wire::Decode(message->mutable_inputs(static_cast<int>(i)), &partial));
    partial.outputs = OnlyReduced(job_->bound(), std::move(partial.outputs));
    if (partial.leaves.empty() && job_->ordered()) {
      return InvalidError(reason::kProtocolError, "a partial of no leaves cannot be put in order");
    }
  }
  std::stable_sort(inputs_.begin(), inputs_.end(), [](const Input& a, const Input& b) {
    const uint64_t first_a = a.partial.leaves.empty() ? 0 : a.partial.leaves.front().first;
    const uint64_t first_b = b.partial.leaves.empty() ? 0 : b.partial.leaves.front().first;
    return first_a < first_b;
  });
  return absl::OkStatus();
}

// Others are merged into an input as far as the largest node goes that begins with it.
uint64_t Merge::RoomFor(size_t input) const {
  uint64_t tasks = 0;
  if (!OwnMerge(job_->bound())) {
    for (const Input& each : inputs_) tasks += each.tasks;
  } else {
    const uint64_t first = inputs_[input].partial.leaves.front().first;
    const uint64_t reach = first == 0 ? UINT64_MAX : first + (first & (~first + 1));
    for (size_t i = input; i < inputs_.size(); ++i) {
      if (inputs_[i].partial.leaves.front().first < reach) tasks += inputs_[i].tasks;
    }
  }
  const int64_t asked =
      job_->kernel()->partial_bytes(job_->args().bare(), static_cast<int64_t>(tasks));
  return std::max(static_cast<uint64_t>(std::max<int64_t>(asked, 0)),
                  PartialLayout::Of(job_->bound(), tasks).bytes);
}

absl::Status Merge::PlaceInput(Input* input, bool first, uint64_t capacity) {
  if (first) {
    input->data = static_cast<uint8_t*>(static_cast<void*>(output_.data()));
  } else {
    input->buffer = pool_->Take(capacity);
    input->data = input->buffer.data();
  }
  if (input->data == nullptr) {
    return Error(absl::StatusCode::kResourceExhausted, reason::kOutOfMemory,
                 StrCat("no memory for a partial of ", HumanSize(capacity)));
  }
  const CommitOutputs none;
  const CommitOutputs& pieces = input->partial.outputs == nullptr ? none : *input->partial.outputs;
  if (pieces.empty() && job_->ordered() && input->partial.tasks == 0) {
    input->layout.fields.clear();
    input->empty = !OwnMerge(job_->bound());
    if (input->empty) return absl::OkStatus();
    std::memset(input->data, 0, capacity);
    job_->kernel()->partial_init(job_->args().bare(), input->data);
    return absl::OkStatus();
  }
  if (pieces.size() != input->layout.fields.size()) {
    return InvalidError(reason::kProtocolError,
                        StrCat("a partial has ", pieces.size(), " outputs instead of ",
                               input->layout.fields.size()));
  }
  for (size_t i = 0; i < pieces.size(); ++i) {
    const PartialField& field = input->layout.fields[i];
    const auto* bytes = std::get_if<std::string>(&pieces[i].where);
    const uint64_t length =
        bytes != nullptr ? bytes->size() : std::get<Region>(pieces[i].where).length;
    if (pieces[i].output != field.output || length != field.bytes) {
      return InvalidError(
          reason::kProtocolError,
          StrCat("output ", pieces[i].output, " of a partial has ", length, " bytes; output ",
                 field.output, " with ", field.bytes, " is due"));
    }
    if (bytes == nullptr) {
      waits_ = true;
    } else if (length > 0) {
      std::memcpy(input->data + field.offset, bytes->data(), length);
    }
  }
  return absl::OkStatus();
}

absl::Status Merge::Start(OutputStore* store) {
  RETURN_IF_ERROR(decoded_);
  if (!job_->reduces()) {
    return InvalidError(reason::kProtocolError, "a job without reductions has nothing to merge");
  }
  uint64_t tasks = 0;
  for (Input& input : inputs_) {
    counted_ += input.partial.tasks;
    failed_ += input.partial.failed;
    input.tasks = input.partial.tasks + input.partial.failed;
    input.layout = PartialLayout::Of(job_->bound(), input.tasks);
    tasks += input.tasks;
  }
  ASSIGN_OR_RETURN(output_,
                   PartialOutput::Make(*job_, tasks, store, pool_, kPartialInlineBytesMax));
  for (size_t i = 0; i < inputs_.size(); ++i) {
    RETURN_IF_ERROR(PlaceInput(&inputs_[i], i == 0, RoomFor(i)));
  }
  return absl::OkStatus();
}

absl::Status Merge::Wait(const Abandoned& abandoned) {
  for (Input& input : inputs_) {
    for (size_t i = 0; i < input.layout.fields.size(); ++i) {
      const auto* region = std::get_if<Region>(&(*input.partial.outputs)[i].where);
      if (region == nullptr || region->length == 0) continue;
      char* to = reinterpret_cast<char*>(input.data + input.layout.fields[i].offset);
      RETURN_IF_ERROR(
          RetryUnavailable(abandoned, [&] { return job_->remote()->ReadRegion(*region, to); }));
    }
  }
  return absl::OkStatus();
}

uint64_t Merge::work_bytes() const {
  uint64_t bytes = 0;
  for (const Input& input : inputs_) bytes += input.layout.bytes;
  return bytes;
}

absl::Status Merge::Combine(Input* into, const Input& from) {
  if (from.empty || into->empty) {
    if (!from.empty && from.layout.bytes > 0) {
      std::memcpy(into->data, from.data, from.layout.bytes);
    }
    into->empty = from.empty && into->empty;
    into->tasks += from.tasks;
    return absl::OkStatus();
  }
  const int32_t code =
      job_->kernel()->merge(job_->args().bare(), into->data, static_cast<int64_t>(into->tasks),
                            from.data, static_cast<int64_t>(from.tasks));
  into->tasks += from.tasks;
  if (code == 0) return absl::OkStatus();
  return Error(absl::StatusCode::kInternal, reason::kDeviceFault,
               StrCat("the merge of kernel ", job_->kernel()->name, " failed with code ", code));
}

absl::Status Merge::RunInAnyOrder() {
  for (size_t i = 1; i < inputs_.size(); ++i) {
    RETURN_IF_ERROR(Combine(&inputs_.front(), inputs_[i]));
  }
  return absl::OkStatus();
}

Merge::Input* Merge::FindInput(LeafRange leaves) {
  const auto it = std::lower_bound(inputs_.begin(), inputs_.end(), leaves.begin,
                                   [](const Input& input, uint64_t first) {
                                     return input.partial.leaves.front().first < first;
                                   });
  if (it == inputs_.end()) return nullptr;
  const LeafInterval& held = it->partial.leaves.front();
  return held.first == leaves.begin && held.count == leaves.size() ? &*it : nullptr;
}

absl::Status Merge::Fold(Node node, Input** result) {
  const RangeTree& tree = job_->bound().tree;
  *result = FindInput(tree.Leaves(node));
  if (*result != nullptr) return absl::OkStatus();
  if (RangeTree::IsLeaf(node)) {
    return InvalidError(reason::kProtocolError,
                        StrCat("the partials leave out leaf ", node.first_leaf));
  }
  Input* right = nullptr;
  RETURN_IF_ERROR(Fold(tree.Left(node), result));
  RETURN_IF_ERROR(Fold(tree.Right(node), &right));
  return Combine(*result, *right);
}

absl::Status Merge::Run() {
  if (inputs_.empty()) return StoreIdentity();
  if (!job_->ordered()) {
    RETURN_IF_ERROR(RunInAnyOrder());
    return output_.Store();
  }
  LeafRange all = {inputs_.front().partial.leaves.front().first, 0};
  uint64_t covered = 0;
  for (const Input& input : inputs_) {
    const LeafInterval& leaves = input.partial.leaves.front();
    all.end = leaves.first + leaves.count;
    covered += leaves.count;
  }
  Node node;
  if (all.end > job_->bound().tree.leaf_count() || covered != all.size() ||
      !job_->bound().tree.NodeOf(all, &node)) {
    return InvalidError(reason::kProtocolError,
                        StrCat("partials over leaves ", all.ToString(), " make up no node"));
  }
  Input* result = nullptr;
  RETURN_IF_ERROR(Fold(node, &result));
  return result->empty ? StoreIdentity() : output_.Store();
}

absl::Status Merge::StoreIdentity() {
  if (output_.output_bytes() > 0) std::memset(output_.data(), 0, output_.output_bytes());
  job_->kernel()->partial_init(job_->args().bare(), output_.data());
  return output_.Store();
}

void Merge::Finish(executor::v1::MergeDone* done) {
  done->set_piece(id_);
  done->set_tasks(counted_);
  done->set_failed(failed_);
  output_.Finish(done->mutable_outputs());
}

}  // namespace tandem::worker
