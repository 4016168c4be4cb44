// GpuBatch: one batch on its way through a device: what it needs there, what goes up, which grids
// run, and what comes down.
//
//   Begin(crew)      host: work before the kernel; ragged items are measured
//   Plan()           where everything will lie
//   Pack(crew)       host: fills its block in pinned memory; ragged items are prepared
//   steps()          one grid each: all parts in one, but for suspects, which run task by task
//   Unpack(crew)     host: outputs, fault bytes and partials; ragged items are finished
//
// A part's partial (float sums, own merges) is made of one partial a leaf, folded on the host: the
// order is that of the range tree, the ABI has no merge on the device, and leaves are few.
//
// Thread-safety: one thread at a time; the host's three steps spread over a crew by themselves.
// Ownership: points to the batch; memory of the device and pinned memory are the engine's.
#ifndef TANDEM_WORKER_DEVICE_GPU_GPU_BATCH_H_
#define TANDEM_WORKER_DEVICE_GPU_GPU_BATCH_H_

#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "worker/device/buffers.h"
#include "worker/device/cpu/crew.h"
#include "worker/device/device.h"
#include "worker/device/gpu/block_layout.h"
#include "worker/device/gpu/device_memory.h"
#include "worker/device/gpu/gpu_accumulator.h"
#include "worker/device/gpu_runtime.h"

namespace tandem::worker {

// Copies, in parallel where it is worth it.
void CopyBytes(Crew& crew, void* to, const void* from, uint64_t bytes);

class GpuBatch {
 public:
  using Chunk = BlockLayout::Chunk;

  // An operand, once however many parts have it.
  struct Input {
    const void* host = nullptr;
    uint64_t bytes = 0;
    uint64_t content = 0;
    bool table = false;                // of TandemBytes, whose items lie in `items`
    Chunk chunk = BlockLayout::kNone;  // in the block; for one that stays, its staging
    std::vector<Chunk> items;
    bool shared = false;  // as PartBuffer's
    bool stays = false;
    Resident* resident = nullptr;  // of one that stays, once there is room
    bool fresh = false;            // … and it has to go up
  };
  // A run of tasks in a grid: becomes a TandemPart.
  struct Launch {
    uint32_t part = 0;
    int64_t begin = 0, end = 0;  // tasks, from the part's first; an item's rows
    Chunk partial = BlockLayout::kNone;
    int32_t gathered = -1;  // index into gathered()
    int32_t item = -1;
  };
  struct Step {
    size_t begin = 0, end = 0;         // launches
    bool suspect = false;              // one task by itself
    Chunk fresh = BlockLayout::kNone;  // goes up anew before it
    size_t table_begin = 0;            // its first entry in the table of parts
  };
  // A partial that is gathered over many batches.
  struct Gathered {
    GatheredPartial* partial = nullptr;
    Chunk chunk = BlockLayout::kNone;  // of one that travels; staging for one that is fresh
    bool fresh = false;                // it stays on the device, and begins there now
    int64_t tasks = 0;
  };
  // Where its block came to lie.
  struct Place {
    DeviceAddress device;
    uint8_t* pinned = nullptr;
    DeviceAddress workspace;
    bool mapped =
        false;  // `device` is where grids reach the pinned block itself: nothing is copied
  };

  // Operands of a known content from `resident_bytes_min` on stay on the device.
  GpuBatch(Batch* batch, uint64_t resident_bytes_min, BufferPool* pool)
      : batch_(batch), resident_bytes_min_(resident_bytes_min), pool_(pool) {}

  Batch* batch() const { return batch_; }
  bool has_items() const { return (batch_->kernel->flags & TANDEM_HOST_STAGES) != 0; }

  void Begin(Crew& crew, StartLog* log);
  void Plan();
  const BlockLayout& layout() const { return layout_; }
  uint64_t workspace_bytes() const { return workspace_bytes_; }
  std::vector<Input>& inputs() { return inputs_; }
  const std::vector<Input>& inputs() const { return inputs_; }
  std::vector<Gathered>& gathered() { return gathered_; }
  // Staging for what is fresh, once that is known.
  void PlanStaging();

  absl::Status Pack(Crew& crew, StartLog* log, const Place& place);
  const std::vector<Step>& steps() const { return steps_; }
  const Launch& launch(size_t index) const { return launches_[index]; }
  // The parts of a step's grid. REQUIRES: Pack.
  absl::Span<const TandemPart> PartsOf(const Step& step) const;
  double ExpectedNanos(const Step& step) const;

  absl::Status Unpack(Crew& crew, StartLog* log, const Place& place);

