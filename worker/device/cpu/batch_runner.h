// Runs a batch on a crew: cuts its parts into chunks, logs what starts, calls the kernel.
//
// A part with a cursor runs leaf after leaf, so that it can be cut short; all others are shared
// out. Three ways: RunMap (maps, and reductions into accumulators), RunFold (parts with a partial:
// one a leaf, folded up the range tree: float sums, and a kernel's own merge), RunHostStages
// (ragged items with measure, prepare and finish around the cells). A map may be run leaf by leaf.
//
// Thread-safety: one call a crew at a time.
#ifndef TANDEM_WORKER_DEVICE_CPU_BATCH_RUNNER_H_
#define TANDEM_WORKER_DEVICE_CPU_BATCH_RUNNER_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "worker/device/buffers.h"
#include "worker/device/cpu/crew.h"
#include "worker/device/device.h"

namespace tandem::worker {

// Less than this is not worth a second thread.
inline constexpr double kSplitNanos = 20'000;
// About what one call of a kernel shall do at least, and what it shall do for each byte of scratch,
// which it has to warm up first.
inline constexpr double kChunkNanos = 10'000;
inline constexpr double kChunkNanosAScratchByte = 1;
// The most staging that one item may ask for; more is its own failure.
inline constexpr int64_t kItemStagingBytesMax = int64_t{4} << 30;

// What a slot keeps from piece to piece.
struct alignas(128) SlotMemory {
  AlignedBuffer scratch;
  AlignedBuffer stage_in, stage_out, shape, work;
};

int64_t NowNanos();

struct RunContext {
  Batch* batch;
  Crew* crew;
  StartLog* log;
  std::vector<SlotMemory>* slots;
  BufferPool* pool;
  std::atomic<int64_t>* thread_ns;  // what threads spent in the kernel
  std::atomic<int64_t>* host_ns;    // of that, in its host stages
};

// Runs every part; sets their `failed`. Errors: RESOURCE_EXHAUSTED OUT_OF_MEMORY, INTERNAL
// DEVICE_FAULT (a merge failed).
absl::Status RunParts(const RunContext& context);

absl::Status RunMap(const RunContext& context);
absl::Status RunLeaves(const RunContext& context);
absl::Status RunFold(const RunContext& context);
absl::Status RunHostStages(const RunContext& context);
// A part with a cursor, in any of the ways but RunFold.
absl::Status RunInOrder(const RunContext& context);

// For the three ways.

// A run of tasks of one part on the calling thread, around the tasks to be skipped, in one call of
// the kernel or a call a task; returns how many failed. `scratch` as the kernel asks.
enum class Granularity { kWhole, kTask };
int64_t RunTasks(const RunContext& context, const BatchPart& part, int64_t begin, int64_t end,
                 uint32_t slot, void* scratch, void* partial, Granularity granularity);
// Calls f(begin, end) for the runs of tasks in [begin, end) (from the part's first task) between
// those to be skipped.
template <class F>
void ForEachRun(const BatchPart& part, int64_t begin, int64_t end, F f) {
  for (const uint64_t task : part.skip) {
    const int64_t at = static_cast<int64_t>(task) - part.first.id;
    if (at < begin || at >= end) continue;
    if (at > begin) f(begin, at);
    begin = at + 1;
  }
  if (begin < end) f(begin, end);
}
// Where each part begins in the batch's tasks laid behind one another; at the end, all tasks.
using Starts = absl::InlinedVector<int64_t, 16>;
Starts StartsOf(const std::vector<BatchPart>& parts);
// Calls f(part index, from, to) for the parts that tasks [begin, end) of the batch fall into.
template <class F>
void ForEachPart(const Starts& starts, int64_t begin, int64_t end, F f) {
  size_t at =
      static_cast<size_t>(std::upper_bound(starts.begin(), starts.end(), begin) - starts.begin()) -
      1;
  for (; begin < end; ++at) {
    const int64_t stop = std::min(end, starts[at + 1]);
    if (begin < stop) f(at, begin - starts[at], stop - starts[at]);
    begin = stop;
  }
}
bool HasSuspect(const Batch& batch);
// Null where the kernel needs none; sets *no_memory when there is none to be had.
// Ragged items [begin, end) of one part on the calling thread, through all their stages.
void RunItems(const RunContext& context, BatchPart& part, int64_t begin, int64_t end,
              std::atomic<int64_t>* failed);
void* ScratchFor(const RunContext& context, const BatchPart& part, uint32_t slot, bool* no_memory);
absl::Status OutOfMemory(const Batch& batch);

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_DEVICE_CPU_BATCH_RUNNER_H_
