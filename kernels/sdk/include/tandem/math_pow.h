// pow in double precision: the logarithm to about 2^-65 as a sum of two doubles, times y, through
// the exponential.
//
// Thread-safety: pure functions.
#ifndef TANDEM_MATH_POW_H_
#define TANDEM_MATH_POW_H_

#include "tandem/config.h"
#include "tandem/math_f64.h"

namespace tandem {
inline namespace TANDEM_ISA_NAMESPACE {
namespace f64 {

// log(x) for positive finite x: 2 atanh(s), s = (m - 1) / (m + 1), and the exponent's share.
TANDEM_FN Double2 LogDouble2(double x) {
  const Parts p = Split(x);
  const double f = p.mantissa - 1.0;
  const Double2 d = FastTwoSum(2.0, f);
  const double s = f / d.hi;
  const Double2 sd = TwoProduct(s, d.hi);
  const double s_lo = (((f - sd.hi) - sd.lo) - s * d.lo) / d.hi;
  Double2 z = TwoProduct(s, s);
  z.lo += 2.0 * s * s_lo;
  const double tail = z.hi * z.hi *
                      Polynomial(z.hi, 0x1.999999999999ap-3, 0x1.2492492492523p-3,
                                 0x1.c71c71c6ea3bcp-4, 0x1.745d177ae69cep-4, 0x1.3b1395b390419p-4,
                                 0x1.1118cdd4bcb9fp-4, 0x1.df7ba3c9d4d1fp-5, 0x1.e03989e5e4f77p-5);
  // w = z / 3 + tail; log m = 2 (s + s w).
  const Double2 third = TwoProduct(z.hi, 0x1.5555555555555p-2);
  const Double2 w = FastTwoSum(
      third.hi, tail + (third.lo + (z.hi * 0x1.5555555555555p-56 + z.lo * 0x1.5555555555555p-2)));
  const Double2 sw = TwoProduct(s, w.hi);
  const Double2 m = FastTwoSum(s, sw.hi);
  const double m_lo = m.lo + (sw.lo + (s * w.lo + s_lo * (1.0 + w.hi)));
  const Double2 sum = TwoSum(p.exponent * kLn2Hi, 2.0 * m.hi);
  return FastTwoSum(sum.hi, sum.lo + (p.exponent * kLn2Lo + 2.0 * m_lo));
}

// |x|^y for finite x != 0.
TANDEM_FN double PowPositive(double x, double y) {
  // Beyond 2^66 the result has over- or underflowed already, and Dekker's products must not.
  double c = y > 0x1p66 ? 0x1p66 : y;
  c = c < -0x1p66 ? -0x1p66 : c;
  const Double2 l = LogDouble2(x);
  const Double2 p = TwoProduct(l.hi, c);
  double hi = p.hi, lo = p.lo + l.lo * c;
  lo = hi > 710.0 || hi < -746.0 ? 0.0 : lo;
  hi = hi > 710.0 ? 710.0 : hi;
  hi = hi < -746.0 ? -746.0 : hi;
  return ExpSum(hi, lo);
}

// What pow gives where the formula does not hold, else v = |x|^y.
TANDEM_FN double PowEnds(double x, double y, double v) {
  const double a = Abs(x);
  const bool integer = __builtin_floor(y) == y;
  const double half = 0.5 * y;
  const bool odd = integer && __builtin_floor(half) != half && Abs(y) < 0x1p53;
  v = a == 0.0 ? (y < 0.0 ? kInfinity : 0.0) : v;
  v = a == kInfinity ? (y < 0.0 ? 0.0 : kInfinity) : v;
  const bool negative = BitCast<uint64_t>(x) >> 63 != 0;
  v = negative && odd ? -v : v;
  v = x < 0.0 && a != kInfinity && !integer ? kNan : v;
  v = a == 1.0 && Abs(y) == kInfinity ? 1.0 : v;
  v = x != x || y != y ? kNan : v;
  return x == 1.0 || y == 0.0 ? 1.0 : v;
}

TANDEM_FN double Pow(double x, double y) { return PowEnds(x, y, PowPositive(Abs(x), y)); }

}  // namespace f64
}  // namespace TANDEM_ISA_NAMESPACE
}  // namespace tandem

#endif  // TANDEM_MATH_POW_H_
