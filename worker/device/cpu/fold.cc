// Float sums and own merges: a fresh partial a leaf, and siblings merged up the range tree, so that
// the value of a node is the same however the job was cut.
//
// A partial of a kernel's own merge grows with its tasks and counts every one of them. A call of
// the kernel finds it zeroed and initialised, with room for the tasks of that call; tasks that do
// not run stand in it as just that.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <utility>

#include "common/base/error.h"
#include "common/base/strings.h"
#include "worker/device/cpu/batch_runner.h"

namespace tandem::worker {
namespace {

// One part's fold. A node is a run of leaves counted from the part's first leaf, which is aligned
// as the node that the part is; so halving by powers of two walks the range tree.
class Fold {
 public:
  Fold(const RunContext& context, BatchPart& part, int64_t serial_leaves)
      : context_(context),
        part_(part),
        grain_(static_cast<int64_t>(part.grain)),
        serial_leaves_(serial_leaves),
        own_((context.batch->kernel->flags & TANDEM_OWN_MERGE) != 0),
        bytes_(BytesOf(part.tasks)) {}

  absl::Status Run() {
    const int64_t leaves = (part_.tasks + grain_ - 1) / grain_;
    Node(0, leaves, static_cast<uint8_t*>(part_.partial));
    part_.failed = failed_;
    if (no_memory_) return OutOfMemory(*context_.batch);
    if (merge_code_ != 0) {
      return Error(absl::StatusCode::kInternal, reason::kDeviceFault,
                   StrCat("the merge of kernel ", context_.batch->kernel->name,
                          " failed with code ", merge_code_.load()));
    }
    return absl::OkStatus();
  }

 private:
  // Leaves [first, first + leaves) into `into`, shared among threads while it is worth it.
  void Node(int64_t first, int64_t leaves, uint8_t* into) {
    const bool serial = leaves <= serial_leaves_ || part_.suspect;
    AlignedBuffer right = context_.pool->Take(serial ? StackBytes(leaves) : RightBytes(leaves));
    if (right.data() == nullptr) {
      no_memory_ = true;
      return;
    }
    if (serial) {
      Serial(first, leaves, into, right.data());
    } else {
      const int64_t left = LeftOf(leaves);
      context_.crew->ParallelFor(2, 1, [&](int64_t begin, int64_t end) {
        if (begin == 0) Node(first, left, into);
        if (end == 2) Node(first + left, leaves - left, right.data());
      });
      Merge(first, leaves, into, right.data());
    }
    context_.pool->Give(std::move(right));
  }

  // The same on one thread; `stack` has room for a partial a level.
  void Serial(int64_t first, int64_t leaves, uint8_t* into, uint8_t* stack) {
    if (leaves == 1) return Leaf(first, into);
    const int64_t left = LeftOf(leaves);
    Serial(first, left, into, stack);
    Serial(first + left, leaves - left, stack, stack + RightBytes(leaves));
    Merge(first, leaves, into, stack);
  }

  // Of a partial that counts so many tasks.
  size_t BytesOf(int64_t tasks) const {
    const auto bytes = context_.batch->kernel->partial_bytes(part_.args, tasks);
    return RoundUp(static_cast<size_t>(std::max<int64_t>(bytes, 0)));
  }

  // Room for the right child of a node of more than one leaf: it is no larger than the left one.
  size_t RightBytes(int64_t leaves) const {
    if (!own_ || leaves == 1) return bytes_;
    return BytesOf(std::min(LeftOf(leaves) * grain_, part_.tasks));
  }
  size_t StackBytes(int64_t leaves) const {
    size_t bytes = 0;
    for (; leaves > 1; leaves = LeftOf(leaves)) bytes += RightBytes(leaves);
    return bytes;
  }

  // The left child of a node of more than one leaf.
  static int64_t LeftOf(int64_t leaves) {
    return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(leaves)) / 2);
  }

  void Merge(int64_t first, int64_t leaves, uint8_t* into, const uint8_t* right) {
    const int64_t left_tasks = LeftOf(leaves) * grain_;
    const int64_t tasks = std::min(part_.tasks - first * grain_, leaves * grain_);
    MergeTasks(into, left_tasks, right, tasks - left_tasks);
  }

  void MergeTasks(uint8_t* into, int64_t into_tasks, const uint8_t* from, int64_t from_tasks) {
    if (no_memory_) return;  // One of them was never made.
    const int32_t code =
        context_.batch->kernel->merge(part_.args, into, into_tasks, from, from_tasks);
    if (code != 0) merge_code_ = code;
  }

