#include "worker/device/cpu/cpu_accumulator.h"

#include <atomic>
#include <cstring>
#include <utility>

#include "common/base/error.h"
#include "common/base/strings.h"

namespace tandem::worker {
namespace {

std::vector<uint64_t> CopyArgs(const TandemKernelV1* kernel, const void* args) {
  std::vector<uint64_t> copy((kernel->args_bytes + 7) / 8);
  if (!copy.empty()) std::memcpy(copy.data(), args, kernel->args_bytes);
  return copy;
}

}  // namespace

CpuAccumulator::CpuAccumulator(const TandemKernelV1* kernel, const void* args, uint32_t slots,
                               BufferPool* pool)
    : kernel_(kernel),
      args_(CopyArgs(kernel, args)),
      partial_bytes_(kernel->partial_bytes(args_.data(), 0)),
      pool_(pool),
      slots_(slots) {}

CpuAccumulator::~CpuAccumulator() {
  for (Slot& slot : slots_) {
    if (slot.used) pool_->Give(std::move(slot.partial));
  }
}

void* CpuAccumulator::ForSlot(uint32_t slot) {
  Slot& mine = slots_[slot];
  if (mine.used) return mine.partial.data();
  mine.partial = pool_->Take(static_cast<size_t>(partial_bytes_));
  if (mine.partial.data() == nullptr) return nullptr;
  kernel_->partial_init(args_.data(), mine.partial.data());
  mine.used = true;
  return mine.partial.data();
}

absl::Status CpuAccumulator::MergeInto(HostCrew& crew, void* into) {
  std::vector<Slot*> used;
  for (Slot& slot : slots_) {
    if (slot.used) used.push_back(&slot);
  }
  if (used.empty()) {
    kernel_->partial_init(args_.data(), into);
    return absl::OkStatus();
  }
  std::atomic<int32_t> code = 0;
  for (size_t step = 1; step < used.size(); step *= 2) {
    const auto pairs = static_cast<int64_t>((used.size() - step + 2 * step - 1) / (2 * step));
    crew.ParallelFor(pairs, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        Slot* left = used[static_cast<size_t>(i) * 2 * step];
        const Slot* right = used[static_cast<size_t>(i) * 2 * step + step];
        const int32_t result = kernel_->merge(args_.data(), left->partial.data(), left->tasks,
                                              right->partial.data(), right->tasks);
        left->tasks += right->tasks;
        if (result != 0) code = result;
      }
    });
  }
  std::memcpy(into, used.front()->partial.data(), static_cast<size_t>(partial_bytes_));
  if (code == 0) return absl::OkStatus();
  return Error(absl::StatusCode::kInternal, reason::kDeviceFault,
               StrCat("the merge of kernel ", kernel_->name, " failed with code ", code.load()));
}

uint64_t CpuAccumulator::bytes_held() const {
  uint64_t bytes = 0;
  for (const Slot& slot : slots_) bytes += slot.used ? static_cast<uint64_t>(partial_bytes_) : 0;
  return bytes;
}

}  // namespace tandem::worker
