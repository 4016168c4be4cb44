// spin: a linear congruential generator stepped work[i] times from a state of seed and task: tasks
// of any length, whose result can also be had by jumping. For measuring overheads.
//
// Source: Knuth: The art of computer programming 2, 3.3.4 (constants); Brown: Random number
// generation with arbitrary strides, 1994 (jump).
//
// Thread-safety: pure functions.
#ifndef TANDEM_KERNELS_SPIN_SPIN_H_
#define TANDEM_KERNELS_SPIN_SPIN_H_

#include "tandem/body.h"

namespace TANDEM_KERNELS {

#if !defined(__CUDACC__)
// Where a number of steps leads from any state: state * multiplier + increment.
struct SpinJump {
  uint64_t multiplier = 1, increment = 0;
};
// By digit << 8 * place steps: a jump for each byte of a work.
struct SpinJumps {
  SpinJump by[4][256];

  constexpr SpinJumps(uint64_t multiplier, uint64_t increment) : by() {
    SpinJump step = {multiplier, increment};
    for (auto& digits : by) {
      SpinJump sum;
      for (SpinJump& digit : digits) {
        digit = sum;
        sum = {sum.multiplier * step.multiplier, sum.increment * step.multiplier + step.increment};
      }
      step = sum;
    }
  }
};
#endif

struct Spin {
  static constexpr char kName[] = "spin";
  static constexpr char kSummary[] = "a generator stepped work[i] times: tasks of any length";
  static constexpr char kSignature[] = "work[n]:u32, seed:u64 = 0 -> value[n]:u64";
  static constexpr auto kClass = tandem::OutputClass::kExact;
  static constexpr double kCostNs = 1000;  // work is data; a thousand steps is a guess

  struct Args {
    tandem::PerTask<const uint32_t> work;
    uint64_t seed;
    tandem::PerTask<uint64_t> value;
  };

  static constexpr uint64_t kMultiplier = 6364136223846793005u, kIncrement = 1442695040888963407u;

  TANDEM_FN static uint64_t Start(tandem::Task t, const Args& a) {
    return (a.seed ^ static_cast<uint64_t>(t.id)) * 0x9e3779b97f4a7c15u;
  }

  TANDEM_BODY void Each(tandem::Task t, const Args& a) {
    uint64_t state = Start(t, a);
    for (uint32_t i = a.work[t]; i != 0; --i) state = state * kMultiplier + kIncrement;
    a.value[t] = state;
  }

#if !defined(__CUDACC__)
  // The same by a jump for each byte of work, whatever their order.
  static constexpr SpinJumps kJumps{kMultiplier, kIncrement};
  TANDEM_BODY void Cheap(tandem::Task t, const Args& a) {
    uint64_t state = Start(t, a);
    int place = 0;
    for (uint32_t left = a.work[t]; left != 0; left >>= 8) {
      const SpinJump& jump = kJumps.by[place++][left & 255];
      state = state * jump.multiplier + jump.increment;
    }
    a.value[t] = state;
  }
#endif
};

}  // namespace TANDEM_KERNELS

#endif  // TANDEM_KERNELS_SPIN_SPIN_H_
