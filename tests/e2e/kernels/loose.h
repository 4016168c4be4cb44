// A kernel of class tolerant, for reductions_test.py: contraction shows in its results.
//
// Thread-safety: a pure function.
#ifndef TANDEM_TESTS_E2E_KERNELS_LOOSE_H_
#define TANDEM_TESTS_E2E_KERNELS_LOOSE_H_

#include "tandem/body.h"

namespace TANDEM_KERNELS {

struct Loose {
  static constexpr char kName[] = "loose";
  static constexpr char kSignature[] =
      "x[n]:f32, scale:f32, shift:f32 -> y[n]:f32, total:f32 : sum";
  static constexpr auto kClass = tandem::OutputClass::kTolerant;
  static constexpr double kTolerance = 1e-5;
  static constexpr double kCostNs = 1;
  struct Args {
    tandem::PerTask<const float> x;
    float scale, shift;
    tandem::PerTask<float> y;
  };
  struct Partial {
    tandem::Lanes<float> total;
  };
  TANDEM_BODY void Each(tandem::Task t, const Args& a, Partial& sum) {
    const float y = a.x[t] * a.scale + a.shift;  // one rounding or two
    a.y[t] = y;
    sum.total.add(y * a.x[t]);
  }
};

}  // namespace TANDEM_KERNELS

#endif  // TANDEM_TESTS_E2E_KERNELS_LOOSE_H_
