// Mathematics for bodies: float and double overloads with the same bytes on every instruction set
// and on CUDA.
//
//   float y = tandem::exp(x) * tandem::normal_cdf(d);
//
// Errors are at most 4 units in the last place (a test compares with MPFR); NaN, infinities, zeros,
// subnormals and overflow behave as in C's library, except that an invalid operation's NaN has no
// defined sign and payload (storing makes it canonical). Loops over them vectorise. Domain: sin and
// cos take |x| <= 2^30 and give NaN beyond; for angles in turns use sinpi and cospi, exact in their
// reduction for every x.
//
// Thread-safety: pure functions.
#ifndef TANDEM_MATH_H_
#define TANDEM_MATH_H_

#include "tandem/config.h"
#include "tandem/math_f32.h"
#include "tandem/math_f64.h"
#include "tandem/math_pow.h"

namespace tandem {
inline namespace TANDEM_ISA_NAMESPACE {

TANDEM_FN float sqrt(float x) { return __builtin_sqrtf(x); }
TANDEM_FN double sqrt(double x) { return __builtin_sqrt(x); }
TANDEM_FN float abs(float x) { return f32::Abs(x); }
TANDEM_FN double abs(double x) { return f64::Abs(x); }
TANDEM_FN float copysign(float magnitude, float sign) { return f32::CopySign(magnitude, sign); }
TANDEM_FN double copysign(double magnitude, double sign) { return f64::CopySign(magnitude, sign); }
TANDEM_FN float floor(float x) { return __builtin_floorf(x); }
TANDEM_FN double floor(double x) { return __builtin_floor(x); }
TANDEM_FN float ceil(float x) { return __builtin_ceilf(x); }
TANDEM_FN double ceil(double x) { return __builtin_ceil(x); }
// Nearest integer, ties to even.
TANDEM_FN float rint(float x) { return __builtin_rintf(x); }
TANDEM_FN double rint(double x) { return __builtin_rint(x); }
// The second where the first is a NaN.
template <class T>
TANDEM_FN T min(T a, T b) {
  return a < b ? a : b;
}
template <class T>
TANDEM_FN T max(T a, T b) {
  return a > b ? a : b;
}

TANDEM_FN float exp(float x) { return f32::Exp(x); }
TANDEM_FN double exp(double x) { return f64::Exp(x); }
TANDEM_FN float exp2(float x) { return f32::Exp2(x); }
TANDEM_FN double exp2(double x) { return f64::Exp2(x); }
TANDEM_FN float expm1(float x) { return static_cast<float>(f64::Expm1(static_cast<double>(x))); }
TANDEM_FN double expm1(double x) { return f64::Expm1(x); }
TANDEM_FN float log(float x) { return f32::Log(x); }
TANDEM_FN double log(double x) { return f64::Log(x); }
TANDEM_FN float log2(float x) { return static_cast<float>(f64::Log2(static_cast<double>(x))); }
TANDEM_FN double log2(double x) { return f64::Log2(x); }
TANDEM_FN float log10(float x) { return static_cast<float>(f64::Log10(static_cast<double>(x))); }
TANDEM_FN double log10(double x) { return f64::Log10(x); }
TANDEM_FN float log1p(float x) { return static_cast<float>(f64::Log1p(static_cast<double>(x))); }
TANDEM_FN double log1p(double x) { return f64::Log1p(x); }
TANDEM_FN float pow(float x, float y) { return f32::Pow(x, y); }
TANDEM_FN double pow(double x, double y) { return f64::Pow(x, y); }

TANDEM_FN float sin(float x) { return f32::SinCosOf(x).sin; }
TANDEM_FN double sin(double x) { return f64::SinCosOf(x).sin; }
TANDEM_FN float cos(float x) { return f32::SinCosOf(x).cos; }
TANDEM_FN double cos(double x) { return f64::SinCosOf(x).cos; }
// sin(pi x), cos(pi x)
TANDEM_FN float sinpi(float x) { return f32::SinCosPi(x).sin; }
TANDEM_FN double sinpi(double x) { return f64::SinCosPi(x).sin; }
TANDEM_FN float cospi(float x) { return f32::SinCosPi(x).cos; }
TANDEM_FN double cospi(double x) { return f64::SinCosPi(x).cos; }

TANDEM_FN float tanh(float x) { return static_cast<float>(f64::Tanh(static_cast<double>(x))); }
TANDEM_FN double tanh(double x) { return f64::Tanh(x); }
// 1 / (1 + e^-x)
TANDEM_FN float sigmoid(float x) { return f32::Sigmoid(x); }
TANDEM_FN double sigmoid(double x) { return f64::Sigmoid(x); }
TANDEM_FN float erf(float x) { return static_cast<float>(f64::Erf(static_cast<double>(x))); }
TANDEM_FN double erf(double x) { return f64::Erf(x); }
TANDEM_FN float erfc(float x) { return static_cast<float>(f64::Erfc(static_cast<double>(x))); }
TANDEM_FN double erfc(double x) { return f64::Erfc(x); }
// The normal distribution's function: (1 + erf(x / sqrt 2)) / 2.
TANDEM_FN float normal_cdf(float x) { return f32::NormalCdf(x); }
TANDEM_FN double normal_cdf(double x) { return f64::NormalCdf(x); }

}  // namespace TANDEM_ISA_NAMESPACE
}  // namespace tandem

#endif  // TANDEM_MATH_H_
