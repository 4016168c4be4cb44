// tandem/math.h against the C library in extended precision (64 bits of mantissa), on every
// instruction set.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tests/kernels/isa_test.h"
#include "tests/kernels/library.h"

namespace tandem {
namespace {

using Real = long double;
constexpr Real kPi = 3.141592653589793238462643383279502884L;
constexpr int kRandomInputs = 300'000;
constexpr double kUlpMax = 4.0;

// erfc(-x / sqrt 2) / 2; what rounding x / sqrt 2 loses comes back through the derivative.
Real NormalCdf(Real x, Real) {
  const Real root = 1.41421356237309504880168872420969808L;
  Real y = -x / root;
  if (!std::isfinite(y)) return std::erfc(y) / 2;
  const Real lost = std::fma(y, root, x) / -root - y * -2.4e-20L / root;  // root itself is rounded
  return (std::erfc(y) - 2 / std::sqrt(kPi) * std::exp(-y * y) * lost) / 2;
}

Real SinPi(Real x, Real) {
  const Real r = std::remainder(x, 2.0L);
  if (r == 0 || std::fabs(r) == 1) return std::copysign(0.0L, x);
  const Real a = std::fabs(r), s = std::sin(kPi * std::min(a, 1 - a));
  return r < 0 ? -s : s;
}

Real CosPi(Real x, Real) {
  const Real a = std::fabs(std::remainder(x, 2.0L));
  return a == 0.5L ? 0 : std::sin(kPi * (0.5L - a));
}

struct Function {
  std::string name;
  Real (*reference)(Real, Real);
  double low, high;                                        // where most random inputs lie
  double limit = std::numeric_limits<double>::infinity();  // the documented domain of |x|
};

const std::vector<Function>& Functions() {
  static const auto* const functions = new std::vector<Function>{
      {"sqrt", [](Real x, Real) { return std::sqrt(x); }, 0, 100},
      {"exp", [](Real x, Real) { return std::exp(x); }, -110, 95},
      {"exp2", [](Real x, Real) { return std::exp2(x); }, -155, 130},
      {"expm1", [](Real x, Real) { return std::expm1(x); }, -5, 5},
      {"log", [](Real x, Real) { return std::log(x); }, 0, 3},
      {"log2", [](Real x, Real) { return std::log2(x); }, 0, 3},
      {"log10", [](Real x, Real) { return std::log10(x); }, 0, 3},
      {"log1p", [](Real x, Real) { return std::log1p(x); }, -1, 1},
      {"pow", [](Real x, Real y) { return std::pow(x, y); }, 0, 4},
      {"sin", [](Real x, Real) { return std::sin(x); }, -20, 20, 0x1p30},
      {"cos", [](Real x, Real) { return std::cos(x); }, -20, 20, 0x1p30},
      {"sinpi", SinPi, -5, 5},
      {"cospi", CosPi, -5, 5},
      {"tanh", [](Real x, Real) { return std::tanh(x); }, -10, 10},
      {"sigmoid", [](Real x, Real) { return 1 / (1 + std::exp(-x)); }, -100, 20},
      {"erf", [](Real x, Real) { return std::erf(x); }, -4, 4},
      {"erfc", [](Real x, Real) { return std::erfc(x); }, -4, 12},
      {"normal_cdf", NormalCdf, -15, 8},
  };
  return *functions;
}

template <class T>
struct Bits;
template <>
struct Bits<float> {
  using type = uint32_t;
};
template <>
struct Bits<double> {
  using type = uint64_t;
};

// Ends and awkward values, each with its negative; then values of the function's own range; then
// any bit pattern.
template <class T>
std::vector<T> Inputs(const Function& f, uint32_t seed) {
  using Limits = std::numeric_limits<T>;
  std::vector<T> x;
  for (T v : {T(0),
              Limits::denorm_min(),
              Limits::min() / 2,
              Limits::min(),
              T(1e-20),
              T(1e-5),
              T(0.25),
              T(0.5),
              T(0.70710678),
              T(1),
              T(1.0000001),
              T(1.4142135),
              T(1.5),
              T(2),
              T(2.5),
              T(3),
              T(88.7),
              T(89),
              T(103.9),
              T(709.7),
              T(745.1),
              T(1e10),
              T(0x1p30),
              T(0x1p31),
              Limits::max(),
              Limits::infinity(),
              Limits::quiet_NaN()}) {
    x.push_back(v);
    x.push_back(-v);
  }
  std::mt19937_64 random(seed);
  const double scale =
      sizeof(T) == 8 && f.high > 50 ? 8 : 1;  // doubles overflow and underflow later
  std::uniform_real_distribution<double> inside(f.low * scale, f.high * scale);
  for (int i = 0; i < kRandomInputs; ++i) {
    if (i % 4 != 0) {
      x.push_back(static_cast<T>(inside(random)));
    } else {
      auto bits = static_cast<typename Bits<T>::type>(random());
      T v;
      std::memcpy(&v, &bits, sizeof(v));
      x.push_back(v);
    }
  }
  return x;
}

// Units in the last place of the result between `got` and the true value.
template <class T>
double UlpsBetween(T got, Real truth) {
  const T rounded = static_cast<T>(truth);
  if (std::isnan(truth) || std::isnan(got)) {
    return std::isnan(truth) && std::isnan(got) ? 0 : std::numeric_limits<double>::infinity();
  }
  if (got == rounded) return 0;
  if (std::isinf(got) || std::isinf(rounded)) return std::numeric_limits<double>::infinity();
  int exponent = std::max(std::ilogb(truth), std::numeric_limits<T>::min_exponent - 1);
  const Real ulp = std::ldexp(Real(1), exponent - (std::numeric_limits<T>::digits - 1));
  return static_cast<double>(std::fabs(static_cast<Real>(got) - truth) / ulp);
}

template <class T>
std::vector<T> RunOn(const TandemKernelV1& kernel, const std::vector<T>& x,
                     const std::vector<T>& y) {
  std::vector<T> z(x.size());
  struct {
    const T *x, *y;
    T* z;
    int64_t n, split;
  } args{x.data(), y.data(), z.data(), static_cast<int64_t>(x.size()), 0};
  TandemPart part{&args, {0, 0}, args.n, nullptr, nullptr};
  EXPECT_EQ(kernel.range(&part, 1, nullptr), 0);
  return z;
}

const TandemKernelV1& Probe(const Function& f, const std::string& dtype, const std::string& isa) {
  return FindKernel(LoadFor(TANDEM_PROBES, isa), "math_" + f.name + "_" + dtype);
}

template <class T>
void CheckFunction(const Function& f, const std::string& dtype) {
  const std::vector<T> x = Inputs<T>(f, 1), y = Inputs<T>(f, 2);
  const std::vector<T> z = RunOn(Probe(f, dtype, kBaselineIsa), x, y);
  double worst = 0;
  size_t at = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const bool outside =
        !(std::fabs(static_cast<double>(x[i])) <= f.limit) && std::isfinite(f.limit);
    const Real truth = outside ? std::numeric_limits<Real>::quiet_NaN() : f.reference(x[i], y[i]);
    const double ulps = UlpsBetween(z[i], truth);
    if (ulps > worst) {
      worst = ulps;
      at = i;
    }
  }
  std::printf("%-10s %s: %.2f ulp at %a\n", f.name.c_str(), dtype.c_str(), worst,
              static_cast<double>(x[at]));
  EXPECT_LE(worst, kUlpMax) << f.name << " " << dtype << "(" << x[at] << ", " << y[at]
                            << ") = " << z[at] << ", should be " << f.reference(x[at], y[at]);
}

template <class T>
void CheckSameAsBaseline(const Function& f, const std::string& dtype, const std::string& isa) {
  const std::vector<T> x = Inputs<T>(f, 1), y = Inputs<T>(f, 2);
  const std::vector<T> z = RunOn(Probe(f, dtype, isa), x, y),
                       first = RunOn(Probe(f, dtype, kBaselineIsa), x, y);
  EXPECT_EQ(std::memcmp(z.data(), first.data(), z.size() * sizeof(T)), 0)
      << f.name << " " << dtype << " differs from " << kBaselineIsa;
}

class MathTest : public testing::TestWithParam<Function> {};

TEST_P(MathTest, FloatIsWithinFourUlps) { CheckFunction<float>(GetParam(), "f32"); }
TEST_P(MathTest, DoubleIsWithinFourUlps) { CheckFunction<double>(GetParam(), "f64"); }

INSTANTIATE_TEST_SUITE_P(Functions, MathTest, testing::ValuesIn(Functions()),
                         [](const auto& param) { return param.param.name; });

class MathOfIsaTest : public IsaTest {};
TANDEM_FOR_EACH_ISA(MathOfIsaTest);

TEST_P(MathOfIsaTest, EveryFunctionHasTheBytesOfTheBaseline) {
  for (const Function& f : Functions()) {
    CheckSameAsBaseline<float>(f, "f32", isa());
    CheckSameAsBaseline<double>(f, "f64", isa());
  }
}

// Every pair of awkward values, by the rules of C's pow.
TEST_P(MathOfIsaTest, PowKeepsItsSpecialCases) {
  const double inf = std::numeric_limits<double>::infinity(),
               nan = std::numeric_limits<double>::quiet_NaN();
  const double values[] = {0.0,
                           -0.0,
                           1,
                           -1,
                           2,
                           -2,
                           3,
                           -3,
                           0.5,
                           -0.5,
                           1.5,
                           -1.5,
                           1e300,
                           -1e300,
                           1e-300,
                           9007199254740991.0,
                           9007199254740992.0,
                           5e-324,
                           inf,
                           -inf,
                           nan};
  std::vector<double> x, y;
  for (const double a : values) {
    for (const double b : values) {
      x.push_back(a);
      y.push_back(b);
    }
  }
  const std::vector<double> z =
      RunOn(FindKernel(LoadFor(TANDEM_PROBES, isa()), "math_pow_f64"), x, y);
  for (size_t i = 0; i < x.size(); ++i) {
    const double truth = std::pow(x[i], y[i]);
    EXPECT_LE(UlpsBetween<double>(z[i], truth), kUlpMax) << x[i] << " ^ " << y[i] << " = " << z[i];
    EXPECT_TRUE(std::isnan(truth) || std::signbit(z[i]) == std::signbit(truth))
        << x[i] << " ^ " << y[i];
  }
}

TEST_P(MathOfIsaTest, SignedZerosComeBackAsTheyWent) {
  for (const char* name : {"sin", "sinpi", "tanh", "expm1", "log1p", "erf", "sqrt"}) {
    const TandemKernelV1& kernel =
        FindKernel(LoadFor(TANDEM_PROBES, isa()), std::string("math_") + name + "_f64");
    const std::vector<double> z = RunOn<double>(kernel, {0.0, -0.0}, {1, 1});
    EXPECT_FALSE(std::signbit(z[0])) << name;
    EXPECT_TRUE(std::signbit(z[1])) << name;
  }
}

}  // namespace
}  // namespace tandem
