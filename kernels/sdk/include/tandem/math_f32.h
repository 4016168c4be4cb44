// Single precision: the functions of math.h. What is hot (exp, log, normal_cdf, sin and cos of
// turns) stays in f32; the rest computes in f64 and rounds. Method and promises are those of
// math_f64.h.
//
// Thread-safety: pure functions.
#ifndef TANDEM_MATH_F32_H_
#define TANDEM_MATH_F32_H_

#include "tandem/config.h"
#include "tandem/math_f64.h"
#include "tandem/math_pow.h"
#include "tandem/traits.h"

namespace tandem {
inline namespace TANDEM_ISA_NAMESPACE {
namespace f32 {

inline constexpr float kInfinity = __builtin_inff();
inline constexpr float kNan = __builtin_nanf("");
inline constexpr float kLog2e = 0x1.715476p+0f;
inline constexpr float kLn2Hi = 0x1.62e4p-1f, kLn2Lo = 0x1.7f7d1cp-20f;

TANDEM_FN float Abs(float x) { return BitCast<float>(BitCast<uint32_t>(x) & 0x7fffffffu); }
TANDEM_FN float CopySign(float magnitude, float sign) {
  return BitCast<float>((BitCast<uint32_t>(magnitude) & 0x7fffffffu) |
                        (BitCast<uint32_t>(sign) & 0x80000000u));
}

// The nearest integer for |x| < 2^22, ties to even.
TANDEM_FN float Nearest(float x) {
  const float shift = 0x1.8p23f;
  return (x + shift) - shift;
}

// x * 2^n for an integer n of -252 … 254, rounded once.
TANDEM_FN float Scale(float x, float n) {
  const float half = Nearest(n * 0.5f);
  const float bias = 0x1.8p23f + 127;
  const float a = BitCast<float>(BitCast<uint32_t>(half + bias) << 23);
  const float b = BitCast<float>(BitCast<uint32_t>((n - half) + bias) << 23);
  return x * a * b;
}

// e^(s + d) as mantissa * 2^exponent, where |d| is small beside 1 or beside s.
struct ExpParts {
  float mantissa, exponent;
};
TANDEM_FN ExpParts ExpSum(float s, float d) {
  const float n = Nearest((s + d) * kLog2e);
  const float r = (s - n * kLn2Hi) + (d - n * kLn2Lo);
  const float q = Polynomial(r, 0x1.fffffcp-2f, 0x1.555492p-3f, 0x1.5558eap-5f, 0x1.12394cp-7f,
                             0x1.6a26aap-10f);
  return ExpParts{1.0f + (r + r * r * q), n};
}

TANDEM_FN float Exp(float x) {
  float y = x > 90.0f ? 90.0f : x;
  y = y < -105.0f ? -105.0f : y;
  const ExpParts e = ExpSum(y, 0.0f);
  return Scale(e.mantissa, e.exponent);
}

TANDEM_FN float Exp2(float x) {
  float y = x > 130.0f ? 130.0f : x;
  y = y < -152.0f ? -152.0f : y;
  const float n = Nearest(y), r = y - n;
  const float q = Polynomial(r, 0x1.62e430p-1f, 0x1.ebfbdcp-3f, 0x1.c6aee8p-5f, 0x1.3b2d4cp-7f,
                             0x1.5f3e58p-10f, 0x1.41fce6p-13f);
  return Scale(1.0f + r * q, n);
}

TANDEM_FN float Log(float x) {
  const bool tiny = x < 0x1p-126f;
  const float y = tiny ? x * 0x1p25f : x;
  const uint32_t bits = BitCast<uint32_t>(y);
  const int32_t t = static_cast<int32_t>(bits - 0x3f3504f3u);  // counted from sqrt(1/2)
  const int32_t e = t >> 23;
  const float f = BitCast<float>(bits - (static_cast<uint32_t>(e) << 23)) - 1.0f;
  const float k = static_cast<float>(e) - (tiny ? 25.0f : 0.0f);
  const float s = f / (2.0f + f), z = s * s;
  const float r =
      z * Polynomial(z, 0xaaaaaa.0p-24f, 0xccce13.0p-25f, 0x91e9ee.0p-25f, 0xf89e26.0p-26f);
  const float half = 0.5f * f * f;
  float v = k * kLn2Hi - ((half - (s * (half + r) + k * kLn2Lo)) - f);
  v = x == kInfinity ? x : v;
  v = x == 0.0f ? -kInfinity : v;
  return x >= 0.0f ? v : kNan;
}

TANDEM_FN float Sigmoid(float x) {
  const float e = Exp(-Abs(x));
  return (x >= 0.0f ? 1.0f : e) / (1.0f + e);
}

struct SinCos {
  float sin, cos;
};
TANDEM_FN SinCos SinCosPi(float x) {
  const float y = Abs(x) < 0x1p25f ? x : x - x;  // larger ones are even integers
  const float n = __builtin_rintf(y + y), r = y - 0.5f * n, z = r * r;
  const float s0 = r * Polynomial(z, 0x1.921fb6p+1f, -0x1.4abbcep+2f, 0x1.466bbap+1f,
                                  -0x1.32ca84p-1f, 0x1.4bc23cp-4f);
  const float c0 = 1.0f + z * Polynomial(z, -0x1.3bd3ccp+2f, 0x1.03c1f0p+2f, -0x1.55d3bcp+0f,
                                         0x1.e1e8b0p-3f, -0x1.a1189cp-6f);
  const float q = n - 4.0f * __builtin_floorf(n * 0.25f);
  const bool odd = q == 1.0f || q == 3.0f;
  float s = odd ? c0 : s0;
  const float c = odd ? s0 : c0;
  s = q >= 2.0f ? -s : s;
  return SinCos{s == 0.0f ? CopySign(0.0f, x) : s, q == 1.0f || q == 2.0f ? -c : c};
}

// sin and cos are reduced and evaluated in f64, with what f32 needs of both.
TANDEM_FN SinCos SinCosOf(float x) {
  const double d = static_cast<double>(x);
  const double n = f64::Nearest(d * 0x1.45f306dc9c883p-1);
  const double r = ((d - n * f64::kPi2A) - n * f64::kPi2B) - n * 0x1.8469898cc5170p-48;
  const double z = r * r;
  const double s = r + r * z *
                           Polynomial(z, -0x1.5555554ccd723p-3, 0x1.111108a059a45p-7,
                                      -0x1.a00fa3e5d1744p-13, 0x1.6cd98da33e660p-19);
  const double c =
      (1.0 - 0.5 * z) +
      z * z * Polynomial(z, 0x1.55554ab5d2796p-5, -0x1.6c0c8c7112ca5p-10, 0x1.9a027a0da7883p-16);
  const f64::SinCos v = f64::Quadrant(f64::SinCos{s, c}, n);
  const bool inside = Abs(x) <= static_cast<float>(f64::kTrigLimit);
  const float sine = x == 0.0f ? x : static_cast<float>(v.sin);
  return SinCos{inside ? sine : kNan, inside ? static_cast<float>(v.cos) : kNan};
}

// a with its low half of bits cleared: the product of two such is exact.
TANDEM_FN float HighHalf(float a) { return BitCast<float>(BitCast<uint32_t>(a) & 0xfffff000u); }

// e^(a^2 / 2) normal_cdf(-a) for a >= 0: u * polynomial in (a - 4) / (a + 4) = 1 - 8 u, u = 1 / (a
// + 4). What rounding u loses is put back through the derivative, a v - 1 / sqrt(2 pi).
TANDEM_FN float ScaledTail(float a) {
  const float d = a + 4.0f, u = 1.0f / d, t = 1.0f - 8.0f * u;
  const float uh = HighHalf(u), ul = u - uh, dh = HighHalf(d), dl = d - dh;
  const float lost = ((((1.0f - uh * dh) - uh * dl) - ul * dh) - ul * dl) - u * (a - (d - 4.0f));
  const float v =
      u * (0x1.82b4bcp-1f +
           (-0x1.cdac8cp-27f + t * Polynomial(t, -0x1.373e3ap-1f, 0x1.8c6db8p-2f, -0x1.7dff06p-3f,
                                              0x1.eec88ap-5f, -0x1.ee4ff2p-8f, -0x1.c9bc1p-9f,
                                              0x1.acb964p-10f, 0x1.68736ep-13f, -0x1.cbc1acp-13f,
                                              -0x1.79c97ap-15f)));
  return v - d * lost * (a * v - 0x1.988454p-2f);
}

TANDEM_FN float NormalCdf(float x) {
  const float far = Abs(x), a = far > 14.5f ? 14.5f : far;
  const float h = HighHalf(a);
  const ExpParts e = ExpSum(-0.5f * h * h, -0.5f * (a - h) * (a + h));
  // 2^(n + 64) 2^-64, since n >= -152: one rounding, also where the result is subnormal.
  // Beyond 14.3 it is 0, and said to be, for arithmetic that underflows is slow.
  const float bias = 0x1.8p23f + (127 + 64);
  const float power = BitCast<float>(BitCast<uint32_t>(e.exponent + bias) << 23);
  const float scale = far > 14.3f ? 0.0f : power;
  const float tail = (e.mantissa * scale) * (ScaledTail(a) * 0x1p-64f);
  return x > 0.0f ? 1.0f - tail : tail;
}

TANDEM_FN float Pow(float x, float y) {
  const double a = static_cast<double>(Abs(x));
  double p = f64::Log(a) * static_cast<double>(y);
  p = p > 200.0 ? 200.0 : p;
  p = p < -200.0 ? -200.0 : p;
  return static_cast<float>(
      f64::PowEnds(static_cast<double>(x), static_cast<double>(y), f64::ExpSum(p, 0.0)));
}

}  // namespace f32
}  // namespace TANDEM_ISA_NAMESPACE
}  // namespace tandem

#endif  // TANDEM_MATH_F32_H_
