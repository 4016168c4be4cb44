// Kernels that misbehave when their operand says so, for tests of what that costs.
//
// Thread-safety: pure functions, where they return.
#ifndef TANDEM_TESTS_E2E_KERNELS_TROUBLE_H_
#define TANDEM_TESTS_E2E_KERNELS_TROUBLE_H_

#include "tandem/body.h"

namespace TANDEM_KERNELS {

struct Crasher {
  static constexpr char kName[] = "crasher";
  static constexpr char kSummary[] = "doubles x; ends its process where x is 13";
  static constexpr char kSignature[] = "x[n]:u32 -> y[n]:u32";
  static constexpr auto kClass = tandem::OutputClass::kExact;
  static constexpr double kCostNs = 1;
  struct Args {
    tandem::PerTask<const uint32_t> x;
    tandem::PerTask<uint32_t> y;
  };
  TANDEM_BODY void Each(tandem::Task t, const Args& a) {
    if (a.x[t] == 13) __builtin_trap();
    a.y[t] = 2 * a.x[t];
  }
};

struct Sleeper {
  static constexpr char kName[] = "sleeper";
  static constexpr char kSummary[] = "doubles x; never returns where x is 13";
  static constexpr char kSignature[] = "x[n]:u32 -> y[n]:u32";
  static constexpr auto kClass = tandem::OutputClass::kExact;
  static constexpr double kCostNs = 1;
  struct Args {
    tandem::PerTask<const uint32_t> x;
    tandem::PerTask<uint32_t> y;
  };
  TANDEM_BODY void Each(tandem::Task t, const Args& a) {
    volatile uint32_t x = a.x[t];
    while (x == 13) {
    }
    a.y[t] = 2 * x;
  }
};

}  // namespace TANDEM_KERNELS

#endif  // TANDEM_TESTS_E2E_KERNELS_TROUBLE_H_
