#include "worker/executor/partial_output.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace tandem::worker {

PartialOutput::~PartialOutput() {
  if (pool_ != nullptr) pool_->Give(std::move(buffer_));
}

uint64_t PartialOutput::output_bytes() const {
  uint64_t bytes = 0;
  for (const PartialField& field : layout_.fields) bytes += field.bytes;
  return bytes;
}

absl::StatusOr<PartialOutput> PartialOutput::Make(const Job& job, uint64_t tasks,
                                                  OutputStore* store, BufferPool* pool,
                                                  uint64_t inline_max) {
  PartialOutput out;
  out.layout_ = PartialLayout::Of(job.bound(), tasks);
  out.store_ = store;
  out.pool_ = pool;
  out.inline_max_ = inline_max;
  const int64_t asked = job.kernel()->partial_bytes(job.args().bare(), static_cast<int64_t>(tasks));
  const uint64_t bytes =
      std::max(out.layout_.bytes, static_cast<uint64_t>(std::max<int64_t>(asked, 0)));
  if (out.layout_.fields.size() == 1 && out.output_bytes() > inline_max) {
    const PartialField& field = out.layout_.fields.front();
    ASSIGN_OR_RETURN(OutputSlot slot, store->Make(field.output, bytes, 0));
    out.slots_.push_back(std::move(slot));
    out.in_place_ = true;
    return out;
  }
  out.buffer_ = pool->Take(bytes);
  if (out.buffer_.data() == nullptr) {
    return Error(absl::StatusCode::kResourceExhausted, reason::kOutOfMemory,
                 StrCat("no memory for a partial of ", HumanSize(bytes)));
  }
  return out;
}

absl::Status PartialOutput::Store() {
  if (in_place_) {
    slots_.front().Trim(layout_.fields.front().bytes);
    return absl::OkStatus();
  }
  const uint64_t inline_max = output_bytes() <= inline_max_ ? inline_max_ : 0;
  std::vector<OutputSlot> slots;
  for (const PartialField& field : layout_.fields) {
    ASSIGN_OR_RETURN(OutputSlot slot, store_->Make(field.output, field.bytes, inline_max));
    if (field.bytes > 0) std::memcpy(slot.data(), buffer_.data() + field.offset, field.bytes);
    slots.push_back(std::move(slot));
  }
  slots_ = std::move(slots);
  return absl::OkStatus();
}

void PartialOutput::Finish(google::protobuf::RepeatedPtrField<tandem::v1::OutputPiece>* outputs) {
  for (OutputSlot& slot : slots_) slot.Finish(outputs->Add());
}

}  // namespace tandem::worker
