// saxpy: z = scale * x + y.
//
// Source: Lawson, Hanson, Kincaid, Krogh: Basic linear algebra subprograms for Fortran usage,
// ACM TOMS 5, 1979.
//
// Thread-safety: pure functions.
#ifndef TANDEM_KERNELS_SAXPY_SAXPY_H_
#define TANDEM_KERNELS_SAXPY_SAXPY_H_

#include "tandem/body.h"

namespace TANDEM_KERNELS {

struct Saxpy {
  static constexpr char kName[] = "saxpy";
  static constexpr char kSummary[] = "scale times x plus y";
  static constexpr char kSignature[] = "scale:f32, x[n]:f32, y[n]:f32 -> z[n]:f32";
  static constexpr auto kClass = tandem::OutputClass::kBitwise;
  static constexpr double kCostNs = 0.5;

  struct Args {
    float scale;
    tandem::PerTask<const float> x, y;
    tandem::PerTask<float> z;
  };

  TANDEM_BODY void Each(tandem::Task t, const Args& a) { a.z[t] = a.scale * a.x[t] + a.y[t]; }
};

}  // namespace TANDEM_KERNELS

#endif  // TANDEM_KERNELS_SAXPY_SAXPY_H_
