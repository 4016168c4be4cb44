// Ragged items with host stages: measure, staging, prepare, the cells, finish; an item a thread,
// with staging that the thread keeps.
#include <algorithm>
#include <atomic>

#include "common/base/error.h"
#include "worker/device/cpu/batch_runner.h"

namespace tandem::worker {
namespace {

constexpr size_t kStageAlign = 64;

// Adds the time of the body itself to *body_ns.
int32_t RunItem(const RunContext& context, const BatchPart& part, int64_t at, uint32_t slot,
                int64_t* body_ns) {
  const TandemKernelV1* kernel = context.batch->kernel;
  SlotMemory& memory = (*context.slots)[slot];
  const TandemTask task = {part.first.id + at, part.first.row + at};
  void* shape = memory.shape.Ensure(std::max<size_t>(kernel->shape_bytes, kStageAlign));
  void* work = memory.work.Ensure(std::max<size_t>(kernel->work_bytes, kStageAlign));
  if (shape == nullptr || work == nullptr) return TANDEM_FAULT_OUT_OF_MEMORY;
  TandemNeed need = {0, 0, 0, 0};
  if (const int32_t fault = kernel->measure(part.args, task, shape, &need); fault != TANDEM_OK) {
    return fault;
  }
  if (need.in_bytes < 0 || need.out_bytes < 0 || need.in_bytes > kItemStagingBytesMax ||
      need.out_bytes > kItemStagingBytesMax) {
    return TANDEM_FAULT_OUT_OF_MEMORY;
  }
  TandemStage stage = {memory.stage_in.Ensure(std::max<size_t>(need.in_bytes, 1)),
                       memory.stage_out.Ensure(std::max<size_t>(need.out_bytes, 1)), need.across,
                       need.down};
  bool no_scratch = false;
  void* scratch = ScratchFor(context, part, slot, &no_scratch);
  if (stage.in == nullptr || stage.out == nullptr || no_scratch) return TANDEM_FAULT_OUT_OF_MEMORY;
  if (const int32_t fault = kernel->prepare(part.args, task, shape, &stage, work);
      fault != TANDEM_OK) {
    return fault;
  }
  const TandemPart cells = {work, {task.id, 0}, need.down, nullptr, nullptr};
  const int64_t start = NowNanos();
  kernel->range(&cells, 1, scratch);
  *body_ns += NowNanos() - start;
  return kernel->finish(part.args, task, shape, work);
}

}  // namespace

void RunItems(const RunContext& context, BatchPart& part, int64_t begin, int64_t end,
              std::atomic<int64_t>* failed) {
  const uint32_t slot = context.crew->slot();
  const int64_t start = NowNanos();
  int64_t body_ns = 0;
  ForEachRun(part, begin, end, [&](int64_t b, int64_t e) {
    for (int64_t i = b; i < e; ++i) {
      const auto id = static_cast<uint64_t>(part.first.id + i);
      context.log->Begin(slot, part.job, id / part.grain, 1, part.suspect ? id : StartLog::kNoTask);
      const int32_t fault = RunItem(context, part, i, slot, &body_ns);
      part.fault[i] = static_cast<uint8_t>(fault);
      if (fault != TANDEM_OK) failed->fetch_add(1, std::memory_order_relaxed);
    }
  });
  context.log->End(slot);
  const int64_t took = NowNanos() - start;
  context.thread_ns->fetch_add(took, std::memory_order_relaxed);
  context.host_ns->fetch_add(took - body_ns, std::memory_order_relaxed);
}

absl::Status RunHostStages(const RunContext& context) {
  std::vector<BatchPart>& parts = context.batch->parts;
  const Starts starts = StartsOf(parts);
  std::vector<std::atomic<int64_t>> failed(parts.size());
  const int64_t items = starts.back();
  context.crew->ParallelFor(
      items, HasSuspect(*context.batch) ? items : 1, [&](int64_t begin, int64_t end) {
        ForEachPart(starts, begin, end, [&](size_t at, int64_t from, int64_t to) {
          RunItems(context, parts[at], from, to, &failed[at]);
        });
      });
  for (size_t i = 0; i < parts.size(); ++i) parts[i].failed = failed[i];
  return absl::OkStatus();
}

}  // namespace tandem::worker
