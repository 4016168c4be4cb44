// Reducers: what a body adds to, one for each output with a reduction.
//
//   using Partial = tandem::Bins<uint32_t, 256>;                        // one output
//   struct Partial { tandem::LaneSums<float> grad; tandem::Lanes<float> loss; };   // several, in
//   the signature's order
//
// | output            | integers, `sum`         | floats, `sum`  | `min`, `max`         |
// | a scalar          | Sum<T>                  | Lanes<T>       | Min<T>, Max<T>       |
// | an array          | Bins<T, N>, Counts<T>   | LaneSums<T>    | Mins<T>, Maxs<T>     |
//
// Float sums have 32 fixed lanes inside a leaf: the task at position j of its leaf adds to lane j
// mod 32, in order, and the lanes are folded as a tree. So a leaf has one value on every
// instruction set and on CUDA.
//
// A task that fails must not add (`sum.add(ok ? v : 0)`).
//
// Thread-safety: a reducer belongs to one thread of one run; the drivers make and merge them.
// Ownership: pointers lead into the caller's partial or scratch.
#ifndef TANDEM_REDUCE_H_
#define TANDEM_REDUCE_H_

#include "tandem/config.h"
#include "tandem/task.h"
#include "tandem/traits.h"

namespace tandem {
inline namespace TANDEM_ISA_NAMESPACE {

inline constexpr int kLanes = 32;

enum class Reduction : uint8_t { kNone, kSum, kMin, kMax, kOwn };

template <class T>
struct Sum {
  static_assert(kIntegral<T>, "Sum is for integers, whose sums are exact; use Lanes for floats");
  using Element = T;
  static constexpr Reduction kReduction = Reduction::kSum;
  static constexpr bool kInside = true, kInLanes = false;
  T value;

  TANDEM_FN void add(T v) { value = static_cast<T>(value + v); }
};

template <class T, int N>
struct Bins {
  static_assert(kIntegral<T>,
                "Bins is for integers, whose sums are exact; use LaneSums for floats");
  static_assert(N > 0, "Bins needs at least one bin");
  using Element = T;
  static constexpr Reduction kReduction = Reduction::kSum;
  static constexpr bool kInside = false, kInLanes = false;
  static constexpr int64_t kSize = N;
  T* p;

  TANDEM_FN void add(int64_t bin, T v) {
#if defined(__CUDA_ARCH__)
    using Bits = typename SizedBits<sizeof(T)>::type;  // adding wraps alike, signed or not
    atomicAdd(reinterpret_cast<Bits*>(&p[bin]), static_cast<Bits>(v));
#else
    p[bin] = static_cast<T>(p[bin] + v);
#endif
  }
};

// As Bins, with a number of bins that the arguments decide: `count[4^k]`.
template <class T>
struct Counts {
  static_assert(kIntegral<T>,
                "Counts is for integers, whose sums are exact; use LaneSums for floats");
  using Element = T;
  static constexpr Reduction kReduction = Reduction::kSum;
  static constexpr bool kInside = false, kInLanes = false;
  T* p;

  TANDEM_FN void add(int64_t bin, T v) { Bins<T, 1>{p}.add(bin, v); }
};

template <class T>
struct Lanes {
  static_assert(kFloating<T>, "Lanes is for floats; use Sum for integers");
  using Element = T;
  static constexpr Reduction kReduction = Reduction::kSum;
  static constexpr bool kInside = true, kInLanes = true;
  T value;

  TANDEM_FN void add(T v) { value += v; }
};

template <class T>
struct LaneSums {
  static_assert(kFloating<T>, "LaneSums is for floats; use Counts for integers");
  using Element = T;
  static constexpr Reduction kReduction = Reduction::kSum;
  static constexpr bool kInside = false, kInLanes = true;
  T* p;  // this lane's sums

  TANDEM_FN void add(int64_t j, T v) { p[j] += v; }
  TANDEM_FN T* data() const { return p; }
};

// Orders all values, -0 before +0, so that the least of any set is one value; a NaN is never the
// least or greatest.
template <class T>
TANDEM_FN bool Less(T a, T b) {
  if constexpr (kSame<T, float>) {
    int32_t x = BitCast<int32_t>(a), y = BitCast<int32_t>(b);
    return (x ^ ((x >> 31) & 0x7fffffff)) < (y ^ ((y >> 31) & 0x7fffffff));
  } else if constexpr (kSame<T, double>) {
    int64_t x = BitCast<int64_t>(a), y = BitCast<int64_t>(b);
    return (x ^ ((x >> 63) & 0x7fffffffffffffff)) < (y ^ ((y >> 63) & 0x7fffffffffffffff));
  } else {
    return a < b;
  }
}
template <class T>
TANDEM_FN T Lesser(T a, T b) {
  return b == b && Less(b, a) ? b : a;
}
template <class T>
TANDEM_FN T Greater(T a, T b) {
  return b == b && Less(a, b) ? b : a;
}

// *at = wanted(*at); on CUDA other threads may do so at the same time, and each counts.
template <class T, class F>
TANDEM_FN void Update(T* at, F wanted) {
#if defined(__CUDA_ARCH__)
  static_assert(sizeof(T) >= 4, "an array that CUDA reduces has elements of 4 or 8 bytes");
  using Bits = typename SizedBits<sizeof(T)>::type;
  Bits* const address = reinterpret_cast<Bits*>(at);
  Bits seen = *address;
  for (;;) {
    const Bits to = BitCast<Bits>(wanted(BitCast<T>(seen)));
    if (to == seen) return;
    const Bits found = atomicCAS(address, seen, to);
    if (found == seen) return;
    seen = found;
  }
#else
  *at = wanted(*at);
#endif
}

template <class T>
struct Min {
  using Element = T;
  static constexpr Reduction kReduction = Reduction::kMin;
  static constexpr bool kInside = true, kInLanes = false;
  T value;

  TANDEM_FN void take(T v) { value = Lesser(value, v); }
};

template <class T>
struct Max {
  using Element = T;
  static constexpr Reduction kReduction = Reduction::kMax;
  static constexpr bool kInside = true, kInLanes = false;
  T value;

  TANDEM_FN void take(T v) { value = Greater(value, v); }
};

template <class T>
struct Mins {
  using Element = T;
  static constexpr Reduction kReduction = Reduction::kMin;
  static constexpr bool kInside = false, kInLanes = false;
  T* p;

  TANDEM_FN void take(int64_t j, T v) {
    Update(&p[j], [v](T old) { return Lesser(old, v); });
  }
};

template <class T>
struct Maxs {
  using Element = T;
  static constexpr Reduction kReduction = Reduction::kMax;
  static constexpr bool kInside = false, kInLanes = false;
  T* p;

  TANDEM_FN void take(int64_t j, T v) {
    Update(&p[j], [v](T old) { return Greater(old, v); });
  }
};

// What a partial that counts no task holds.
template <class T>
TANDEM_FN T ReductionIdentity(Reduction reduction) {
  if (reduction == Reduction::kSum) return T(0);
  bool least = reduction == Reduction::kMin;
  if constexpr (kFloating<T>) {
    T infinity = static_cast<T>(__builtin_inff());
    return least ? infinity : -infinity;
  } else {
    constexpr bool kSigned = T(-1) < T(0);
    constexpr T kGreatest =
        kSigned ? static_cast<T>((uint64_t{1} << (sizeof(T) * 8 - 1)) - 1) : static_cast<T>(-1);
    constexpr T kLeast = kSigned ? static_cast<T>(-kGreatest - 1) : T(0);
    return least ? kGreatest : kLeast;
  }
}

template <class T>
TANDEM_FN T Reduce(Reduction reduction, T a, T b) {
  if (reduction == Reduction::kSum) return Canonical(static_cast<T>(a + b));
  return reduction == Reduction::kMin ? Lesser(a, b) : Greater(a, b);
}

}  // namespace TANDEM_ISA_NAMESPACE
}  // namespace tandem

#endif  // TANDEM_REDUCE_H_