  void Leaf(int64_t leaf, uint8_t* into) {
    const uint32_t slot = context_.crew->slot();
    bool no_memory = false;
    void* scratch = ScratchFor(context_, part_, slot, &no_memory);
    if (no_memory) {
      no_memory_ = true;
      return;
    }
    const int64_t begin = leaf * grain_;
    const int64_t end = std::min(begin + grain_, part_.tasks);
    if (own_) return OwnLeaf(begin, end, slot, scratch, into);
    if (part_.suspect) {
      // Each task once by itself, so that a crash names it; its value is thrown away, since the
      // sum of a leaf depends on how the leaf is called.
      context_.batch->kernel->partial_init(part_.args, into);
      RunTasks(context_, part_, begin, end, slot, scratch, into, Granularity::kTask);
    }
    context_.batch->kernel->partial_init(part_.args, into);
    failed_ += RunTasks(context_, part_, begin, end, slot, scratch, into, Granularity::kWhole);
  }

  void OwnLeaf(int64_t begin, int64_t end, uint32_t slot, void* scratch, uint8_t* into) {
    for (int64_t task = begin; part_.suspect && task < end; ++task) {
      Freshen(into, 1);  // As in Leaf, each one by itself, for nothing but its name.
      RunTasks(context_, part_, task, task + 1, slot, scratch, into, Granularity::kTask);
    }
    AlignedBuffer buffer;  // What lies behind the first run of tasks, or of skipped ones.
    int64_t at = begin;
    const auto add = [&](int64_t until, bool runs) {
      if (at == until) return;
      if (at > begin && buffer.data() == nullptr) buffer = context_.pool->Take(BytesOf(end - at));
      uint8_t* const value = at == begin ? into : buffer.data();
      if (value == nullptr) {
        no_memory_ = true;
        return;
      }
      Freshen(value, until - at);
      if (runs) {
        failed_ += RunTasks(context_, part_, at, until, slot, scratch, value, Granularity::kWhole);
      }
      if (at > begin) MergeTasks(into, at - begin, value, until - at);
      at = until;
    };
    ForEachRun(part_, begin, end, [&](int64_t from, int64_t to) {
      add(from, false);
      add(to, true);
    });
    add(end, false);
    context_.pool->Give(std::move(buffer));
  }

  void Freshen(uint8_t* partial, int64_t tasks) {
    const int64_t bytes = context_.batch->kernel->partial_bytes(part_.args, tasks);
    if (bytes > 0) std::memset(partial, 0, static_cast<size_t>(bytes));
    context_.batch->kernel->partial_init(part_.args, partial);
  }

  static size_t RoundUp(size_t bytes) {
    return (bytes + TANDEM_PARTIAL_ALIGN - 1) / TANDEM_PARTIAL_ALIGN * TANDEM_PARTIAL_ALIGN;
  }

  const RunContext& context_;
  BatchPart& part_;
  const int64_t grain_;
  const int64_t serial_leaves_;
  const bool own_;
  const size_t bytes_;  // of all its tasks
  std::atomic<int64_t> failed_ = 0;
  std::atomic<int32_t> merge_code_ = 0;
  std::atomic<bool> no_memory_ = false;
};

// Leaves that one thread folds without sharing.
int64_t SerialLeaves(const Batch& batch, uint64_t grain, int64_t tasks) {
  if (batch.expected_ns <= 0) return 1;
  const double leaf_ns = batch.expected_ns * static_cast<double>(grain) /
                         static_cast<double>(std::max<int64_t>(tasks, 1));
  return std::max<int64_t>(1, static_cast<int64_t>(kSplitNanos / std::max(leaf_ns, 1e-3)));
}

}  // namespace

absl::Status RunFold(const RunContext& context) {
  std::vector<BatchPart>& parts = context.batch->parts;
  int64_t tasks = 0;
  for (const BatchPart& part : parts) tasks += part.tasks;
  std::vector<absl::Status> statuses(parts.size());
  const bool serial = context.batch->expected_ns > 0 && context.batch->expected_ns <= kSplitNanos;
  const auto count = static_cast<int64_t>(parts.size());
  context.crew->ParallelFor(count, serial ? count : 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      BatchPart& part = parts[static_cast<size_t>(i)];
      if (part.tasks == 0) {
        context.batch->kernel->partial_init(part.args, part.partial);
        continue;
      }
      Fold fold(context, part, SerialLeaves(*context.batch, part.grain, tasks));
      statuses[static_cast<size_t>(i)] = fold.Run();
    }
  });
  for (absl::Status& status : statuses) {
    if (!status.ok()) return std::move(status);
  }
  return absl::OkStatus();
}

}  // namespace tandem::worker
