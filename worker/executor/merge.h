// Merge: partials of one job becoming one: fetched, merged in the right order, reported.
//
// Exact reductions merge in any order. Ordered ones (float sums, a kernel's own merge) come as
// whole nodes that make up one node, and are folded up the range tree: the bytes are those of the
// unsplit reduction. None at all make the identity. An ordered input without a value stands for
// leaves that were given up: it adds nothing to a sum, and to a kernel's own merge what tasks that
// do not run stand for (worker/device/cpu/fold.cc).
//
// Thread-safety: one thread at a time: the loop, an I/O thread (Wait), a lane (Run), the loop.
// Ownership: owns its buffers; its job outlives it.
#ifndef TANDEM_WORKER_EXECUTOR_MERGE_H_
#define TANDEM_WORKER_EXECUTOR_MERGE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "common/model/lease_messages.h"
#include "tandem/executor/v1/executor.pb.h"
#include "worker/executor/byte_source.h"
#include "worker/executor/job.h"
#include "worker/executor/partial_output.h"

namespace tandem::worker {

class Merge {
 public:
  // `message` is consumed.
  Merge(executor::v1::MergePiece* message, Job* job, BufferPool* pool);
  ~Merge();

  uint64_t id() const { return id_; }
  Job* job() const { return job_; }
  uint32_t lane() const { return lane_; }
  // Checks the inputs, makes room and copies what is inline. Errors: INVALID_ARGUMENT for inputs
  // that do not fit the job, RESOURCE_EXHAUSTED.
  absl::Status Start(OutputStore* store);
  bool waits() const { return waits_; }
  // Reads the inputs' regions. Errors: see OperandSource.
  absl::Status Wait(const Abandoned& abandoned);
  // Bytes that Run looks at.
  uint64_t work_bytes() const;
  absl::Status Run();
  // REQUIRES: Run() returned OK.
  void Finish(executor::v1::MergeDone* done);

  bool cancelled = false;
  bool running = false;

 private:
  struct Input {
    Partial partial;
    PartialLayout layout;
    AlignedBuffer buffer;  // not of the first: that one lies in the output
    uint8_t* data = nullptr;
    uint64_t tasks = 0;  // counted and failed
    bool empty = false;  // of leaves that were given up, in a sum
  };
  absl::Status DecodeInputs(executor::v1::MergePiece* message);
  uint64_t RoomFor(size_t input) const;
  absl::Status PlaceInput(Input* input, bool first, uint64_t capacity);
  absl::Status RunInAnyOrder();
  absl::Status Fold(Node node, Input** result);
  absl::Status Combine(Input* into, const Input& from);
  absl::Status StoreIdentity();
  Input* FindInput(LeafRange leaves);

  const uint64_t id_;
  Job* const job_;
  const uint32_t lane_;
  BufferPool* const pool_;
  std::vector<Input> inputs_;  // ascending by first leaf
  PartialOutput output_;
  bool waits_ = false;
  uint64_t counted_ = 0;
  uint64_t failed_ = 0;
  const absl::Status decoded_;  // Last: decoding fills in what stands above.
};

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_EXECUTOR_MERGE_H_
