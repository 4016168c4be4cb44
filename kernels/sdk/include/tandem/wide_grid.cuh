// A map whose threads take a few adjoining tasks at a time, so that what each task reads and writes
// for itself moves in vector loads and stores. For light kernels with more tasks than the device
// has threads: there the memory is what bounds.
//
//   part.wide = HeldBy<K>::Aligned(args, row, fault);     // host, when parts are packed
//   RunWide<K>(part, j);                                   // device: tasks [j, j + kWide) of it
//
// The body is the same and sees nothing of it: its PerTask members point into what the thread
// holds, and its task's row counts from there. Bytes are those of one task at a time.
//
// Thread-safety: as K's body.
#ifndef TANDEM_WIDE_GRID_CUH_
#define TANDEM_WIDE_GRID_CUH_

#include <cuda_runtime.h>

#include "tandem/kernel_traits.h"
#include "tandem/task.h"
#include "tandem/traits.h"

namespace tandem {
inline namespace TANDEM_ISA_NAMESPACE {

// Tasks of a thread at a time: 16 bytes of four-byte elements.
inline constexpr int kWide = 4;
// A body that takes longer than this a task is bound by itself; more threads help it.
inline constexpr double kWideCostNs = 16;

template <int kBytes>
struct VectorOf {
  using type = uint4;
};
template <>
struct VectorOf<4> {
  using type = unsigned;
};
template <>
struct VectorOf<8> {
  using type = uint2;
};

// REQUIRES: both are aligned to kBytes, or to 16 where that is less.
template <int kBytes>
__device__ void CopyVectors(void* to, const void* from) {
  using Vector = typename VectorOf<kBytes>::type;
  constexpr int kCount = kBytes / static_cast<int>(sizeof(Vector));
#pragma unroll
  for (int i = 0; i < kCount; ++i)
    static_cast<Vector*>(to)[i] = static_cast<const Vector*>(from)[i];
}

// What a thread holds of one member of Args: nothing of what all tasks share.
template <class M>
struct Held {
  static constexpr bool kPerTask = false;
  static constexpr bool kFits = kSame<typename Pointee<M>::type, void>;

  static bool Aligned(const M&, int64_t) { return true; }
  __device__ void Take(M&, int64_t) {}
  __device__ void Give() const {}
};
template <class T>
struct Held<Broadcast<T>> {
  static constexpr bool kPerTask = false, kFits = true;

  static bool Aligned(const Broadcast<T>&, int64_t) { return true; }
  __device__ void Take(Broadcast<T>&, int64_t) {}
  __device__ void Give() const {}
};
template <class T>
struct Held<PerTask<T>> {
  static constexpr int kBytes = kWide * static_cast<int>(sizeof(T));
  static constexpr bool kPerTask = true, kFits = sizeof(T) <= 8;

  static bool Aligned(const PerTask<T>& member, int64_t row) {
    return reinterpret_cast<uintptr_t>(member.p + row) % (kBytes < 16 ? kBytes : 16) == 0;
  }
  // From here on the member has the thread's own rows.
  __device__ void Take(PerTask<T>& member, int64_t row) {
    place = member.p + row;
    if constexpr (kConst<T>) CopyVectors<kBytes>(held, place);
    member.p = reinterpret_cast<T*>(held);
  }
  __device__ void Give() const {
    if constexpr (!kConst<T>) CopyVectors<kBytes>(place, held);
  }

  T* place;
  alignas(16) unsigned char held[kBytes];
};

template <class... M>
struct HeldMembers {
  __device__ void Take(int64_t) {}
  __device__ void Give() const {}
};
template <class M, class... Rest>
struct HeldMembers<M, Rest...> {
  __device__ void Take(int64_t row, M& member, Rest&... others) {
    first.Take(member, row);
    rest.Take(row, others...);
  }
  __device__ void Give() const {
    first.Give();
    rest.Give();
  }

  Held<M> first;
  HeldMembers<Rest...> rest;
};

template <class... M>
constexpr bool AllAreHeld(List<M...>) {
  return (Held<M>::kFits && ...) && (Held<M>::kPerTask || ...);
}
template <class... M>
HeldMembers<M...> HeldOf(List<M...>);

// Of a kernel with the form Each and no partial.
template <class K>
struct WideKernel {
  using Args = typename K::Args;
  static constexpr int kMembers = CountMembers<Args>::value;
  using Members = decltype(MemberTypes(Number<kMembers>{}, Declare<Args&>()));
  using Holding = decltype(HeldOf(Members{}));
  static constexpr bool kWorth = K::kCostNs <= kWideCostNs && CostUnitsOf<K>::value[0] == '1' &&
                                 CostUnitsOf<K>::value[1] == 0 && AllAreHeld(Members{});

  // Do the tasks from this row on have vectors of their own? `fault` may be null.
  static bool Aligned(Args args, int64_t row, const uint8_t* fault) {
    return reinterpret_cast<uintptr_t>(fault) % kWide == 0 &&
           WithMembers(Number<kMembers>{}, args, [row](const auto&... member) {
             return (Held<Plain<decltype(member)>>::Aligned(member, row) && ...);
           });
  }

  // Tasks with the ids [first_id, first_id + kWide), whose rows begin at `row`.
  __device__ static void Run(Args args, int64_t first_id, int64_t row, uint8_t* fault) {
    Holding holding;
    WithMembers(Number<kMembers>{}, args,
                [&holding, row](auto&... member) { holding.Take(row, member...); });
    alignas(kWide) uint8_t codes[kWide];
#pragma unroll
    for (int k = 0; k < kWide; ++k) {
      if constexpr (kCanFail<K>) {
        codes[k] = K::Each(Task{first_id + k, k}, args).code;
      } else {
        K::Each(Task{first_id + k, k}, args);
      }
    }
    holding.Give();
    if constexpr (kCanFail<K>) CopyVectors<kWide>(fault, codes);
  }
};

// Is it worth while for K, and can it be done?
template <class K, bool kIsMap>
inline constexpr bool kIsWideMap = false;
template <class K>
inline constexpr bool kIsWideMap<K, true> = WideKernel<K>::kWorth;
template <class K>
inline constexpr bool kIsWide = kIsWideMap<K, kHasEach<K> && !kHasPartial<K>>;

}  // namespace TANDEM_ISA_NAMESPACE
}  // namespace tandem

#endif  // TANDEM_WIDE_GRID_CUH_
