// The CUDA drivers: from a kernel's body to `launch` of the ABI. Compiled by nvcc, for generated
// sources only.
//
// A grid reads a table of parts that `pack_parts` wrote: arguments by value, first task, where the
// part begins in the grid. A thread finds its part by binary search, so parts of any jobs share one
// launch.
//
//   MapGrid<K>     a thread a task            BlockGrid<K>  a block a task, with shared memory
//   WideGrid<K>    a thread four tasks        (light maps of many tasks: wide_grid.cuh)
//   ReduceGrid<K>  warps fold, then add once  WarpGrid<K>   a warp a task, with shared memory
//   CellGrid<K>    a thread a cell of items   LaneGrid<K>   a warp a part: float sums in 32 lanes
//
// How many threads a block has, the occupancy calculator says; how many blocks, the tasks. Beyond a
// few waves of blocks, threads come back for more a whole grid further on (geometry.cuh).
//
// Thread-safety: a launch touches its own parts; it never synchronises.
// Ownership: as the ABI says (abi.h).
#ifndef TANDEM_GRID_CUH_
#define TANDEM_GRID_CUH_

#include <cuda_runtime.h>

#include "tandem/geometry.cuh"
#include "tandem/register.h"
#include "tandem/wide_grid.cuh"

namespace tandem {
inline namespace TANDEM_ISA_NAMESPACE {

inline constexpr int kMaxReducers = 4;

// What K's grid finds in a part: its arguments, or the work of an item.
template <class K, bool kItem>
struct PayloadOf {
  using type = typename K::Args;
};
template <class K>
struct PayloadOf<K, true> {
  using type = Work<K>;
};

template <class K>
struct DevicePart {
  typename PayloadOf<K, kHasItem<K>>::type payload;
  Task first;
  int64_t begin;  // tasks (cells, blocks) of the parts before
  int64_t count;
  uint8_t* fault;
  bool wide;  // its tasks have vectors of their own from the first on
  char* partial;
  char* lanes;
  int64_t offset[kMaxReducers], elements[kMaxReducers];  // of the outputs in the partial
};

// The part that holds index `at` of the grid.
template <class K>
__device__ const DevicePart<K>& FindPart(const DevicePart<K>* parts, int32_t count, int64_t at) {
  int32_t low = 0, high = count;
  while (high - low > 1) {
    const int32_t middle = (low + high) / 2;
    (parts[middle].begin <= at ? low : high) = middle;
  }
  return parts[low];
}

// Task j of a part. Where parts begin with a whole run of tasks, some behind a part are nobody's.
template <class K>
__device__ void RunMapped(const DevicePart<K>& part, int64_t j) {
  if (kIsWide<K> && j >= part.count) return;
  if constexpr (kCanFail<K>) {
    part.fault[j] = K::Each(TaskAt(part.first, j), part.payload).code;
  } else {
    K::Each(TaskAt(part.first, j), part.payload);
  }
}

template <class K>
__global__ void MapGrid(const DevicePart<K>* parts, int32_t count, int64_t tasks) {
  for (int64_t at = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; at < tasks;
       at += int64_t{gridDim.x} * blockDim.x) {
    const DevicePart<K>& part = FindPart(parts, count, at);
    RunMapped(part, at - part.begin);
  }
}

// `runs`: of kWide tasks each; a part begins with one, and its last one may have fewer. (Its type
// is not MapGrid's: see Geometry.)
template <class K>
__global__ void WideGrid(int64_t runs, const DevicePart<K>* parts, int32_t count) {
  for (int64_t run = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; run < runs;
       run += int64_t{gridDim.x} * blockDim.x) {
    const DevicePart<K>& part = FindPart(parts, count, run * kWide);
    const int64_t j = run * kWide - part.begin;
    if (part.wide && j + kWide <= part.count) {
      WideKernel<K>::Run(part.payload, part.first.id + j, part.first.row + j, part.fault + j);
    } else {
      for (int64_t k = j; k < j + kWide; ++k) RunMapped(part, k);
    }
  }
}

template <class K>
__global__ void CellGrid(const DevicePart<K>* parts, int32_t count, int64_t cells) {
  for (int64_t at = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; at < cells;
       at += int64_t{gridDim.x} * blockDim.x) {
    const DevicePart<K>& part = FindPart(parts, count, at);
    const Work<K>& work = part.payload;
    const int64_t j = at - part.begin, across = work.stage.across;
    const Cell cell{static_cast<int32_t>(j % across),
                    static_cast<int32_t>(part.first.row + j / across)};
    K::Item(cell, work.args, work.shape, work.stage);
  }
}

// One task of a kernel with the form Block, for the threads of `group`; `leads` on one of them.
template <class K>
__device__ void RunTask(const Group& group, const DevicePart<K>* parts, int32_t count, int64_t at,
                        bool leads) {
  const DevicePart<K>& part = FindPart(parts, count, at);
  const int64_t j = at - part.begin;
  if constexpr (kCanFail<K>) {
    const Fault fault = K::Block(group, TaskAt(part.first, j), part.payload);
    if (leads) part.fault[j] = fault.code;
  } else {
    K::Block(group, TaskAt(part.first, j), part.payload);
  }
}

template <class K>
__global__ void BlockGrid(const DevicePart<K>* parts, int32_t count, int64_t tasks) {
  extern __shared__ __align__(16) char shared[];
  const Group group(shared);
  for (int64_t at = blockIdx.x; at < tasks; at += gridDim.x) {
    RunTask(group, parts, count, at, threadIdx.x == 0);
    __syncthreads();
  }
}

// `shared_bytes`: of a task.
template <class K>
__global__ void WarpGrid(const DevicePart<K>* parts, int32_t count, int64_t tasks,
                         int64_t shared_bytes) {
  extern __shared__ __align__(16) char shared[];
  const int warp = threadIdx.x / kWarpThreads, warps = blockDim.x / kWarpThreads;
  const Group group(shared + warp * shared_bytes, true);
  for (int64_t at = blockIdx.x * int64_t{warps} + warp; at < tasks;
       at += int64_t{gridDim.x} * warps) {
    RunTask(group, parts, count, at, threadIdx.x % kWarpThreads == 0);
    __syncwarp();
  }
}

// *into = Reduce(*into, value), whoever else does so.
template <class T>
__device__ void ReduceInto(Reduction reduction, T* into, T value) {
  Update(into, [=](T seen) { return Reduce(reduction, seen, value); });
}

template <class T>
__device__ T ShuffleDown(T value, int lanes) {
  using Bits = typename SizedBits<(sizeof(T) < 4 ? 4 : sizeof(T))>::type;
  if constexpr (sizeof(T) < 4) {
    return static_cast<T>(__shfl_down_sync(0xffffffffu, static_cast<unsigned>(value), lanes));
  } else {
    return BitCast<T>(__shfl_down_sync(0xffffffffu, BitCast<Bits>(value), lanes));
  }
}

// What a block's own copy of the arrays of a partial takes in shared memory; elements[output] are
// theirs.
template <class K>
TANDEM_FN int64_t OwnArraysBytes(const int64_t* elements) {
  typename PartialOf<K>::type partial{};
  int64_t bytes = 0;
  EachReducer(partial, [&](auto& reducer, int output) {
    using R = Plain<decltype(reducer)>;
    if constexpr (!R::kInside) {
      const int64_t array = elements[output] * int64_t{sizeof(typename R::Element)};
      bytes += (array + kSharedAlign - 1) / kSharedAlign * kSharedAlign;
    }
  });
  return bytes;
}

// A block works on one part; its y index is the part. Scalars are folded by warps. Arrays are
// counted into by atomics, in `own` shared memory first where they fit.
template <class K>
__global__ void ReduceGrid(const DevicePart<K>* parts, bool own) {
  extern __shared__ __align__(16) char shared[];
  using P = typename PartialOf<K>::type;
  const DevicePart<K>& part = parts[blockIdx.y];
  P partial{};
  int64_t used = 0;
  EachReducer(partial, [&](auto& reducer, int output) {
    using R = Plain<decltype(reducer)>;
    using T = typename R::Element;
    if constexpr (R::kInside) {
      reducer.value = ReductionIdentity<T>(R::kReduction);
    } else if (own) {
      reducer.p = reinterpret_cast<T*>(shared + used);
      const int64_t elements = part.elements[output];
      for (int64_t j = threadIdx.x; j < elements; j += blockDim.x)
        reducer.p[j] = ReductionIdentity<T>(R::kReduction);
      used += (elements * int64_t{sizeof(T)} + kSharedAlign - 1) / kSharedAlign * kSharedAlign;
    } else {
      reducer.p = reinterpret_cast<T*>(part.partial + part.offset[output]);
    }
  });
  if (own) __syncthreads();
  for (int64_t j = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; j < part.count;
       j += int64_t{gridDim.x} * blockDim.x) {
    if constexpr (kCanFail<K>) {
      part.fault[j] = K::Each(TaskAt(part.first, j), part.payload, partial).code;
    } else {
      K::Each(TaskAt(part.first, j), part.payload, partial);
    }
  }
  if (own) __syncthreads();
  EachReducer(partial, [&](auto& reducer, int output) {
    using R = Plain<decltype(reducer)>;
    using T = typename R::Element;
    T* const out = reinterpret_cast<T*>(part.partial + part.offset[output]);
    if constexpr (R::kInside) {
      T value = reducer.value;
      for (int w = kLanes / 2; w > 0; w /= 2)
        value = Reduce(R::kReduction, value, ShuffleDown(value, w));
      if (threadIdx.x % kLanes == 0) ReduceInto(R::kReduction, out, value);
    } else if (own) {
      for (int64_t j = threadIdx.x; j < part.elements[output]; j += blockDim.x)
        ReduceInto(R::kReduction, out + j, reducer.p[j]);
    }
  });
}

template <class K>
__device__ PartialLayout LayoutOf(const DevicePart<K>& part) {
  PartialLayout layout;
  for (int r = 0; r < kMaxReducers; ++r) {
    layout.offset[r] = part.offset[r];
    layout.elements[r] = part.elements[r];
  }
  layout.bytes = 0;
  return layout;
}

// A part's tasks, a whole leaf, by the calling warp.
template <class K>
__device__ void RunLeaf(const DevicePart<K>& part, int lane) {
  using P = typename PartialOf<K>::type;
  const PartialLayout layout = LayoutOf(part);
  P partial = BindLane<P>(layout, part.partial, part.lanes, lane);
  for (int64_t j = lane; j < part.count; j += kLanes) {
    if constexpr (kCanFail<K>) {
      part.fault[j] = K::Each(TaskAt(part.first, j), part.payload, partial).code;
    } else {
      K::Each(TaskAt(part.first, j), part.payload, partial);
    }
  }
  __syncwarp();
  EachReducer(partial, [&](auto& reducer, int output) {
    using R = Plain<decltype(reducer)>;
    using T = typename R::Element;
    T* const out = reinterpret_cast<T*>(part.partial + part.offset[output]);
    if constexpr (R::kInside) {
      T value = reducer.value;
      for (int w = kLanes / 2; w > 0; w /= 2)
        value = Reduce(R::kReduction, value, ShuffleDown(value, w));
      if (lane == 0) *out = Reduce(R::kReduction, *out, value);
    } else if constexpr (R::kInLanes) {
      const int64_t elements = part.elements[output], pitch = LanePitch<T>(elements);
      T* const first = reducer.p - lane * pitch;
      for (int64_t j = lane; j < elements; j += kLanes) {
        T sum[kLanes];
        for (int l = 0; l < kLanes; ++l) sum[l] = first[l * pitch + j];
        for (int w = kLanes / 2; w > 0; w /= 2) {
          for (int l = 0; l < w; ++l) sum[l] += sum[l + w];
        }
        out[j] = Reduce(R::kReduction, out[j], sum[0]);
      }
    }
  });
}

// A warp works on one part: thread l is lane l, as on the CPU.
template <class K>
__global__ void LaneGrid(const DevicePart<K>* parts, int32_t count) {
  const int32_t warps = blockDim.x / kLanes, lane = threadIdx.x % kLanes;
  for (int64_t at = blockIdx.x * int64_t{warps} + threadIdx.x / kLanes; at < count;
       at += int64_t{gridDim.x} * warps) {
    RunLeaf(parts[at], lane);
    __syncwarp();
  }
}

// Host side.
template <class K>
struct CudaEntries {
  using Part = DevicePart<K>;

  // Tasks of a part in the grid's own count.
  static int64_t GridCount(const TandemPart& part) {
    if constexpr (kHasItem<K>) {
      return part.tasks * static_cast<const Work<K>*>(part.args)->stage.across;
    } else {
      return part.tasks;
    }
  }
  // … and the room that they have there.
  static int64_t GridRoom(const TandemPart& part) {
    const int64_t count = GridCount(part);
    return kIsWide<K> ? (count + kWide - 1) / kWide * kWide : count;
  }

  static int64_t LanesBytes(const TandemPart& part) {
    if constexpr (InLanes<K>()) {
      return LaneBytes<typename PartialOf<K>::type>(LayOutPartial<K>(part.args));
    } else {
      return 0;
    }
  }

  static void Pack(const TandemPart* parts, int32_t count, void* slab, void* workspace) {
    auto* out = static_cast<Part*>(slab);
    char* lanes = static_cast<char*>(workspace);
    int64_t begin = 0;
    for (int32_t i = 0; i < count; ++i) {
      Part& part = out[i];
      __builtin_memcpy(&part.payload, parts[i].args, sizeof(part.payload));
      part.first = Task{parts[i].first.id, parts[i].first.row};
      part.begin = begin;
      part.count = GridCount(parts[i]);
      part.fault = parts[i].fault;
      part.partial = static_cast<char*>(parts[i].partial);
      part.lanes = lanes;
      if constexpr (kHasPartial<K>) {
        const PartialLayout layout = LayOutPartial<K>(parts[i].args);
        for (int r = 0; r < kSignatureOf<K>.reductions; ++r) {
          part.offset[r] = layout.offset[r];
          part.elements[r] = layout.elements[r];
        }
      }
      if constexpr (kIsWide<K>) {
        part.wide = WideKernel<K>::Aligned(part.payload, part.first.row, part.fault);
      }
      begin += GridRoom(parts[i]);
      lanes += LanesBytes(parts[i]);
    }
  }

  static int64_t WorkspaceBytes(const TandemPart* parts, int32_t count) {
    int64_t bytes = 0;
    for (int32_t i = 0; i < count; ++i) {
      if constexpr (kIsOwn<K>) {
        const int64_t part =
            K::WorkspaceBytes(*static_cast<const typename K::Args*>(parts[i].args), parts[i].tasks);
        bytes = bytes > part ? bytes : part;
      } else {
        bytes += LanesBytes(parts[i]);
      }
    }
    return bytes;
  }

  static int32_t Launch(const TandemPart* parts, const void* device_slab, int32_t count,
                        int64_t tasks, void* workspace, void* stream) {
    if (count == 0 || tasks == 0) return cudaSuccess;
    const auto s = static_cast<cudaStream_t>(stream);
    const auto* device = static_cast<const Part*>(device_slab);
    if constexpr (kHasItem<K>) {
      int64_t cells = 0;
      for (int32_t i = 0; i < count; ++i) cells += GridCount(parts[i]);
      if (cells == 0) return cudaSuccess;
      Geometry grid;
      if (const int32_t error = grid.Threads(&CellGrid<K>, cells)) return error;
      CellGrid<K><<<grid.blocks, grid.threads, 0, s>>>(device, count, cells);
    } else if constexpr (kHasBlock<K>) {
      return LaunchBlocks(device, parts, count, tasks, s);
    } else if constexpr (InLanes<K>()) {
      Geometry grid;
      if (const int32_t error = grid.Tasks(&LaneGrid<K>, count, kLanes, 0)) return error;
      LaneGrid<K><<<grid.blocks, grid.threads, 0, s>>>(device, count);
    } else if constexpr (kHasPartial<K>) {
      return LaunchReduction(device, parts, count, s);
    } else {
      int64_t room = 0;
      for (int32_t i = 0; i < count; ++i) room += GridRoom(parts[i]);
      Geometry grid;
      if (const int32_t error = grid.Threads(&MapGrid<K>, room)) return error;
      if constexpr (kIsWide<K>) {
        // With fewer each thread would do in turn what others have time for.
        if (room >= kWide * grid.at_once) return LaunchWide(device, count, room / kWide, s);
      }
      MapGrid<K><<<grid.blocks, grid.threads, 0, s>>>(device, count, room);
    }
    return cudaGetLastError();
  }

  static int32_t LaunchWide(const Part* device, int32_t count, int64_t runs, cudaStream_t s) {
    Geometry grid;
    if (const int32_t error = grid.Threads(&WideGrid<K>, runs)) return error;
    WideGrid<K><<<grid.blocks, grid.threads, 0, s>>>(runs, device, count);
    return cudaGetLastError();
  }

  // Shared memory as the part needs that needs most.
  static int32_t LaunchBlocks(const Part* device, const TandemPart* parts, int32_t count,
                              int64_t tasks, cudaStream_t s) {
    constexpr int32_t kAsked = TaskThreadsOf<K>::value;
    int64_t shared = 0;
    for (int32_t i = 0; i < count; ++i) {
      const int64_t bytes = K::SharedBytes(*static_cast<const typename K::Args*>(parts[i].args));
      shared = shared > bytes ? shared : bytes;
    }
    Geometry grid;
    if constexpr (kAsked > 0 && kAsked <= kWarpThreads) {
      shared = (shared + kSharedAlign - 1) / kSharedAlign * kSharedAlign;
      if (const int32_t error = grid.Tasks(&WarpGrid<K>, tasks, kWarpThreads, shared)) return error;
      WarpGrid<K>
          <<<grid.blocks, grid.threads, grid.shared_bytes, s>>>(device, count, tasks, shared);
    } else {
      if (const int32_t error = grid.Blocks(&BlockGrid<K>, tasks, kAsked, shared)) return error;
      BlockGrid<K><<<grid.blocks, grid.threads, grid.shared_bytes, s>>>(device, count, tasks);
    }
    return cudaGetLastError();
  }

  // The y index of a grid is the part; 65,535 of them at a time.
  static int32_t LaunchReduction(const Part* device, const TandemPart* parts, int32_t count,
                                 cudaStream_t s) {
    constexpr int32_t kPartsAtOnce = 65535;
    for (int32_t begin = 0; begin < count; begin += kPartsAtOnce) {
      const int32_t n = count - begin < kPartsAtOnce ? count - begin : kPartsAtOnce;
      int64_t largest = 1, own = 0;
      for (int32_t i = begin; i < begin + n; ++i) {
        largest = largest > parts[i].tasks ? largest : parts[i].tasks;
        const int64_t bytes = OwnArraysBytes<K>(LayOutPartial<K>(parts[i].args).elements);
        own = own > bytes ? own : bytes;
      }
      if (own > kSharedFree) own = 0;
      Geometry grid;
      if (const int32_t error =
              grid.Layers(&ReduceGrid<K>, (largest + kTasksAThread - 1) / kTasksAThread, n, own)) {
        return error;
      }
      ReduceGrid<K>
          <<<dim3(grid.blocks, static_cast<unsigned>(n)), grid.threads, grid.shared_bytes, s>>>(
              device + begin, own > 0);
      if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) return error;
    }
    return cudaSuccess;
  }
  static constexpr int64_t kTasksAThread = 16;  // before it folds and adds once

  // It names no task that failed: if it is well, all of them are.
  static int32_t LaunchOwn(const TandemPart* parts, const void*, int32_t count, int64_t,
                           void* workspace, void* stream) {
    const auto s = static_cast<cudaStream_t>(stream);
    for (int32_t i = 0; i < count; ++i) {
      if (parts[i].fault != nullptr) {
        const auto tasks = static_cast<size_t>(parts[i].tasks);
        if (const int32_t error = cudaMemsetAsync(parts[i].fault, TANDEM_OK, tasks, s))
          return error;
      }
      const auto& args = *static_cast<const typename K::Args*>(parts[i].args);
      const Task first{parts[i].first.id, parts[i].first.row};
      int32_t error;
      if constexpr (kHasMerge<K>) {
        error = K::Launch(args, first, parts[i].tasks, parts[i].partial, workspace, Stream{stream});
      } else {
        error = K::Launch(args, first, parts[i].tasks, workspace, Stream{stream});
      }
      if (error != cudaSuccess) return error;
    }
    return cudaSuccess;
  }
};

// The table of a CUDA library; host stages and merges are there too.
template <class K>
constexpr TandemKernelV1 MakeCudaKernel(uint64_t content_hash) {
  static_assert(kSignatureOf<K>.reductions <= kMaxReducers,
                "at most four outputs with a reduction");
  TandemKernelV1 k = DescribeKernel<K>(content_hash);
  k.workspace_bytes = &CudaEntries<K>::WorkspaceBytes;
  if constexpr (kIsOwn<K>) {
    k.launch = &CudaEntries<K>::LaunchOwn;
  } else {
    k.part_bytes = sizeof(DevicePart<K>);
    k.pack_parts = &CudaEntries<K>::Pack;
    k.launch = &CudaEntries<K>::Launch;
  }
  return k;
}

}  // namespace TANDEM_ISA_NAMESPACE
}  // namespace tandem

#endif  // TANDEM_GRID_CUH_
