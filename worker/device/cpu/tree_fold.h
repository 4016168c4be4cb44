// TreeFold: the value of a node from the values of its leaves, siblings merged up the range tree,
// so that it is the same however the job was cut, and on whichever device its leaves ran.
//
//   TreeFold fold(kernel, part, &pool, &crew);
//   RETURN_IF_ERROR(fold.Run(serial_leaves, [&](int64_t leaf, uint8_t* into) { … }));
//
// Then part.partial has the value.
//
// A node is a run of leaves counted from the part's first leaf, which is aligned as the node that
// the part is; so halving by powers of two walks the range tree. A partial of a kernel's own merge
// grows with its tasks and counts every one of them.
//
// Thread-safety: Run is called once; the methods for leaves from any of the crew's threads.
// Ownership: what is passed in outlives the fold.
#ifndef TANDEM_WORKER_DEVICE_CPU_TREE_FOLD_H_
#define TANDEM_WORKER_DEVICE_CPU_TREE_FOLD_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "worker/device/buffers.h"
#include "worker/device/device.h"

namespace tandem::worker {

class TreeFold {
 public:
  // Makes the value of one leaf in `into`, which has room for it.
  using LeafValue = absl::FunctionRef<void(int64_t leaf, uint8_t* into)>;

  // REQUIRES: the part has a task, and a partial.
  TreeFold(const TandemKernelV1* kernel, const BatchPart& part, BufferPool* pool, HostCrew* crew)
      : kernel_(kernel),
        part_(part),
        pool_(pool),
        crew_(crew),
        grain_(static_cast<int64_t>(part.grain)),
        own_((kernel->flags & TANDEM_OWN_MERGE) != 0),
        bytes_(BytesOf(part.tasks)) {}

  // `serial_leaves`: so many are folded by one thread. Errors: RESOURCE_EXHAUSTED (OUT_OF_MEMORY),
  // INTERNAL (DEVICE_FAULT) when a merge failed.
  absl::Status Run(int64_t serial_leaves, LeafValue leaf);

  // For leaves.
  bool own_merge() const { return own_; }
  int64_t LeafBegin(int64_t leaf) const { return leaf * grain_; }
  int64_t LeafEnd(int64_t leaf) const;
  // Of a partial that counts so many tasks.
  size_t BytesOf(int64_t tasks) const;
  void MergeTasks(uint8_t* into, int64_t into_tasks, const uint8_t* from, int64_t from_tasks);
  // A partial as a call of the kernel finds it.
  void Freshen(uint8_t* partial, int64_t tasks) const;
  // A leaf's value was not made.
  void NoMemory() { no_memory_ = true; }
  BufferPool* pool() const { return pool_; }

 private:
  void Node(int64_t first, int64_t leaves, uint8_t* into);
  void Serial(int64_t first, int64_t leaves, uint8_t* into, uint8_t* stack);
  void Merge(int64_t first, int64_t leaves, uint8_t* into, const uint8_t* right);
  size_t RightBytes(int64_t leaves) const;
  size_t StackBytes(int64_t leaves) const;

  const TandemKernelV1* const kernel_;
  const BatchPart& part_;
  BufferPool* const pool_;
  HostCrew* const crew_;
  const LeafValue* leaf_ = nullptr;  // while Run runs
  const int64_t grain_;
  const bool own_;
  const size_t bytes_;  // of all its tasks
  int64_t serial_leaves_ = 1;
  std::atomic<int32_t> merge_code_ = 0;
  std::atomic<bool> no_memory_ = false;
};

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_DEVICE_CPU_TREE_FOLD_H_
