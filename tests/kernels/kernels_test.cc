// Each kernel against its reference, on every instruction set: sizes 0, 1, odd, large strides; NaN
// and infinities.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <limits>
#include <map>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "kernels/asian_option/asian_option_ref.h"
#include "kernels/bilateral_filter/bilateral_filter_ref.h"
#include "kernels/black_scholes/black_scholes_ref.h"
#include "kernels/gemm/gemm_ref.h"
#include "kernels/gradient/gradient_ref.h"
#include "kernels/histogram/histogram_ref.h"
#include "kernels/kmer_count/kmer_count_ref.h"
#include "kernels/linear/linear_ref.h"
#include "kernels/mandelbrot/mandelbrot_ref.h"
#include "kernels/monte_carlo_pi/monte_carlo_pi_ref.h"
#include "kernels/noop/noop_ref.h"
#include "kernels/saxpy/saxpy_ref.h"
#include "kernels/sort/sort_ref.h"
#include "kernels/spin/spin_ref.h"
#include "tests/kernels/harness.h"
#include "tests/kernels/isa_test.h"
#include "tests/kernels/library.h"

namespace tandem {
namespace {

using testing::ElementsAreArray;

const float kInf = std::numeric_limits<float>::infinity(),
            kNan = std::numeric_limits<float>::quiet_NaN();

// What a tolerance of sums of products is relative to is the same sum of magnitudes.
std::vector<float> Magnitudes(std::vector<float> x) {
  for (float& v : x) v = std::abs(v);
  return x;
}

class KernelsTest : public IsaTest {
 protected:
  const TandemKernelV1& Kernel(const char* name) { return FindKernel(Builtin(), name); }
  std::vector<float> Floats(int64_t n, float low, float high) {
    std::uniform_real_distribution<float> value(low, high);
    std::vector<float> x(n);
    for (float& v : x) v = value(random_);
    return x;
  }
  std::mt19937_64 random_{20240229};
};

const int64_t kSizes[] = {0, 1, 2, 7, 31, 32, 33, 255, 1000, 4095, 4096, 4097, 10007};

TEST_P(KernelsTest, NoopMixesSeedAndTask) {
  for (int64_t n : kSizes) {
    std::vector<uint64_t> value(n + 1, 77);
    PackedArgs args;
    args.Add(uint64_t{42});
    args.Add(value.data());
    args.Axes({n}, 0);
    RunPart(Kernel("noop"), args, {13, 0}, n);
    EXPECT_EQ(value.back(), 77u) << "wrote beyond its rows";
    value.pop_back();
    EXPECT_EQ(value, kernels::NoopReference(42, 13, n));
  }
}

TEST_P(KernelsTest, SpinStepsOrJumps) {
  for (int64_t n : {0, 1, 7, 100}) {
    std::vector<uint32_t> work(n);
    for (auto& w : work) w = static_cast<uint32_t>(random_() % 1000);
    if (n > 1) work[1] = 0;
    if (n > 3) work[2] = 131'075, work[3] = 16'777'221;
    std::vector<uint64_t> value(n), cheap(n);
    for (auto* out : {&value, &cheap}) {
      PackedArgs args;
      args.Add(work.data());
      args.Add(uint64_t{3});
      args.Add(out->data());
      args.Axes({n}, 0);
      const TandemPart part{args.data(), {50, 0}, n, nullptr, nullptr};
      const TandemKernelV1& kernel = Kernel("spin");
      (out == &value ? kernel.range : kernel.range_cheap)(&part, 1, nullptr);
    }
    EXPECT_EQ(value, kernels::SpinReference(3, 50, work));
    EXPECT_EQ(cheap, value);
  }
}

TEST_P(KernelsTest, SaxpyRoundsTwice) {
  for (int64_t n : kSizes) {
    auto x = Floats(n, -1e4f, 1e4f), y = Floats(n, -1e4f, 1e4f);
    for (float v : {kInf, -kInf, kNan, 0.0f, 1e-44f, 3e38f}) {
      if (n > 32) x[random_() % n] = v;
    }
    std::vector<float> z(n);
    PackedArgs args;
    args.Add(-2.7182817f);
    args.Add(x.data());
    args.Add(y.data());
    args.Add(z.data());
    args.Axes({n}, 0);
    RunPart(Kernel("saxpy"), args, {0, 0}, n);
    const auto expected = kernels::SaxpyReference(-2.7182817f, x, y);
    for (int64_t i = 0; i < n; ++i) {
      if (std::isnan(expected[i])) {
        EXPECT_EQ(std::bit_cast<uint32_t>(z[i]), 0x7fc00000u) << "the canonical NaN";
      } else {
        EXPECT_EQ(std::bit_cast<uint32_t>(z[i]), std::bit_cast<uint32_t>(expected[i]))
            << x[i] << " " << y[i];
      }
    }
  }
}

TEST_P(KernelsTest, BlackScholesPricesAgreeAndNegativeYearsFailAlone) {
  for (int64_t n : kSizes) {
    const auto s = Floats(n, 5, 300), x = Floats(n, 5, 300);
    auto y = Floats(n, 0.02f, 10);
    std::vector<bool> bad(n);
    for (int64_t i = 0; i < n; i += 97) {
      y[i] = -y[i];
      bad[i] = true;
    }
    std::vector<float> call(n), put(n);
    std::vector<uint8_t> fault(n, 9);
    PackedArgs args;
    args.Add(s.data());
    args.Add(x.data());
    args.Add(y.data());
    args.Add(0.04f);
    args.Add(0.3f);
    args.Add(call.data());
    args.Add(put.data());
    args.Axes({n}, 0);
    const int64_t failed = RunPart(Kernel("black_scholes"), args, {0, 0}, n, fault.data());
    EXPECT_EQ(failed, std::count(bad.begin(), bad.end(), true));
    for (int64_t i = 0; i < n; ++i) {
      ASSERT_EQ(fault[i], bad[i] ? 1 : 0);
      if (bad[i]) continue;
      const auto price = kernels::BlackScholesReference(s[i], x[i], y[i], 0.04f, 0.3f);
      ASSERT_NEAR(call[i], price.call, 2e-6 * (s[i] + x[i])) << i;
      ASSERT_NEAR(put[i], price.put, 2e-6 * (s[i] + x[i])) << i;
    }
  }
}

TEST_P(KernelsTest, BlackScholesCarriesNanAsTheCanonicalOne) {
  const float s[] = {kNan, 100, kInf}, x[] = {100, kNan, 100}, y[] = {1, 1, 1};
  float call[3], put[3];
  uint8_t fault[3];
  PackedArgs args;
  args.Add(+s);
  args.Add(+x);
  args.Add(+y);
  args.Add(0.0f);
  args.Add(0.2f);
  args.Add(+call);
  args.Add(+put);
  args.Axes({3}, 0);
  EXPECT_EQ(RunPart(Kernel("black_scholes"), args, {0, 0}, 3, fault), 0);
  EXPECT_EQ(std::bit_cast<uint32_t>(call[0]), 0x7fc00000u);
  EXPECT_EQ(std::bit_cast<uint32_t>(put[1]), 0x7fc00000u);
  EXPECT_EQ(call[2], kInf);
}

TEST_P(KernelsTest, MonteCarloPiCountsTheSameHits) {
  for (int64_t first : {0, 1, 3, 4, 6, 1000003}) {
    for (int64_t n : {0, 1, 2, 5, 63, 64, 65, 127, 1000, 5001}) {
      PackedArgs args;
      args.Add(uint64_t{0xfeedfacecafebeef});
      args.Axes({n}, 0);
      const AlignedBytes hits = MakePartial(Kernel("monte_carlo_pi"), args, n);
      RunPart(Kernel("monte_carlo_pi"), args, {first, 0}, n, nullptr, hits.data());
      EXPECT_EQ(*hits.as<uint64_t>(), kernels::MonteCarloPiReference(0xfeedfacecafebeef, first, n))
          << first << " " << n;
    }
  }
}

TEST_P(KernelsTest, MonteCarloPiCrossesThe32BitsOfItsCounter) {
  const int64_t first = (int64_t{1} << 34) - 203, n = 500;  // blocks around 2^32
  PackedArgs args;
  args.Add(uint64_t{1});
  args.Axes({n}, 0);
  const AlignedBytes hits = MakePartial(Kernel("monte_carlo_pi"), args, n);
  RunPart(Kernel("monte_carlo_pi"), args, {first, 0}, n, nullptr, hits.data());
  EXPECT_EQ(*hits.as<uint64_t>(), kernels::MonteCarloPiReference(1, first, n));
}

TEST_P(KernelsTest, MonteCarloPiIsPi) {
  const int64_t n = 10'000'000;
  PackedArgs args;
  args.Add(uint64_t{2});
  args.Axes({n}, 0);
  const AlignedBytes hits = MakePartial(Kernel("monte_carlo_pi"), args, n);
  RunPart(Kernel("monte_carlo_pi"), args, {0, 0}, n, nullptr, hits.data());
  // Five standard deviations.
  EXPECT_NEAR(4.0 * static_cast<double>(*hits.as<uint64_t>()) / n, M_PI, 5 * 1.65 / std::sqrt(n));
}

TEST_P(KernelsTest, AsianOptionFollowsTheSamePaths) {
  for (const auto& [steps, paths] : {std::pair{1, 1}, {2, 33}, {3, 64}, {4, 31}, {17, 100}}) {
    const int64_t n = 5;
    const auto s = Floats(n, 90, 110), x = Floats(n, 60, 100), y = Floats(n, 0.1f, 2);
    std::vector<float> price(n);
    std::vector<uint8_t> fault(n);
    PackedArgs args;
    args.Add(s.data());
    args.Add(x.data());
    args.Add(y.data());
    args.Add(0.05f);
    args.Add(0.3f);
    args.Add(int32_t{steps});
    args.Add(int32_t{paths});
    args.Add(uint64_t{77});
    args.Add(price.data());
    args.Axes({n}, 0);
    EXPECT_EQ(RunPart(Kernel("asian_option"), args, {1000, 0}, n, fault.data()), 0);
    for (int64_t i = 0; i < n; ++i) {
      const kernels::AsianOptionInput in{s[i], x[i], y[i], 0.05f, 0.3f, steps, paths, 77};
      EXPECT_NEAR(price[i], kernels::AsianOptionReference(in, 1000 + i), 2e-4)
          << steps << " " << paths;
    }
  }
}

TEST_P(KernelsTest, AsianOptionIsNearTheGeometricPrice) {
  const float s = 100, x = 100, y = 1;
  float price;
  uint8_t fault;
  PackedArgs args;
  args.Add(&s);
  args.Add(&x);
  args.Add(&y);
  args.Add(0.05f);
  args.Add(0.2f);
  args.Add(int32_t{16});
  args.Add(int32_t{200'000});
  args.Add(uint64_t{5});
  args.Add(&price);
  args.Axes({1}, 0);
  RunPart(Kernel("asian_option"), args, {0, 0}, 1, &fault);
  const double geometric = kernels::GeometricAsianPrice({100, 100, 1, 0.05, 0.2, 16, 0, 0});
  EXPECT_GT(price, geometric);
  EXPECT_LT(price, geometric + 0.35);
}

TEST_P(KernelsTest, HistogramCountsEveryByte) {
  for (int64_t n : {0, 1, 7, 255, 1023, 1024, 1031, 100003}) {
    std::vector<uint8_t> value(n);
    for (auto& v : value) v = static_cast<uint8_t>(random_() % 3 == 0 ? random_() : 200);
    PackedArgs args;
    args.Add(value.data());
    args.Axes({n}, 0);
    const AlignedBytes count = MakePartial(Kernel("histogram"), args, n);
    ASSERT_EQ(count.size(), 2048);
    RunPart(Kernel("histogram"), args, {0, 0}, n, nullptr, count.data());
    EXPECT_THAT(std::vector<uint64_t>(count.as<uint64_t>(), count.as<uint64_t>() + 256),
                ElementsAreArray(kernels::HistogramReference(value)));
  }
}

TEST_P(KernelsTest, KmerCountCountsWholeWordsOnly) {
  for (int32_t k : {1, 2, 5, 8, 10, 11}) {
    for (int64_t n : {0, 1, 9, 2047, 2048, 2049, 5000}) {
      std::string base(n + k - 1, 'A');
      for (char& c : base) c = "ACGTacgtACGTACGTACGTNR-"[random_() % 23];
      for (uint8_t canonical : {0, 1}) {
        PackedArgs args;
        args.Add(base.data());
        args.Add(k);
        args.Add(canonical);
        args.Axes({n}, 0);
        const AlignedBytes count = MakePartial(Kernel("kmer_count"), args, n);
        RunPart(Kernel("kmer_count"), args, {0, 0}, n, nullptr, count.data());
        const auto expected = kernels::KmerCountReference(n == 0 ? "" : base, k, canonical != 0);
        EXPECT_TRUE(std::equal(expected.begin(), expected.end(), count.as<uint32_t>()))
            << k << " " << n;
      }
    }
  }
}

// Long runs of long words go another way.
TEST_P(KernelsTest, KmerCountSortsLongWordsIntoBuckets) {
  for (const auto& [k, n] : {std::pair<int32_t, int64_t>{11, 300'000}, {12, 1'100'000}}) {
    std::string base(n + k - 1, 'A');
    for (size_t i = 0; i < base.size(); ++i)
      base[i] = random_() % 1000 == 0 ? 'N' : "ACGT"[random_() % 4];
    for (size_t i = 1000; i < 60'000; ++i)
      base[i] = 'C';  // one word, over and over: a bucket fills
    PackedArgs args;
    args.Add(base.data());
    args.Add(k);
    args.Add(uint8_t{1});
    args.Axes({n}, 0);
    const AlignedBytes count = MakePartial(Kernel("kmer_count"), args, n);
    RunPart(Kernel("kmer_count"), args, {0, 0}, n, nullptr, count.data());
    // Every instruction set sees the same bases.
    static std::map<int32_t, std::vector<uint32_t>> references;
    auto [at, fresh] = references.try_emplace(k);
    if (fresh) at->second = kernels::KmerCountReference(base, k, true);
    const std::vector<uint32_t>& expected = at->second;
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), count.as<uint32_t>())) << k;
  }
}

TEST_P(KernelsTest, LinearIsWithinItsTolerance) {
  for (const auto& [n, m, k] :
       {std::tuple{0, 3, 5}, {1, 1, 1}, {3, 4, 0}, {5, 7, 31}, {13, 9, 130}, {4, 300, 999}}) {
    const auto x = Floats(n * k, -1, 1), w = Floats(m * k, -1, 1), b = Floats(m, -1, 1);
    std::vector<float> y(n * m);
    PackedArgs args;
    args.Add(x.data());
    args.Add(w.data());
    args.Add(b.data());
    args.Add(y.data());
    args.Axes({n, m, k}, 0);
    const TandemKernelV1& kernel = Kernel("linear");
    RunPart(kernel, args, {0, 0}, n);
    std::vector<double> expected = kernels::LinearReference(x, w, b, k);
    std::vector<double> scale =
        kernels::LinearReference(Magnitudes(x), Magnitudes(w), Magnitudes(b), k);
    if (k == 0) {
      for (int i = 0; i < n; ++i) expected.insert(expected.end(), b.begin(), b.end());
      scale = expected;  // b as it is
    }
    ASSERT_EQ(expected.size(), y.size());
    for (size_t i = 0; i < y.size(); ++i) {
      ASSERT_NEAR(y[i], expected[i], kernel.tolerance * std::abs(scale[i]));
    }
  }
}

TEST_P(KernelsTest, GradientAgreesAndBadLabelsDoNotCount) {
  for (const auto& [n, d] : {std::pair{0, 3}, {1, 1}, {31, 5}, {33, 64}, {1000, 33}}) {
    const auto x = Floats(n * d, -1, 1), w = Floats(d, -1, 1);
    std::vector<float> label(n);
    int bad = 0;
    for (int i = 0; i < n; ++i) {
      label[i] = i % 50 == 17 ? kNan : static_cast<float>(random_() % 2);
      bad += i % 50 == 17;
    }
    std::vector<uint8_t> fault(n);
    PackedArgs args;
    args.Add(x.data());
    args.Add(label.data());
    args.Add(w.data());
    args.Axes({n, d}, 0);
    const AlignedBytes sums = MakePartial(Kernel("gradient"), args, n);
    EXPECT_EQ(RunPart(Kernel("gradient"), args, {0, 0}, n, fault.data(), sums.data()), bad);
    const auto expected = kernels::GradientReference(x, label, w);
    for (int j = 0; j < d; ++j)
      ASSERT_NEAR(sums.as<float>()[j], expected.grad[j], 1e-5 * (1 + n)) << j;
    const int64_t loss_at = (d * 4 + 63) / 64 * 64;
    ASSERT_NEAR(*sums.as<float>(loss_at), expected.loss, 1e-5 * (1 + n));
  }
}

// A saturated sigmoid and a loss that would overflow in the formula as written.
TEST_P(KernelsTest, GradientSurvivesLargeScores) {
  const float x[] = {1e4f, -1e4f}, label[] = {0, 1}, w[] = {1};
  uint8_t fault[2];
  PackedArgs args;
  args.Add(+x);
  args.Add(+label);
  args.Add(+w);
  args.Axes({2, 1}, 0);
  const AlignedBytes sums = MakePartial(Kernel("gradient"), args, 2);
  RunPart(Kernel("gradient"), args, {0, 0}, 2, fault, sums.data());
  EXPECT_EQ(*sums.as<float>(), 2e4f);
  EXPECT_EQ(*sums.as<float>(64), 2e4f);
}

TEST_P(KernelsTest, BilateralFilterIsTheWeighedMean) {
  const auto run = [&](const std::vector<float>& image, int64_t n, int64_t h, int64_t w,
                       const kernels::BilateralFilterScalars& scalars) {
    std::vector<float> smooth(n * h * w, -1);
    PackedArgs args;
    args.Add(image.data());
    args.Add(scalars.radius);
    args.Add(static_cast<float>(scalars.sigma_space));
    args.Add(static_cast<float>(scalars.sigma_value));
    args.Add(smooth.data());
    args.Axes({n, h, w}, 0);
    RunPart(Kernel("bilateral_filter"), args, {0, 0}, n);
    return smooth;
  };
  for (const auto& [h, w] :
       {std::pair{1, 1}, {0, 5}, {5, 0}, {7, 3}, {16, 64}, {17, 65}, {33, 130}}) {
    for (const int32_t radius : {1, 4}) {
      const kernels::BilateralFilterScalars scalars{radius, 1.5, 0.25};
      const int64_t n = 2;
      const auto image = Floats(n * h * w, 0, 1);
      const auto smooth = run(image, n, h, w, scalars);
      for (int64_t i = 0; i < n; ++i) {
        const auto expected = kernels::BilateralFilterReference(
            std::span(image).subspan(i * h * w, h * w), h, w, scalars);
        for (int64_t j = 0; j < h * w; ++j) {
          ASSERT_NEAR(smooth[i * h * w + j], expected[j], 1e-5) << h << " x " << w << ", " << j;
        }
      }
    }
  }
  // A step far above sigma_value stays one: what averages over all of the square would not.
  const std::vector<float> step = {0, 0, 0, 10, 10, 10};
  EXPECT_THAT(run(step, 1, 1, 6, {16, 1000, 0.1}),
              testing::Pointwise(testing::FloatNear(1e-4f), step));
  // A pixel that is none spoils what sees it, nothing else.
  const std::vector<float> nan = {kNan, 1, 1, 1};
  EXPECT_EQ(std::bit_cast<uint32_t>(run(nan, 1, 1, 4, {1, 1, 1})[1]), 0x7fc00000u);
  EXPECT_EQ(run(nan, 1, 1, 4, {1, 1, 1})[2], 1);
}

TEST_P(KernelsTest, GemmIsWithinItsTolerance) {
  const TandemKernelV1& kernel = Kernel("gemm");
  for (const auto& [m, n, k] : {std::tuple{0, 3, 5},
                                {3, 0, 5},
                                {1, 1, 1},
                                {3, 4, 0},
                                {5, 7, 31},
                                {13, 9, 130},
                                {64, 65, 200}}) {
    const auto a = Floats(m * k, -1, 1), b = Floats(k * n, -1, 1);
    const std::vector<double> expected = kernels::GemmReference(a, b, m, n, k);
    const std::vector<double> scale = kernels::GemmReference(Magnitudes(a), Magnitudes(b), m, n, k);
    for (const int64_t split : {0, 1}) {
      std::vector<float> c(m * n, 77);
      const int64_t tasks = split == 0 ? m : n;
      std::vector<uint8_t> fault(tasks, 9);
      PackedArgs args;
      args.Add(a.data());
      args.Add(b.data());
      args.Add(c.data());
      args.Axes({m, n, k}, split);
      for (const auto& [begin, end] : RandomCut(tasks, random_)) {
        EXPECT_EQ(RunPart(kernel, args, {begin, begin}, end - begin, fault.data() + begin), 0);
      }
      EXPECT_EQ(std::ranges::count(fault, 0), tasks);
      for (size_t i = 0; i < c.size(); ++i) {
        ASSERT_NEAR(c[i], expected[i], kernel.tolerance * scale[i]) << split << " " << i;
      }
    }
  }
}

TEST_P(KernelsTest, GemmOfMoreThanItsLibraryCountsFailsWithItsReason) {
  const float a = 0, b = 0;
  float c = 5;
  uint8_t fault[2] = {9, 9};
  PackedArgs args;
  args.Add(&a);
  args.Add(&b);
  args.Add(&c);
  args.Axes({2, 1, int64_t{1} << 31}, 0);
  EXPECT_EQ(RunPart(Kernel("gemm"), args, {0, 0}, 2, fault), 2);
  EXPECT_THAT(fault, testing::Each(1));
  EXPECT_EQ(c, 5);
}

TEST_P(KernelsTest, MandelbrotCountsTheStepsOfEachPixel) {
  const int32_t width = 37, limit = 200;
  const int64_t n = 1000, first = 5;
  const double left = -2.1, top = 1.2, pixel = 0.09;
  std::vector<int32_t> steps(n, -1);
  PackedArgs args;
  args.Add(width);
  args.Add(left);
  args.Add(top);
  args.Add(pixel);
  args.Add(limit);
  args.Add(steps.data());
  args.Axes({n}, 0);
  RunPart(Kernel("mandelbrot"), args, {first, 0}, n);
  int inside = 0;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t id = first + i;
    const std::complex<long double> c(left + static_cast<double>(id % width) * pixel,
                                      top - static_cast<double>(id / width) * pixel);
    ASSERT_EQ(steps[i], kernels::MandelbrotReference(c, limit)) << c;
    inside += steps[i] == limit;
  }
  EXPECT_GT(inside, 100);
  EXPECT_LT(inside, 500);
}

TEST_P(KernelsTest, MandelbrotKnowsPointsThatNeverLeaveAndThatLeaveAtOnce) {
  const auto steps = [&](double x, double y, int32_t limit) {
    std::vector<int32_t> of(20, -1);  // a pixel of no extent: twenty times the same
    PackedArgs args;
    args.Add(int32_t{1});
    args.Add(x);
    args.Add(y);
    args.Add(0.0);
    args.Add(limit);
    args.Add(of.data());
    args.Axes({20}, 0);
    RunPart(Kernel("mandelbrot"), args, {0, 0}, 20);
    EXPECT_THAT(of, testing::Each(of[0]));
    return of[0];
  };
  EXPECT_EQ(steps(0, 0, 12345), 12345);
  EXPECT_EQ(steps(-2, 0, 1000), 1000) << "2 again and again: on the circle";
  EXPECT_EQ(steps(0, 1, 1000), 1000);
  EXPECT_EQ(steps(2.0000001, 0, 1000), 0);
  EXPECT_EQ(steps(1, 0, 1000), 2) << "1, 2, 5";
  EXPECT_EQ(steps(kInf, 0, 1000), 0);
  EXPECT_EQ(steps(kNan, 0, 1000), 0);
  EXPECT_EQ(steps(0, 0, 1), 1);
}

TEST_P(KernelsTest, SortOrdersRunsAndMergesThem) {
  const TandemKernelV1& kernel = Kernel("sort");
  for (const int64_t n : kSizes) {
    std::vector<int64_t> key(n);
    for (int64_t& k : key) {
      k = static_cast<int64_t>(random_()) >> (random_() % 60);
      if (random_() % 16 == 0)
        k = random_() % 2 == 0 ? std::numeric_limits<int64_t>::min()
                               : std::numeric_limits<int64_t>::max();
    }
    PackedArgs args;
    args.Add(key.data());
    args.Axes({n}, 0);
    AlignedBytes all(kernel.partial_bytes(args.data(), n) + 1);
    int64_t merged = 0;
    for (const auto& [begin, end] : RandomCut(n, random_)) {
      AlignedBytes run(kernel.partial_bytes(args.data(), end - begin) + 1);
      RunPart(kernel, args, {begin, begin}, end - begin, nullptr, run.data());
      EXPECT_EQ(kernel.merge(args.data(), all.data(), merged, run.data(), end - begin), 0);
      merged += end - begin;
    }
    EXPECT_EQ(merged, n);
    const std::vector<int64_t> expected = kernels::SortReference(key);
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), all.as<int64_t>())) << n;
  }
}

TANDEM_FOR_EACH_ISA(KernelsTest);

}  // namespace
}  // namespace tandem
