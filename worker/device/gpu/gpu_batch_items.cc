// GpuBatch: ragged items: measured and prepared on the host, one grid over the rows of all of them,
// finished on the host.
#include <algorithm>
#include <cstring>

#include "worker/device/cpu/batch_runner.h"
#include "worker/device/gpu/gpu_batch.h"

namespace tandem::worker {
namespace {

constexpr uint64_t kStageAlign = 64;

uint64_t Stride(uint64_t bytes) { return (bytes + kStageAlign) / kStageAlign * kStageAlign; }

}  // namespace

TandemTask GpuBatch::TaskOf(const Item& item) const {
  const BatchPart& part = batch_->parts[item.part];
  return {part.first.id + item.at, part.first.row + item.at};
}

// Calls f(item) for each that has not failed, and logs it; its result is its fault.
template <class F>
void GpuBatch::EachItem(Crew& crew, StartLog* log, F f) {
  const auto count = static_cast<int64_t>(items_.size());
  crew.ParallelFor(count, HasSuspect(*batch_) ? count : 1, [&](int64_t begin, int64_t end) {
    const uint32_t slot = crew.slot();
    const int64_t start = NowNanos();
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      Item& item = items_[i];
      if (item.fault != TANDEM_OK) continue;
      const BatchPart& part = batch_->parts[item.part];
      const auto id = static_cast<uint64_t>(part.first.id + item.at);
      log->Begin(slot, part.job, id / part.grain, 1, part.suspect ? id : StartLog::kNoTask);
      item.fault = f(i);
    }
    log->End(slot);
    stage_ns_ += NowNanos() - start;
  });
}

void GpuBatch::Measure(Crew& crew, StartLog* log) {
  for (uint32_t i = 0; i < batch_->parts.size(); ++i) {
    const BatchPart& part = batch_->parts[i];
    ForEachRun(part, 0, part.tasks, [&](int64_t begin, int64_t end) {
      for (int64_t at = begin; at < end; ++at) {
        Item item;
        item.part = i;
        item.at = at;
        items_.push_back(item);
      }
    });
  }
  shape_stride_ = Stride(batch_->kernel->shape_bytes);
  work_stride_ = Stride(batch_->kernel->work_bytes);
  no_memory_ = shapes_.Ensure(shape_stride_ * items_.size() + 1) == nullptr ||
               works_.Ensure(work_stride_ * items_.size() + 1) == nullptr ||
               device_works_.Ensure(work_stride_ * items_.size() + 1) == nullptr;
  if (no_memory_) {
    items_.clear();
    return;
  }
  // Nothing of this process goes to the device, in gaps either.
  std::memset(works_.data(), 0, work_stride_ * items_.size());
  std::memset(device_works_.data(), 0, work_stride_ * items_.size());
  EachItem(crew, log, [&](size_t i) {
    Item& item = items_[i];
    const int32_t fault = batch_->kernel->measure(batch_->parts[item.part].args, TaskOf(item),
                                                  ShapeOf(i), &item.need);
    if (fault != TANDEM_OK) return fault;
    const TandemNeed& need = item.need;
    const bool bad = need.in_bytes < 0 || need.out_bytes < 0 ||
                     need.in_bytes > kItemStagingBytesMax || need.out_bytes > kItemStagingBytesMax;
    return int32_t{bad ? TANDEM_FAULT_OUT_OF_MEMORY : TANDEM_OK};
  });
}

void GpuBatch::Prepare(Crew& crew, StartLog* log, const Place& place) {
  const TandemKernelV1* kernel = batch_->kernel;
  EachItem(crew, log, [&](size_t i) {
    const Item& item = items_[i];
    const TandemStage stage = {place.pinned + layout_.at(item.in),
                               place.pinned + layout_.at(item.out), item.need.across,
                               item.need.down};
    const int32_t fault =
        kernel->prepare(batch_->parts[item.part].args, TaskOf(item), ShapeOf(i), &stage, WorkOf(i));
    if (fault != TANDEM_OK) return fault;
    // The grid's copy, with the device's pointers.
    std::memcpy(DeviceWorkOf(i), WorkOf(i), kernel->work_bytes);
    const TandemStage there = {
        static_cast<uint8_t*>((place.device + layout_.at(item.in)).ForKernel()),
        static_cast<uint8_t*>((place.device + layout_.at(item.out)).ForKernel()), item.need.across,
        item.need.down};
    std::memcpy(DeviceWorkOf(i), &there, sizeof(there));
    if (kernel->work_args_offset > 0) PatchWork(item.part, DeviceWorkOf(i));
    return fault;
  });
}

// The device's pointers in the arguments that a work keeps. A kernel may keep less of them than
// args_bytes: only its pointers are known to be there.
void GpuBatch::PatchWork(uint32_t part, uint8_t* work) {
  const auto first =
      std::lower_bound(patches_.begin(), patches_.end(), part,
                       [](const Patch& patch, uint32_t wanted) { return patch.part < wanted; });
  for (auto patch = first; patch != patches_.end() && patch->part == part; ++patch) {
    std::memcpy(work + batch_->kernel->work_args_offset + patch->args_offset,
                ArgsOf(part) + patch->args_offset, sizeof(void*));
  }
}

void GpuBatch::Finish(Crew& crew, StartLog* log) {
  EachItem(crew, log, [&](size_t i) {
    const Item& item = items_[i];
    return batch_->kernel->finish(batch_->parts[item.part].args, TaskOf(item), ShapeOf(i),
                                  WorkOf(i));
  });
  for (const Item& item : items_) {
    BatchPart& part = batch_->parts[item.part];
    part.fault[item.at] = static_cast<uint8_t>(item.fault);
    part.failed += item.fault != TANDEM_OK;
  }
}

}  // namespace tandem::worker
