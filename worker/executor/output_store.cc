#include "worker/executor/output_store.h"

#include <utility>

#include "common/base/status_macros.h"

namespace tandem::worker {

OutputSlot::OutputSlot(OutputSlot&& other) noexcept { *this = std::move(other); }

OutputSlot& OutputSlot::operator=(OutputSlot&& other) noexcept {
  std::swap(output_, other.output_);
  std::swap(bytes_, other.bytes_);
  std::swap(inline_, other.inline_);
  std::swap(memory_, other.memory_);
  std::swap(block_, other.block_);
  return *this;
}

OutputSlot::~OutputSlot() {
  if (memory_ != nullptr) (void)memory_->Release(block_.offset);
}

void OutputSlot::Finish(tandem::v1::OutputPiece* piece) {
  piece->set_output(output_);
  if (memory_ == nullptr) {
    inline_.resize(bytes_);
    piece->set_inline_(std::move(inline_));
    return;
  }
  tandem::v1::Region* region = piece->mutable_region();
  region->set_offset(block_.offset);
  region->set_length(bytes_);
  memory_ = nullptr;  // The supervisor's now.
}

absl::StatusOr<OutputSlot> OutputStore::Make(uint32_t output, uint64_t bytes, uint64_t inline_max) {
  OutputSlot slot;
  slot.output_ = output;
  slot.bytes_ = bytes;
  if (bytes <= inline_max || bytes == 0) {
    slot.inline_.resize(bytes);
    return slot;
  }
  ASSIGN_OR_RETURN(slot.block_, memory_->Allocate(bytes));
  slot.memory_ = memory_;
  return slot;
}

}  // namespace tandem::worker
