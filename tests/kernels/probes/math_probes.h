// A kernel for each function of tandem/math.h, built like a user's library, for math_test.
//
// Thread-safety: pure functions.
#ifndef TANDEM_TESTS_KERNELS_PROBES_MATH_PROBES_H_
#define TANDEM_TESTS_KERNELS_PROBES_MATH_PROBES_H_

#include "tandem/body.h"

namespace TANDEM_KERNELS {

#define TANDEM_PROBE(Struct, function, dtype, T, expression)                                 \
  struct Struct {                                                                            \
    static constexpr char kName[] = "math_" #function "_" #dtype;                            \
    static constexpr char kSignature[] = "x[n]:" #dtype ", y[n]:" #dtype " -> z[n]:" #dtype; \
    static constexpr auto kClass = tandem::OutputClass::kBitwise;                            \
    static constexpr double kCostNs = 2;                                                     \
    struct Args {                                                                            \
      tandem::PerTask<const T> x, y;                                                         \
      tandem::PerTask<T> z;                                                                  \
    };                                                                                       \
    TANDEM_BODY void Each(tandem::Task t, const Args& a) {                                   \
      [[maybe_unused]] const T x = a.x[t], y = a.y[t];                                       \
      a.z[t] = tandem::expression;                                                           \
    }                                                                                        \
  }
#define TANDEM_PROBE_PAIR(Name, function, expression)        \
  TANDEM_PROBE(Name##F32, function, f32, float, expression); \
  TANDEM_PROBE(Name##F64, function, f64, double, expression)

TANDEM_PROBE_PAIR(Sqrt, sqrt, sqrt(x));
TANDEM_PROBE_PAIR(Exp, exp, exp(x));
TANDEM_PROBE_PAIR(Exp2, exp2, exp2(x));
TANDEM_PROBE_PAIR(Expm1, expm1, expm1(x));
TANDEM_PROBE_PAIR(Log, log, log(x));
TANDEM_PROBE_PAIR(Log2, log2, log2(x));
TANDEM_PROBE_PAIR(Log10, log10, log10(x));
TANDEM_PROBE_PAIR(Log1p, log1p, log1p(x));
TANDEM_PROBE_PAIR(Pow, pow, pow(x, y));
TANDEM_PROBE_PAIR(Sin, sin, sin(x));
TANDEM_PROBE_PAIR(Cos, cos, cos(x));
TANDEM_PROBE_PAIR(Sinpi, sinpi, sinpi(x));
TANDEM_PROBE_PAIR(Cospi, cospi, cospi(x));
TANDEM_PROBE_PAIR(Tanh, tanh, tanh(x));
TANDEM_PROBE_PAIR(Sigmoid, sigmoid, sigmoid(x));
TANDEM_PROBE_PAIR(Erf, erf, erf(x));
TANDEM_PROBE_PAIR(Erfc, erfc, erfc(x));
TANDEM_PROBE_PAIR(NormalCdf, normal_cdf, normal_cdf(x));

#undef TANDEM_PROBE_PAIR
#undef TANDEM_PROBE

}  // namespace TANDEM_KERNELS

#endif  // TANDEM_TESTS_KERNELS_PROBES_MATH_PROBES_H_
