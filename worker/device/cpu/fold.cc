// Float sums and own merges: a fresh partial a leaf, and siblings merged up the range tree, so that
// the value of a node is the same however the job was cut.
//
// A partial of a kernel's own merge grows with its tasks and counts every one of them. A call of
// the kernel finds it zeroed and initialised, with room for the tasks of that call; tasks that do
// not run stand in it as just that.
#include <algorithm>
#include <atomic>
#include <utility>

#include "worker/device/cpu/batch_runner.h"
#include "worker/device/cpu/tree_fold.h"

namespace tandem::worker {
namespace {

// One part's leaves, run by the kernel.
class LeafRunner {
 public:
  LeafRunner(const RunContext& context, BatchPart& part) : context_(context), part_(part) {}

  absl::Status Run(int64_t serial_leaves) {
    TreeFold fold(context_.batch->kernel, part_, context_.pool, context_.crew);
    const absl::Status status =
        fold.Run(serial_leaves, [&](int64_t leaf, uint8_t* into) { Leaf(&fold, leaf, into); });
    part_.failed = failed_;
    return status;
  }

 private:
  void Leaf(TreeFold* fold, int64_t leaf, uint8_t* into) {
    const uint32_t slot = context_.crew->slot();
    bool no_memory = false;
    void* scratch = ScratchFor(context_, part_, slot, &no_memory);
    if (no_memory) return fold->NoMemory();
    const int64_t begin = fold->LeafBegin(leaf);
    const int64_t end = fold->LeafEnd(leaf);
    if (fold->own_merge()) return OwnLeaf(fold, begin, end, slot, scratch, into);
    if (part_.suspect) {
      // Each task once by itself, so that a crash names it; its value is thrown away, since the
      // sum of a leaf depends on how the leaf is called.
      fold->Freshen(into, end - begin);
      RunTasks(context_, part_, begin, end, slot, scratch, into, Granularity::kTask);
    }
    fold->Freshen(into, end - begin);
    failed_ += RunTasks(context_, part_, begin, end, slot, scratch, into, Granularity::kWhole);
  }

  void OwnLeaf(TreeFold* fold, int64_t begin, int64_t end, uint32_t slot, void* scratch,
               uint8_t* into) {
    for (int64_t task = begin; part_.suspect && task < end; ++task) {
      fold->Freshen(into, 1);  // As in Leaf, each one by itself, for nothing but its name.
      RunTasks(context_, part_, task, task + 1, slot, scratch, into, Granularity::kTask);
    }
    AlignedBuffer buffer;  // What lies behind the first run of tasks, or of skipped ones.
    int64_t at = begin;
    const auto add = [&](int64_t until, bool runs) {
      if (at == until) return;
      if (at > begin && buffer.data() == nullptr) {
        buffer = context_.pool->Take(fold->BytesOf(end - at));
      }
      uint8_t* const value = at == begin ? into : buffer.data();
      if (value == nullptr) return fold->NoMemory();
      fold->Freshen(value, until - at);
      if (runs) {
        failed_ += RunTasks(context_, part_, at, until, slot, scratch, value, Granularity::kWhole);
      }
      if (at > begin) fold->MergeTasks(into, at - begin, value, until - at);
      at = until;
    };
    ForEachRun(part_, begin, end, [&](int64_t from, int64_t to) {
      add(from, false);
      add(to, true);
    });
    add(end, false);
    context_.pool->Give(std::move(buffer));
  }

  const RunContext& context_;
  BatchPart& part_;
  std::atomic<int64_t> failed_ = 0;
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
      LeafRunner runner(context, part);
      statuses[static_cast<size_t>(i)] =
          runner.Run(SerialLeaves(*context.batch, part.grain, tasks));
    }
  });
  for (absl::Status& status : statuses) {
    if (!status.ok()) return std::move(status);
  }
  return absl::OkStatus();
}

}  // namespace tandem::worker
