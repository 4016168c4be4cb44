#include "worker/device/cpu/cpu_accumulator.h"

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

absl::Status CpuAccumulator::MergeInto(void* into) {
  int64_t tasks = 0;
  bool first = true;
  for (Slot& slot : slots_) {
    if (!slot.used) continue;
    if (first) {
      std::memcpy(into, slot.partial.data(), static_cast<size_t>(partial_bytes_));
    } else if (const int32_t code =
                   kernel_->merge(args_.data(), into, tasks, slot.partial.data(), slot.tasks);
               code != 0) {
      return Error(absl::StatusCode::kInternal, reason::kDeviceFault,
                   StrCat("the merge of kernel ", kernel_->name, " failed with code ", code));
    }
    first = false;
    tasks += slot.tasks;
  }
  if (first) kernel_->partial_init(args_.data(), into);
  return absl::OkStatus();
}

uint64_t CpuAccumulator::bytes_held() const {
  uint64_t bytes = 0;
  for (const Slot& slot : slots_) bytes += slot.used ? static_cast<uint64_t>(partial_bytes_) : 0;
  return bytes;
}

}  // namespace tandem::worker
