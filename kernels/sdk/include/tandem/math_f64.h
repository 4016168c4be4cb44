// Double precision: the functions of math.h, and the pieces that single precision borrows.
//
// Method: argument reduction with split constants (Cody, Waite: Software manual for the elementary
// functions, 1980), and minimax polynomials found with Remez' algorithm. Branch-free, so that loops
// vectorise; IEEE + - * / sqrt and bit patterns only, so that every instruction set gives the same
// bits.
//
// Thread-safety: pure functions.
#ifndef TANDEM_MATH_F64_H_
#define TANDEM_MATH_F64_H_

#include "tandem/config.h"
#include "tandem/traits.h"

namespace tandem {
inline namespace TANDEM_ISA_NAMESPACE {

// Horner's scheme, coefficients from the lowest.
template <class T>
TANDEM_FN T Polynomial(T, T c) {
  return c;
}
template <class T, class... C>
TANDEM_FN T Polynomial(T x, T c, C... rest) {
  return c + x * Polynomial(x, static_cast<T>(rest)...);
}

namespace f64 {

inline constexpr double kInfinity = __builtin_inf();
inline constexpr double kNan = __builtin_nan("");
inline constexpr double kLog2e = 0x1.71547652b82fep+0;
inline constexpr double kLn2Hi = 0x1.62e42fee00000p-1, kLn2Lo = 0x1.a39ef35793c76p-33;

TANDEM_FN double Abs(double x) {
  return BitCast<double>(BitCast<uint64_t>(x) & 0x7fffffffffffffffu);
}
TANDEM_FN double CopySign(double magnitude, double sign) {
  return BitCast<double>((BitCast<uint64_t>(magnitude) & 0x7fffffffffffffffu) |
                         (BitCast<uint64_t>(sign) & 0x8000000000000000u));
}

// The nearest integer for |x| < 2^51, ties to even.
TANDEM_FN double Nearest(double x) {
  const double shift = 0x1.8p52;
  return (x + shift) - shift;
}

// x * 2^n for an integer n of -2046 … 2046, rounded once: two factors keep the way there inside the
// range.
TANDEM_FN double Scale(double x, double n) {
  const double half = Nearest(n * 0.5);
  const double bias = 0x1.8p52 + 1023;  // the integer comes to stand in the low bits
  const double a = BitCast<double>(BitCast<uint64_t>(half + bias) << 52);
  const double b = BitCast<double>(BitCast<uint64_t>((n - half) + bias) << 52);
  return x * a * b;
}

// e^(s + d), where |d| is small beside 1 or beside s.
TANDEM_FN double ExpSum(double s, double d) {
  const double n = Nearest((s + d) * kLog2e);
  const double r = (s - n * kLn2Hi) + (d - n * kLn2Lo);
  const double q = Polynomial(r, 0x1.0000000000009p-1, 0x1.55555555554fcp-3, 0x1.5555555550b7ep-5,
                              0x1.11111111278d5p-7, 0x1.6c16c1839fb05p-10, 0x1.a01a012a608dbp-13,
                              0x1.a0199b4e708cap-16, 0x1.71df26da4370fp-19, 0x1.28ac6c4a1ada8p-22,
                              0x1.ad7b18b486423p-26);
  return Scale(1.0 + (r + r * r * q), n);
}

TANDEM_FN double Exp(double x) {
  double y = x > 710.0 ? 710.0 : x;
  y = y < -746.0 ? -746.0 : y;
  return ExpSum(y, 0.0);
}

TANDEM_FN double Exp2(double x) {
  double y = x > 1025.0 ? 1025.0 : x;
  y = y < -1076.0 ? -1076.0 : y;
  const double n = Nearest(y), r = y - n;
  const double q = Polynomial(r, 0x1.62e42fefa39efp-1, 0x1.ebfbdff82c5a4p-3, 0x1.c6b08d7049fe9p-5,
                              0x1.3b2ab6fba011ep-7, 0x1.5d87fe78cd496p-10, 0x1.4309130ed974cp-13,
                              0x1.ffcbfbaa0e6ccp-17, 0x1.62bfc7989eddap-20, 0x1.b5267bd237643p-24,
                              0x1.e61b5bea6ce61p-28, 0x1.e79d4472e56adp-32);
  return Scale(1.0 + r * q, n);
}

TANDEM_FN double Expm1(double x) {
  double y = x > 710.0 ? 710.0 : x;
  y = y < -40.0 ? -40.0 : y;
  const double n = Nearest(y * kLog2e);
  const double r = (y - n * kLn2Hi) - n * kLn2Lo;
  const double q = Polynomial(r, 0x1.0000000000000p-1, 0x1.5555555555559p-3, 0x1.555555555555ap-5,
                              0x1.111111110f6c1p-7, 0x1.6c16c16c14478p-10, 0x1.a01a01afdeac1p-13,
                              0x1.a01a01b0ac93cp-16, 0x1.71ddf86298c2ep-19, 0x1.27e4c5b4dc938p-22,
                              0x1.af5ea6b9c02a0p-26, 0x1.1f9546fc31cbep-29);
  const double p = r + r * r * q;  // e^r - 1
  const double v = Scale(p + (1.0 - Scale(1.0, -n)), n);
  return x == 0.0 ? x : v;
}

// x = 2^exponent * mantissa, sqrt(1/2) <= mantissa < sqrt(2), for positive finite x.
struct Parts {
  double exponent, mantissa;
};
TANDEM_FN Parts Split(double x) {
  const bool tiny = x < 0x1p-1022;
  const double y = tiny ? x * 0x1p54 : x;
  const uint64_t bits = BitCast<uint64_t>(y);
  // Counted from sqrt(1/2), with 1024 added so that it stays positive.
  const uint64_t t = bits - 0x3fe6a09e667f3bcdu + (uint64_t{1024} << 52);
  const uint64_t biased = t >> 52;
  const double k = BitCast<double>(biased | 0x4330000000000000u) - (0x1p52 + 1024);
  const double m = BitCast<double>(bits - (biased << 52) + (uint64_t{1024} << 52));
  return Parts{tiny ? k - 54.0 : k, m};
}

// What log and its kin give outside (0, inf), else v.
TANDEM_FN double LogEnds(double x, double v) {
  v = x == kInfinity ? x : v;
  v = x == 0.0 ? -kInfinity : v;
  return x >= 0.0 ? v : kNan;
}

// log(1 + f) + k log 2, as in FreeBSD's e_log.c, for sqrt(1/2) <= 1 + f < sqrt(2).
TANDEM_FN double LogParts(double k, double f) {
  const double s = f / (2.0 + f), z = s * s;
  const double r =
      z * Polynomial(z, 6.666666666666735130e-01, 3.999999999940941908e-01,
                     2.857142874366239149e-01, 2.222219843214978396e-01, 1.818357216161805012e-01,
                     1.531383769920937332e-01, 1.479819860511658591e-01);
  const double half = 0.5 * f * f;
  return k * kLn2Hi - ((half - (s * (half + r) + k * kLn2Lo)) - f);
}

TANDEM_FN double Log(double x) {
  const Parts p = Split(x);
  return LogEnds(x, LogParts(p.exponent, p.mantissa - 1.0));
}

TANDEM_FN double Log2(double x) {
  const Parts p = Split(x);
  return LogEnds(x, p.exponent + LogParts(0.0, p.mantissa - 1.0) * kLog2e);
}

TANDEM_FN double Log10(double x) {
  const Parts p = Split(x);
  const double hi = 0x1.3441350900000p-2, lo = 0x1.ef3fde623e256p-35;  // log10(2)
  const double m = LogParts(0.0, p.mantissa - 1.0) * 0x1.bcb7b1526e50ep-2;
  return LogEnds(x, p.exponent * hi + (p.exponent * lo + m));
}

// The digits that 1 + x loses come back as a correction.
TANDEM_FN double Log1p(double x) {
  const double u = 1.0 + x;
  const double lost = Abs(x) < 1.0 ? x - (u - 1.0) : 1.0 - (u - x);
  double v = Log(u) + lost / u;
  v = x == kInfinity || x == 0.0 ? x : v;
  return x == -1.0 ? -kInfinity : v;
}

TANDEM_FN double Tanh(double x) {
  double a = Abs(x);
  a = a > 22.0 ? 22.0 : a;
  const double t = Expm1(a + a);
  return CopySign(t / (t + 2.0), x);
}

TANDEM_FN double Sigmoid(double x) {
  const double e = Exp(-Abs(x));
  return (x >= 0.0 ? 1.0 : e) / (1.0 + e);
}

// sin(r + tail) and cos(r + tail) for |r| <= pi/4.
struct SinCos {
  double sin, cos;
};
TANDEM_FN SinCos SinCosQuarter(double r, double tail) {
  const double z = r * r;
  const double s =
      Polynomial(z, -0x1.5555555555549p-3, 0x1.111111110f8cbp-7, -0x1.a01a019c19d2dp-13,
                 0x1.71de357dcb1c3p-19, -0x1.ae5e6a6899867p-26, 0x1.5d9417039bbdap-33);
  const double c =
      Polynomial(z, 0x1.555555555554cp-5, -0x1.6c16c16c151b4p-10, 0x1.a01a019cb65e8p-16,
                 -0x1.27e4f80ce956cp-22, 0x1.1ee9edbcf4043p-29, -0x1.8faf7a814cbbcp-37);
  const double half = 0.5 * z, w = 1.0 - half;
  return SinCos{r + (r * z * s + tail * w), w + (((1.0 - w) - half) + (z * z * c - r * tail))};
}

// Turns the sine and cosine of the rest into those of quadrant n (an integer as a double).
TANDEM_FN SinCos Quadrant(SinCos v, double n) {
  const double q = n - 4.0 * __builtin_floor(n * 0.25);
  const bool odd = q == 1.0 || q == 3.0;
  const double s = odd ? v.cos : v.sin, c = odd ? v.sin : v.cos;
  return SinCos{q >= 2.0 ? -s : s, q == 1.0 || q == 2.0 ? -c : c};
}

inline constexpr double kPi2A = 0x1.921fb40000000p+0, kPi2B = 0x1.4442d00000000p-24;
inline constexpr double kTrigLimit = 0x1p30;  // n * kPi2A is exact up to here

TANDEM_FN SinCos SinCosOf(double x) {
  const double n = Nearest(x * 0x1.45f306dc9c883p-1);
  const double a = (x - n * kPi2A) - n * kPi2B;
  const double b = n * 0x1.8469880000000p-48, c = n * 0x1.8cc51701b839ap-72;
  const double d = a - b, e = ((a - d) - b) - c;
  const double r = d + e;
  SinCos v = Quadrant(SinCosQuarter(r, (d - r) + e), n);
  const bool inside = Abs(x) <= kTrigLimit;
  v.sin = x == 0.0 ? x : v.sin;
  return SinCos{inside ? v.sin : kNan, inside ? v.cos : kNan};
}

TANDEM_FN SinCos SinCosPi(double x) {
  const double y = Abs(x) < 0x1p54 ? x : x - x;  // larger ones are even integers
  const double n = __builtin_rint(y + y), r = y - 0.5 * n;
  const double hi = r * 0x1.921fb54442d18p+1;
  SinCos v = Quadrant(SinCosQuarter(hi, r * 0x1.1a62633145c07p-53), n);
  v.sin = v.sin == 0.0 ? CopySign(0.0, x) : v.sin;  // sin(pi n) has the sign of n
  return v;
}

// hi + lo, |lo| at most half a unit in the last place of hi.
struct Double2 {
  double hi, lo;
};

TANDEM_FN Double2 FastTwoSum(double a, double b) {  // |a| >= |b|
  const double s = a + b;
  return Double2{s, b - (s - a)};
}
TANDEM_FN Double2 TwoSum(double a, double b) {
  const double s = a + b, t = s - a;
  return Double2{s, (a - (s - t)) + (b - t)};
}
TANDEM_FN Double2 TwoProduct(double a, double b) {
  const double ca = a * 0x1.0000002p27, cb = b * 0x1.0000002p27;  // 2^27 + 1
  const double ah = ca - (ca - a), bh = cb - (cb - b);
  const double al = a - ah, bl = b - bh, p = a * b;
  return Double2{p, ((ah * bh - p) + ah * bl + al * bh) + al * bl};
}

// y >= 0 as a high part, whose square is exact, and the rest.
TANDEM_FN double HighHalf(double y) {
  return BitCast<double>(BitCast<uint64_t>(y) & 0xfffffffff8000000u);
}

// e^(y^2) erfc(y) for y >= 0: u * polynomial in (y - 4) / (y + 4) = 1 - 8 u, u = 1 / (y + 4). What
// rounding u loses is put back through the derivative, 2 y v - 2 / sqrt(pi).
TANDEM_FN double ScaledErfc(double y) {
  const Double2 d = TwoSum(y, 4.0);
  const double u = 1.0 / d.hi, t = 1.0 - 8.0 * u;
  const Double2 one = TwoProduct(u, d.hi);
  const double lost = ((1.0 - one.hi) - one.lo) - u * d.lo;
  const double v =
      u * Polynomial(t, 0x1.18932bf08e154p+0, -0x1.f3fe31ecb49c0p-1, 0x1.8be202d26c702p-1,
                     -0x1.14eacb1ad02e0p-1, 0x1.52cac237102f8p-2, -0x1.645fd8a4bf3ccp-3,
                     0x1.38dbd2c8d9b75p-4, -0x1.b00c052a9bc98p-6, 0x1.908f4729ece8dp-8,
                     -0x1.269b55adb5c30p-12, -0x1.dd28475b6effep-12, 0x1.72cdcd1917162p-13,
                     -0x1.e7e56b494125fp-19, -0x1.3c72a3ba5691ep-16, 0x1.3b065a31c06dep-18,
                     0x1.7eca678672e95p-20, -0x1.c6206e8b5b03ap-21, -0x1.4e382c151e245p-24,
                     0x1.09fb15c9f0b5bp-23, 0x1.5104c47ef3d5cp-29, -0x1.08811e92d2c21p-26,
                     -0x1.5f47ae818922ap-32, 0x1.1db92465de88cp-30);
  return v - d.hi * lost * (2.0 * y * v - 0x1.20dd750429b6dp+0);
}

// erfc(|x|).
TANDEM_FN double ErfcTail(double x) {
  double y = Abs(x);
  y = y > 28.0 ? 28.0 : y;
  const double h = HighHalf(y);
  return ExpSum(-h * h, -(y - h) * (y + h)) * ScaledErfc(y);
}

TANDEM_FN double Erfc(double x) {
  const double tail = ErfcTail(x);
  return x < 0.0 ? 2.0 - tail : tail;
}

TANDEM_FN double Erf(double x) {
  const double z = x * x;
  const double near =
      x * Polynomial(z, 0x1.20dd750429b6dp+0, -0x1.812746b0379e7p-2, 0x1.ce2f21a042bddp-4,
                     -0x1.b82ce3128899bp-6, 0x1.565bcd0e64ab7p-8, -0x1.c02db3fed8f63p-11,
                     0x1.f9a326bfb70fbp-14, -0x1.f4d255e1460a0p-17, 0x1.b9e64d07be61ep-20,
                     -0x1.5f6d6b5127e0ep-23, 0x1.fc411710a1d8cp-27, -0x1.4e55cc7bfec83p-30,
                     0x1.7ecbf6911b6c8p-34, -0x1.2928f0403bf47p-38);
  const double far = CopySign(1.0 - ErfcTail(x), x);
  return Abs(x) < 1.0 ? near : far;
}

// e^(a^2 / 2) normal_cdf(-a) for a >= 0, as ScaledErfc; its derivative is a v - 1 / sqrt(2
// pi).
TANDEM_FN double ScaledTail(double a) {
  const Double2 d = TwoSum(a, 4.0);
  const double u = 1.0 / d.hi, t = 1.0 - 8.0 * u;
  const Double2 one = TwoProduct(u, d.hi);
  const double lost = ((1.0 - one.hi) - one.lo) - u * d.lo;
  const double v =
      u * Polynomial(t, 0x1.82b4bb8c94dcep-1, -0x1.373e3a893c28ap-1, 0x1.8c6dbf2cfc2b5p-2,
                     -0x1.7dff2bff68399p-3, 0x1.eec4cc3e4d1fcp-5, -0x1.ee2761047f2ebp-8,
                     -0x1.c81719d53e1dfp-9, 0x1.ab825fc0f9394p-10, 0x1.17a4ae29b0d7fp-13,
                     -0x1.e4a4256dc286bp-13, -0x1.001e47dfe6deap-19, 0x1.26d0996cd1d7cp-15,
                     0x1.80b15dc9f93c2p-21, -0x1.8d4b1e923e2d1p-18, -0x1.51e3f97c745f5p-21,
                     0x1.1236b9e896f2ep-20, 0x1.233b66c54b6c4p-22, -0x1.4cec74f29ac92p-23,
                     -0x1.6c1fa2f2acb69p-24, 0x1.ce4caed446229p-27, 0x1.4a53b072a5547p-26,
                     0x1.e2f3fd9f31c7bp-30, -0x1.4c144f194dc58p-29, -0x1.70c612b072eb6p-31);
  return v - d.hi * lost * (a * v - 0x1.9884533d43651p-2);
}

TANDEM_FN double NormalCdf(double x) {
  double a = Abs(x);
  a = a > 39.0 ? 39.0 : a;
  const double h = HighHalf(a);
  const double tail = ExpSum(-0.5 * h * h, -0.5 * (a - h) * (a + h)) * ScaledTail(a);
  return x > 0.0 ? 1.0 - tail : tail;
}

}  // namespace f64
}  // namespace TANDEM_ISA_NAMESPACE
}  // namespace tandem

#endif  // TANDEM_MATH_F64_H_