  // Time that threads spent in the kernel's host stages.
  int64_t stage_thread_ns() const { return stage_ns_.load(); }

 private:
  struct Output {
    void* host = nullptr;
    uint64_t bytes = 0;
    Chunk chunk = BlockLayout::kNone;
    bool goes_up = false;
  };
  // A pointer in a part's arguments.
  struct Patch {
    uint32_t part = 0;
    uint32_t args_offset = 0;
    enum class To { kNull, kInput, kOutput } to = To::kNull;
    uint32_t index = 0;
  };
  // A run of tasks of a leaf, with a partial; one that is not run stands in own merges.
  struct Segment {
    int64_t begin = 0, end = 0;
    Chunk partial = BlockLayout::kNone;  // kNone: skipped
  };
  struct Folded {
    uint32_t part = 0;
    std::vector<Segment> segments;
    std::vector<size_t> leaf_at;  // the first segment of each leaf, and behind the last
  };
  struct Item {
    uint32_t part = 0;
    int64_t at = 0;  // task, from the part's first
    TandemNeed need = {0, 0, 0, 0};
    int32_t fault = TANDEM_OK;
    Chunk in = BlockLayout::kNone, out = BlockLayout::kNone;
  };

  // Plan.
  void PlanBuffers(uint32_t index);
  uint32_t InputOf(const PartBuffer& buffer);
  uint32_t OutputOf(const PartBuffer& buffer, bool goes_up);
  void PlanPart(uint32_t index);
  void PlanFold(uint32_t index);
  void PlanSuspect(uint32_t index, Chunk partial, int32_t gathered);
  void PlanItems();
  int32_t GatheredOf(const BatchPart& part);
  void AddStep(size_t begin, bool suspect, Chunk fresh);
  int64_t PartialBytes(const BatchPart& part, int64_t tasks) const;

  // Pack.
  void CopyOperands(Crew& crew, const Place& place);
  void FreshenPartials(const Place& place);
  void PatchWork(uint32_t part, uint8_t* work);
  void PatchArgs(const Place& place);
  void MakeParts(const Place& place);
  DeviceAddress AddressOf(const Input& input, const Place& place) const;
  uint8_t* ArgsOf(uint32_t part) { return args_.data() + part * args_stride_; }

  // Items.
  void Measure(Crew& crew, StartLog* log);
  void Prepare(Crew& crew, StartLog* log, const Place& place);
  void Finish(Crew& crew, StartLog* log);
  template <class F>
  void EachItem(Crew& crew, StartLog* log, F f);
  TandemTask TaskOf(const Item& item) const;
  uint8_t* ShapeOf(size_t item) { return shapes_.data() + item * shape_stride_; }
  uint8_t* WorkOf(size_t item) { return works_.data() + item * work_stride_; }
  uint8_t* DeviceWorkOf(size_t item) { return device_works_.data() + item * work_stride_; }

  // Unpack.
  void CopyOutputs(Crew& crew, const Place& place);
  absl::Status Fold(Crew& crew, const Folded& folded, const Place& place);

  Batch* const batch_;
  const uint64_t resident_bytes_min_;
  BufferPool* const pool_;
  BlockLayout layout_;
  uint64_t workspace_bytes_ = 0;
  std::vector<Input> inputs_;
  std::vector<Output> outputs_;
  absl::flat_hash_map<std::pair<uint64_t, const void*>, uint32_t> input_by_;  // content, or host
  absl::flat_hash_map<const void*, uint32_t> output_by_host_;
  std::vector<Patch> patches_;
  std::vector<Chunk> faults_;  // beside the parts
  std::vector<Gathered> gathered_;
  absl::flat_hash_map<const Accumulator*, int32_t> gathered_by_;
  std::vector<Folded> folded_;
  struct Fresh {
    uint32_t part;
    Chunk chunk;
    int64_t tasks;
  };
  std::vector<Fresh> fresh_;  // partials to initialise
  std::vector<Launch> launches_;
  std::vector<Step> steps_;
  Chunk table_ = BlockLayout::kNone;
  int64_t tasks_ = 0;  // of all launches

  uint64_t args_stride_ = 0;
  AlignedBuffer args_;
  std::vector<TandemPart> parts_;  // of all steps

  std::vector<Item> items_;
  uint64_t shape_stride_ = 0, work_stride_ = 0;
  AlignedBuffer shapes_, works_, device_works_;
  bool no_memory_ = false;
  std::atomic<int64_t> stage_ns_ = 0;
};

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_DEVICE_GPU_GPU_BATCH_H_
