// noop: the cheapest task with a result that can be checked, value[i] = mix(seed, i): what leasing
// itself costs.
//
// mix is the finaliser of SplitMix64 over the i-th state.
//
// Source: Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014.
//
// Thread-safety: pure functions.
#ifndef TANDEM_KERNELS_NOOP_NOOP_H_
#define TANDEM_KERNELS_NOOP_NOOP_H_

#include "tandem/body.h"

namespace TANDEM_KERNELS {

struct Noop {
  static constexpr char kName[] = "noop";
  static constexpr char kSummary[] = "the cheapest task with a result that can be checked";
  static constexpr char kSignature[] = "axis n, seed:u64 = 0 -> value[n]:u64";
  static constexpr auto kClass = tandem::OutputClass::kExact;
  static constexpr double kCostNs = 1.0;

  struct Args {
    uint64_t seed;
    tandem::PerTask<uint64_t> value;
  };

  TANDEM_BODY void Each(tandem::Task t, const Args& a) {
    uint64_t z = a.seed + (static_cast<uint64_t>(t.id) + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    a.value[t] = z ^ (z >> 31);
  }
};

}  // namespace TANDEM_KERNELS

#endif  // TANDEM_KERNELS_NOOP_NOOP_H_
