// Piece: a run of leaves of one job on its way through an executor: operands, arguments, outputs.
//
//   waiting (its operands are on their way) → ready → running → finished
//
// Thread-safety: belongs to the executor's loop, but for its views while waiting (an I/O thread)
// and everything while running (the lane).
// Ownership: owns its buffers and views; its job outlives it.
#ifndef TANDEM_WORKER_EXECUTOR_PIECE_H_
#define TANDEM_WORKER_EXECUTOR_PIECE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/model/plan.h"
#include "tandem/executor/v1/executor.pb.h"
#include "worker/device/buffers.h"
#include "worker/device/device.h"
#include "worker/executor/args.h"
#include "worker/executor/content_ids.h"
#include "worker/executor/job.h"
#include "worker/executor/operand_view.h"
#include "worker/executor/output_store.h"
#include "worker/executor/partial_output.h"
#include "worker/executor/ragged_output.h"

namespace tandem::worker {

// What of a batch one piece is answerable for.
struct PieceCost {
  bool first_launch = false;
  uint64_t busy_ns = 0, host_ns = 0, up_ns = 0, grid_ns = 0, down_ns = 0;
  uint64_t bytes_up = 0, bytes_down = 0;
};

class Piece {
 public:
  // REQUIRES: the leaves are some of the job's; a node, when the job is ordered.
  Piece(const executor::v1::RunPiece& run, Job* job, uint32_t lanes);
  ~Piece();

  uint64_t id() const { return run_.piece(); }
  // As it was asked for.
  const executor::v1::RunPiece& run() const { return run_; }
  uint64_t leaves() const { return run_.leaf_count(); }
  Job* job() const { return job_; }
  uint32_t lane() const { return lane_; }
  const TaskRange& tasks() const { return plan_.tasks; }
  bool suspect() const { return run_.suspect(); }
  // Of one core; and of the device.
  double expected_ns() const { return job_->cost.ns() * static_cast<double>(plan_.tasks.size()); }
  double device_ns() const { return expected_ns() * job_->device_time; }

  // Makes the views; true when nothing has to be waited for.
  bool Settle();
  // Waits for the operands: on an I/O thread.
  absl::Status Wait();

  // Room for arguments, fault bytes and outputs. `contents`: for a device with a memory of its own,
  // else null. Errors: RESOURCE_EXHAUSTED.
  absl::Status Allocate(OutputStore* store, BufferPool* pool, ContentIds* contents);
  // It can be cut short while it runs.
  bool cuttable() const;
  // … from now on. REQUIRES: before Part().
  void MakeCuttable() { cursor_ = std::make_unique<LeafCursor>(static_cast<uint32_t>(leaves())); }
  LeafCursor* cursor() { return cursor_.get(); }
  // It has run: what was cut off is not its own any more. Again: nothing.
  void TakeCut();
  // What the device runs. REQUIRES: Allocate; the accumulator where partials are gathered in one.
  BatchPart Part();
  bool needs_before() const;
  void Before(HostCrew& crew);
  bool needs_after() const { return !ragged_.empty() || stores_partial(); }
  // Lays out what the tasks left; `failed`: how many have a fault byte.
  absl::Status After(HostCrew& crew, int64_t failed, OutputStore* store);
  // An exact partial of this piece alone, beside outputs that are no reductions: it is collected
  // into partial() once the piece has run, and then stored.
  bool collects() const { return collects_; }
  PartialOutput* partial() { return &partial_; }
  // Fills in the report of a piece that ran.
  void Finish(int64_t failed, executor::v1::PieceDone* done);

  enum class State { kWaiting, kReady, kRunning };
  State state = State::kWaiting;
  bool cancelled = false;
  uint64_t keep_leaves = 0;  // once it is settled; 0: all
  PieceCost cost;
  int64_t arrived_ns = 0;
  int64_t ready_ns = 0;
  std::shared_ptr<JobAccumulator> accumulator;

 private:
  bool stores_partial() const { return job_->ordered(); }
  void TakeItemFaults();
  absl::Status AllocateOutputs(OutputStore* store, BufferPool* pool, std::vector<void*>* pointers);
  uint64_t DenseBytes() const;
  void DescribeBuffers(absl::Span<const void* const> operands, absl::Span<void* const> outputs,
                       ContentIds* contents);
  void AddFailures(int64_t failed, executor::v1::PieceDone* done) const;

  executor::v1::RunPiece run_;
  Job* const job_;
  const uint32_t lane_;
  Plan plan_;
  std::vector<std::unique_ptr<OperandView>> views_;
  std::vector<uint64_t> skip_;            // given up, or without an operand; ascending
  std::vector<std::string> skip_reason_;  // beside skip_

  std::unique_ptr<LeafCursor> cursor_;
  ArgWords args_;
  std::vector<PartBuffer> buffers_;
  BufferPool* pool_ = nullptr;
  AlignedBuffer faults_;
  bool clear_faults_ = false;      // on the lane, before the kernel
  std::vector<OutputSlot> slots_;  // concatenated outputs, in order
  // Ragged outputs: their index in the signature, and what was written.
  std::vector<std::pair<uint32_t, std::unique_ptr<RaggedOutput>>> ragged_;
  bool collects_ = false;
  PartialOutput partial_;  // reduced outputs of a piece that does not accumulate
};

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_EXECUTOR_PIECE_H_
