// PartialOutput: memory in which a partial is made, and its way into a report: one piece an output.
//
//   ASSIGN_OR_RETURN(PartialOutput out, PartialOutput::Make(job, tasks, store, pool, inline_max));
//   … the device writes out.data() …
//   RETURN_IF_ERROR(out.Store());          // copies, where the partial is not its output already
//   out.Finish(done->mutable_outputs());
//
// A large partial of a single output is made in the staging file itself.
//
// Thread-safety: one thread at a time. Ownership: owns its memory until Finish.
#ifndef TANDEM_WORKER_EXECUTOR_PARTIAL_OUTPUT_H_
#define TANDEM_WORKER_EXECUTOR_PARTIAL_OUTPUT_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "google/protobuf/repeated_ptr_field.h"
#include "worker/device/buffers.h"
#include "worker/executor/job.h"
#include "worker/executor/output_store.h"
#include "worker/executor/partial_layout.h"

namespace tandem::worker {

class PartialOutput {
 public:
  PartialOutput() = default;
  PartialOutput(PartialOutput&&) = default;
  PartialOutput& operator=(PartialOutput&&) = default;
  ~PartialOutput();

  // For a partial that counts at most `tasks` tasks. Errors: RESOURCE_EXHAUSTED.
  static absl::StatusOr<PartialOutput> Make(const Job& job, uint64_t tasks, OutputStore* store,
                                            BufferPool* pool, uint64_t inline_max);
  void* data() {
    if (in_place_) return slots_.front().data();
    return buffer_.data();
  }
  uint64_t output_bytes() const;
  absl::Status Store();
  // REQUIRES: Store() returned OK.
  void Finish(google::protobuf::RepeatedPtrField<tandem::v1::OutputPiece>* outputs);

 private:
  PartialLayout layout_;
  OutputStore* store_ = nullptr;
  BufferPool* pool_ = nullptr;
  uint64_t inline_max_ = 0;
  bool in_place_ = false;
  AlignedBuffer buffer_;
  std::vector<OutputSlot> slots_;
};

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_EXECUTOR_PARTIAL_OUTPUT_H_
