#include "worker/device/cpu/tree_fold.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "common/base/error.h"
#include "common/base/strings.h"

namespace tandem::worker {
namespace {

size_t RoundUp(size_t bytes) {
  return (bytes + TANDEM_PARTIAL_ALIGN - 1) / TANDEM_PARTIAL_ALIGN * TANDEM_PARTIAL_ALIGN;
}

// The left child of a node of more than one leaf.
int64_t LeftOf(int64_t leaves) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(leaves)) / 2);
}

}  // namespace

absl::Status TreeFold::Run(int64_t serial_leaves, LeafValue leaf) {
  leaf_ = &leaf;
  serial_leaves_ = serial_leaves;
  const int64_t leaves = (part_.tasks + grain_ - 1) / grain_;
  Node(0, leaves, static_cast<uint8_t*>(part_.partial));
  if (no_memory_) {
    return Error(absl::StatusCode::kResourceExhausted, reason::kOutOfMemory,
                 StrCat("no memory for scratch or partials of kernel ", kernel_->name,
                        "; give the worker more memory or the job a smaller grain"));
  }
  if (merge_code_ != 0) {
    return Error(
        absl::StatusCode::kInternal, reason::kDeviceFault,
        StrCat("the merge of kernel ", kernel_->name, " failed with code ", merge_code_.load()));
  }
  return absl::OkStatus();
}

// Leaves [first, first + leaves) into `into`, shared among threads while it is worth it.
void TreeFold::Node(int64_t first, int64_t leaves, uint8_t* into) {
  const bool serial = leaves <= serial_leaves_ || part_.suspect;
  AlignedBuffer right = pool_->Take(serial ? StackBytes(leaves) : RightBytes(leaves));
  if (right.data() == nullptr) {
    no_memory_ = true;
    return;
  }
  if (serial) {
    Serial(first, leaves, into, right.data());
  } else {
    const int64_t left = LeftOf(leaves);
    crew_->ParallelFor(2, 1, [&](int64_t begin, int64_t end) {
      if (begin == 0) Node(first, left, into);
      if (end == 2) Node(first + left, leaves - left, right.data());
    });
    Merge(first, leaves, into, right.data());
  }
  pool_->Give(std::move(right));
}

// The same on one thread; `stack` has room for a partial a level.
void TreeFold::Serial(int64_t first, int64_t leaves, uint8_t* into, uint8_t* stack) {
  if (leaves == 1) return (*leaf_)(first, into);
  const int64_t left = LeftOf(leaves);
  Serial(first, left, into, stack);
  Serial(first + left, leaves - left, stack, stack + RightBytes(leaves));
  Merge(first, leaves, into, stack);
}

int64_t TreeFold::LeafEnd(int64_t leaf) const { return std::min((leaf + 1) * grain_, part_.tasks); }

size_t TreeFold::BytesOf(int64_t tasks) const {
  return RoundUp(
      static_cast<size_t>(std::max<int64_t>(kernel_->partial_bytes(part_.args, tasks), 0)));
}

// Room for the right child of a node of more than one leaf: it is no larger than the left one.
size_t TreeFold::RightBytes(int64_t leaves) const {
  if (!own_ || leaves == 1) return bytes_;
  return BytesOf(std::min(LeftOf(leaves) * grain_, part_.tasks));
}

size_t TreeFold::StackBytes(int64_t leaves) const {
  size_t bytes = 0;
  for (; leaves > 1; leaves = LeftOf(leaves)) bytes += RightBytes(leaves);
  return bytes;
}

void TreeFold::Merge(int64_t first, int64_t leaves, uint8_t* into, const uint8_t* right) {
  const int64_t left_tasks = LeftOf(leaves) * grain_;
  const int64_t tasks = std::min(part_.tasks - first * grain_, leaves * grain_);
  MergeTasks(into, left_tasks, right, tasks - left_tasks);
}

void TreeFold::MergeTasks(uint8_t* into, int64_t into_tasks, const uint8_t* from,
                          int64_t from_tasks) {
  if (no_memory_) return;  // One of them was never made.
  const int32_t code = kernel_->merge(part_.args, into, into_tasks, from, from_tasks);
  if (code != 0) merge_code_ = code;
}

void TreeFold::Freshen(uint8_t* partial, int64_t tasks) const {
  const int64_t bytes = kernel_->partial_bytes(part_.args, tasks);
  if (own_ && bytes > 0) std::memset(partial, 0, static_cast<size_t>(bytes));
  kernel_->partial_init(part_.args, partial);
}

}  // namespace tandem::worker
