// How a grid is laid out over the device that the calling thread has: threads a block by the
// occupancy calculator, blocks by the number of tasks, and no more of them than a few waves.
//
//   Geometry grid;
//   if (const int32_t error = grid.Threads(&MapGrid<K>, tasks)) return error;
//   MapGrid<K><<<grid.blocks, grid.threads, grid.shared_bytes, stream>>>(…);
//
// What the calculator says of a grid of single threads is asked once a process and device.
//
// Thread-safety: any thread. A call that fails leaves no error behind for the next launch.
#ifndef TANDEM_GEOMETRY_CUH_
#define TANDEM_GEOMETRY_CUH_

#include <cuda_runtime.h>
#include <stdint.h>

#include "tandem/config.h"

namespace tandem {
inline namespace TANDEM_ISA_NAMESPACE {

inline constexpr int kWarpThreads = 32;
inline constexpr int64_t kWaves =
    4;  // blocks beyond so many times what runs at once are strided over
inline constexpr int64_t kSharedAlign = 16;
inline constexpr int64_t kSharedFree = 48 << 10;  // a block has so much without asking
inline constexpr int kLeastThreads = 64;  // of a block, where small blocks reach more of the device
inline constexpr int kBlockThreads = 256;  // of a block for one task, unless it says otherwise

class Geometry {
 public:
  unsigned blocks = 1;
  unsigned threads = kBlockThreads;
  size_t shared_bytes = 0;  // of a block
  int64_t at_once = 0;      // threads that run at once, as Threads found

  // A thread each for `count` items, in `layers` of one grid (its y index). What is known of a grid
  // is kept by its type, so a kernel has one grid of this kind.
  template <class F>
  int32_t Threads(F* grid, int64_t count) {
    int device = 0;
    if (const cudaError_t error = cudaGetDevice(&device)) return Forget(error);
    static Known known[kDevices];
    Known seen = Load(known, device);
    if (seen.threads == 0) {
      int least = 0, most = 0;
      if (const cudaError_t error = cudaOccupancyMaxPotentialBlockSize(&least, &most, grid)) {
        return Forget(error);
      }
      seen = {most, least, Multiprocessors(device)};
      Store(known, device, seen);
    }
    threads = static_cast<unsigned>(Spread(count, seen));
    // least blocks of most threads run at once.
    at_once = int64_t{seen.resident} * seen.threads;
    const int64_t resident = at_once / threads;
    SetBlocks((count + threads - 1) / threads, resident, 1);
    return cudaSuccess;
  }

  // A thread each for `count` items in each of `layers` of one grid (its y index), and `shared`
  // bytes a block.
  template <class F>
  int32_t Layers(F* grid, int64_t count, int64_t layers, int64_t shared) {
    threads = static_cast<unsigned>(kBlockThreads);
    shared_bytes = static_cast<size_t>(shared);
    int64_t resident = 0;
    if (const int32_t error = Resident(grid, &resident)) return error;
    SetBlocks((count + kBlockThreads - 1) / kBlockThreads, resident, layers);
    return cudaSuccess;
  }

  // A block for each of `tasks`, of `asked` threads where that is not 0.
  template <class F>
  int32_t Blocks(F* grid, int64_t tasks, int asked, int64_t shared) {
    threads = static_cast<unsigned>(asked == 0 ? kBlockThreads : RoundUp(asked));
    shared_bytes = static_cast<size_t>(shared);
    int64_t resident = 0;
    if (const int32_t error = Resident(grid, &resident)) return error;
    SetBlocks(tasks, resident, 1);
    return cudaSuccess;
  }

  // `each` threads, a warp or less, and `shared` bytes for each of `tasks`; several share a block.
  template <class F>
  int32_t Tasks(F* grid, int64_t tasks, int each, int64_t shared) {
    int64_t together = kBlockThreads / each;
    while (together > 1 && together * shared > kSharedFree) together /= 2;
    threads = static_cast<unsigned>(together * each);
    shared_bytes = static_cast<size_t>(together * shared);
    int64_t resident = 0;
    if (const int32_t error = Resident(grid, &resident)) return error;
    SetBlocks((tasks + together - 1) / together, resident, 1);
    return cudaSuccess;
  }

 private:
  static constexpr int kDevices = 64;
  // Threads of a block at the best occupancy, and how many such blocks run at once.
  struct Known {
    int threads, resident, multiprocessors;
  };

  static Known Load(const Known* known, int device) {
    Known seen{};
    if (device >= kDevices) return seen;
    seen.threads = __atomic_load_n(&known[device].threads, __ATOMIC_ACQUIRE);
    seen.resident = known[device].resident;
    seen.multiprocessors = known[device].multiprocessors;
    return seen;
  }
  // Every thread would store the same.
  static void Store(Known* known, int device, const Known& seen) {
    if (device >= kDevices) return;
    __atomic_store_n(&known[device].resident, seen.resident, __ATOMIC_RELAXED);
    __atomic_store_n(&known[device].multiprocessors, seen.multiprocessors, __ATOMIC_RELAXED);
    __atomic_store_n(&known[device].threads, seen.threads, __ATOMIC_RELEASE);
  }

  static int Multiprocessors(int device) {
    int count = 1;
    if (cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device) != cudaSuccess) {
      (void)cudaGetLastError();
    }
    return count < 1 ? 1 : count;
  }

  static int RoundUp(int64_t count) {
    return static_cast<int>((count + kWarpThreads - 1) / kWarpThreads * kWarpThreads);
  }
  // Few items: smaller blocks, so that they reach every multiprocessor.
  static int Spread(int64_t count, const Known& seen) {
    const int64_t each = count / seen.multiprocessors;
    if (each >= seen.threads) return seen.threads;
    const int small = RoundUp(each);
    const int least = seen.threads < kLeastThreads ? seen.threads : kLeastThreads;
    return small > least ? small : least;
  }

  // How many blocks of this shape run at once; allows the shared memory that they need.
  template <class F>
  int32_t Resident(F* grid, int64_t* resident) {
    if (shared_bytes > static_cast<size_t>(kSharedFree)) {
      const cudaError_t error = cudaFuncSetAttribute(reinterpret_cast<const void*>(grid),
                                                     cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                     static_cast<int>(shared_bytes));
      if (error != cudaSuccess) return Forget(error);
    }
    int device = 0, each = 0;
    cudaError_t error = cudaGetDevice(&device);
    if (error == cudaSuccess) {
      error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, grid, static_cast<int>(threads),
                                                            shared_bytes);
    }
    if (error != cudaSuccess) return Forget(error);
    *resident = int64_t{each > 0 ? each : 1} * Multiprocessors(device);
    return cudaSuccess;
  }

  void SetBlocks(int64_t wanted, int64_t resident, int64_t layers) {
    const int64_t most = kWaves * resident / layers;
    const int64_t some = wanted < most ? wanted : most;
    blocks = static_cast<unsigned>(some < 1 ? 1 : some);
  }

  static int32_t Forget(cudaError_t error) {
    (void)cudaGetLastError();
    return error;
  }
};

}  // namespace TANDEM_ISA_NAMESPACE
}  // namespace tandem

#endif  // TANDEM_GEOMETRY_CUH_
