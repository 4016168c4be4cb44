// OutputStore: where a piece's output bytes go: into the message while they are small, else into
// the staging file that the supervisor maps.
//
//   OutputSlot slot = store.Make(output, bytes, inline_max);   // write slot.data
//   slot.Finish(done->add_outputs());
//
// Thread-safety: OutputStore may be used from any thread; a slot by one at a time.
// Ownership: a slot that is dropped unfinished gives its staging back.
#ifndef TANDEM_WORKER_EXECUTOR_OUTPUT_STORE_H_
#define TANDEM_WORKER_EXECUTOR_OUTPUT_STORE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "tandem/v1/types.pb.h"
#include "worker/ring/staging.h"

namespace tandem::worker {

// Bytes of a partial that still ride in the report. (A piece is told its own bound.)
inline constexpr uint64_t kPartialInlineBytesMax = 512;

class OutputSlot {
 public:
  OutputSlot() = default;
  OutputSlot(OutputSlot&& other) noexcept;
  OutputSlot& operator=(OutputSlot&& other) noexcept;
  ~OutputSlot();

  char* data() { return memory_ == nullptr ? inline_.data() : block_.data; }
  uint32_t output() const { return output_; }
  uint64_t bytes() const { return bytes_; }
  // Only the first `bytes` are the output. REQUIRES: bytes <= bytes().
  void Trim(uint64_t bytes) { bytes_ = bytes; }
  // Moves the bytes (or where they are) into the message.
  void Finish(tandem::v1::OutputPiece* piece);

 private:
  friend class OutputStore;
  uint32_t output_ = 0;
  uint64_t bytes_ = 0;
  std::string inline_;
  StagingAllocator* memory_ = nullptr;  // null: inline
  StagingBlock block_;
};

class OutputStore {
 public:
  // `memory` outlives the store and its slots.
  explicit OutputStore(StagingAllocator* memory) : memory_(memory) {}

  // Room for `bytes` of one output; zeros where inline, else unspecified. Nothing is always inline.
  // Errors: RESOURCE_EXHAUSTED when the staging file may not grow.
  absl::StatusOr<OutputSlot> Make(uint32_t output, uint64_t bytes, uint64_t inline_max);
  // The supervisor has taken a slot's bytes.
  absl::Status Release(uint64_t offset) { return memory_->Release(offset); }

 private:
  StagingAllocator* const memory_;
};

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_EXECUTOR_OUTPUT_STORE_H_
