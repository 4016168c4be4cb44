// An emulated grid: the blocks that a launch has on a GPU, run one after the other on the calling
// thread, in an order drawn from a seed, each over the tasks that its threads would have.
//
// A block of a map has kBlockThreads tasks and comes back for more a whole grid further on
// (grid-stride). A kernel that asks for a block a task, a warp a leaf or its own launcher is called
// a task, a part or all at once instead.
//
// Thread-safety: pure functions, but for the memory that the kernel works on.
#ifndef TANDEM_WORKER_DEVICE_EMULATED_GRID_H_
#define TANDEM_WORKER_DEVICE_EMULATED_GRID_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "worker/device/emulated/emulated_memory.h"
#include "worker/device/gpu_runtime.h"

namespace tandem::worker {

inline constexpr uint32_t kBlockThreads = 256;
// More blocks than so many waves of the device are strided over.
inline constexpr uint32_t kWavesMax = 4;

struct GridShape {
  uint64_t tasks_a_block = 0;  // at a time
  uint64_t blocks = 0;
  uint64_t rounds = 0;  // how often the first block comes back, its first time included
};

// REQUIRES: tasks >= 1.
GridShape ShapeOf(uint64_t tasks, uint64_t threads_a_task, const GpuProperties& device);

enum class Body { kFull, kCheap };  // kCheap: the same bytes by a shorter way, where there is one

// Errors: INTERNAL (DEVICE_FAULT) when the kernel is given, or touches, memory that is not the
// device's, or writes behind the end of an allocation.
absl::Status RunGrid(const TandemKernelV1& kernel, absl::Span<const TandemPart> parts,
                     const GpuProperties& device, Body body, uint64_t seed, EmulatedMemory* memory);

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_DEVICE_EMULATED_GRID_H_
