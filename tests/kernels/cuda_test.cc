// The CUDA form of every kernel, in merged launches of random parts of jobs with different scalars,
// against its reference and, byte for byte where its class promises that, against the CPU. On
// softcuda, or on a real device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/asian_option/asian_option_ref.h"
#include "kernels/black_scholes/black_scholes_ref.h"
#include "kernels/gemm/gemm_ref.h"
#include "kernels/gradient/gradient_ref.h"
#include "kernels/histogram/histogram_ref.h"
#include "kernels/kmer_count/kmer_count_ref.h"
#include "kernels/linear/linear_ref.h"
#include "kernels/monte_carlo_pi/monte_carlo_pi_ref.h"
#include "kernels/noop/noop_ref.h"
#include "kernels/saxpy/saxpy_ref.h"
#include "kernels/sort/sort_ref.h"
#include "kernels/spin/spin_ref.h"
#include "tests/kernels/cuda_harness.h"
#include "tests/kernels/library.h"

namespace tandem {
namespace {

using testing::ElementsAreArray;

const float kNan = std::numeric_limits<float>::quiet_NaN();
const float kInf = std::numeric_limits<float>::infinity();
constexpr int kRounds = 6;  // merged launches a kernel, each cut anew

class CudaKernelsTest : public CudaTest {
 protected:
  std::vector<float> Floats(int64_t n, float low, float high) {
    std::uniform_real_distribution<float> value(low, high);
    std::vector<float> x(static_cast<size_t>(n));
    for (float& v : x) v = value(random_);
    return x;
  }
  // Ordinary floats, and now and then what is none.
  std::vector<float> OddFloats(int64_t n, float low, float high) {
    std::vector<float> x = Floats(n, low, high);
    for (float& v : x) {
      const float odd[] = {0.0f, -0.0f, -v, 1e-42f, 3e38f, kInf, -kInf, kNan};
      if (random_() % 16 == 0) v = odd[random_() % 8];
    }
    return x;
  }

  // The same bytes as the CPU's, whatever the cut.
  void ExpectSame(const char* name, const std::vector<Job>& jobs) {
    const TandemKernelV1& cpu = FindKernel(*tandem_builtin_kernels(), name);
    const TandemKernelV1& cuda = FindKernel(*tandem_builtin_cuda_kernels(), name);
    EXPECT_EQ(cpu.content_hash, cuda.content_hash);
    EXPECT_EQ(cpu.flags, cuda.flags);
    EXPECT_NE(cpu.output_class, TANDEM_CLASS_TOLERANT);
    std::vector<Result> expected;
    for (const Job& job : jobs) expected.push_back(OnCpu(name, job));
    for (int round = 0; round < kRounds; ++round) {
      const std::vector<Result> found = OnCuda(name, jobs, &random_);
      for (size_t i = 0; i < jobs.size(); ++i) {
        // Not EXPECT_EQ: kilobytes are not for printing.
        ASSERT_TRUE(found[i].fault == expected[i].fault) << name << " job " << i;
        ASSERT_TRUE(found[i].outputs == expected[i].outputs) << name << " job " << i;
        ASSERT_TRUE(found[i].partial == expected[i].partial) << name << " job " << i;
      }
    }
  }
};

TEST_F(CudaKernelsTest, EveryBuiltInKernelHasACudaForm) {
  std::set<std::string> cpu, cuda;
  for (uint32_t i = 0; i < tandem_builtin_kernels()->kernel_count; ++i) {
    cpu.insert(tandem_builtin_kernels()->kernels[i]->name);
  }
  for (uint32_t i = 0; i < tandem_builtin_cuda_kernels()->kernel_count; ++i) {
    EXPECT_NE(tandem_builtin_cuda_kernels()->kernels[i]->launch, nullptr);
    cuda.insert(tandem_builtin_cuda_kernels()->kernels[i]->name);
  }
  EXPECT_EQ(cpu, cuda);
}

TEST_F(CudaKernelsTest, Noop) {
  const auto job = [](uint64_t seed, int64_t first, int64_t n) {
    return Job{n, first, {Output(8, n)}, [=](const auto& at, int64_t rows) {
                 PackedArgs args;
                 args.Add(seed);
                 args.Add(at[0]);
                 args.Axes({rows}, 0);
                 return args;
               }};
  };
  const std::vector<Job> jobs = {job(4, 13, 1000), job(5, 0, 1), job(6, 7, 0), job(7, 1, 4097)};
  ExpectSame("noop", jobs);
  EXPECT_EQ(OnCuda("noop", jobs, &random_)[3].As<uint64_t>(0), kernels::NoopReference(7, 1, 4097));
}

TEST_F(CudaKernelsTest, Spin) {
  std::vector<uint32_t> work(700);
  for (auto& w : work) w = static_cast<uint32_t>(random_() % 50);
  const auto job = [&](uint64_t seed, int64_t first) {
    const auto n = static_cast<int64_t>(work.size());
    return Job{n, first, {Operand(work), Output(8, n)}, [=](const auto& at, int64_t rows) {
                 PackedArgs args;
                 args.Add(at[0]);
                 args.Add(seed);
                 args.Add(at[1]);
                 args.Axes({rows}, 0);
                 return args;
               }};
  };
  const std::vector<Job> jobs = {job(3, 50), job(8, 0)};
  ExpectSame("spin", jobs);
  EXPECT_EQ(OnCuda("spin", jobs, &random_)[0].As<uint64_t>(0), kernels::SpinReference(3, 50, work));
}

TEST_F(CudaKernelsTest, Saxpy) {
  const auto job = [](float scale, const std::vector<float>& x, const std::vector<float>& y) {
    const auto n = static_cast<int64_t>(x.size());
    return Job{n, 0, {Operand(x), Operand(y), Output(4, n)}, [=](const auto& at, int64_t rows) {
                 PackedArgs args;
                 args.Add(scale);
                 for (const void* p : at) args.Add(p);
                 args.Axes({rows}, 0);
                 return args;
               }};
  };
  const auto x = Floats(2000, -9, 9), y = Floats(2000, -9, 9);
  const std::vector<Job> jobs = {
      job(1.3f, x, y), job(-2.7182817f, OddFloats(999, -1e4f, 1e4f), OddFloats(999, -1e4f, 1e4f))};
  ExpectSame("saxpy", jobs);
  EXPECT_EQ(OnCuda("saxpy", jobs, &random_)[0].As<float>(0), kernels::SaxpyReference(1.3f, x, y));
}

TEST_F(CudaKernelsTest, BlackScholesWithItsFaults) {
  const auto job = [](float rate, float volatility, const std::vector<float>& s,
                      const std::vector<float>& x, const std::vector<float>& y) {
    const auto n = static_cast<int64_t>(s.size());
    return Job{n,
               9,
               {Operand(s), Operand(x), Operand(y), Output(4, n), Output(4, n)},
               [=](const auto& at, int64_t rows) {
                 PackedArgs args;
                 for (int i = 0; i < 3; ++i) args.Add(at[i]);
                 args.Add(rate);
                 args.Add(volatility);
                 args.Add(at[3]);
                 args.Add(at[4]);
                 args.Axes({rows}, 0);
                 return args;
               }};
  };
  const int64_t n = 1500;
  const auto s = Floats(n, 10, 200), x = Floats(n, 10, 200);
  auto y = Floats(n, 0.02f, 5);
  for (size_t i = 0; i < y.size(); i += 97) y[i] = -y[i];
  const std::vector<Job> jobs = {
      job(0.04f, 0.3f, s, x, y),
      job(0.01f, 0.2f, OddFloats(n, 10, 200), OddFloats(n, 10, 200), OddFloats(n, -0.5f, 5))};
  ExpectSame("black_scholes", jobs);
  const Result found = OnCuda("black_scholes", jobs, &random_)[0];
  for (size_t i = 0; i < y.size(); ++i) {
    ASSERT_EQ(found.fault[i], y[i] < 0 ? 1 : 0);
    if (y[i] < 0) continue;
    const auto price = kernels::BlackScholesReference(s[i], x[i], y[i], 0.04f, 0.3f);
    ASSERT_NEAR(found.As<float>(0)[i], price.call, 2e-6 * (s[i] + x[i])) << i;
    ASSERT_NEAR(found.As<float>(1)[i], price.put, 2e-6 * (s[i] + x[i])) << i;
  }
}

TEST_F(CudaKernelsTest, AsianOption) {
  const int64_t n = 7;
  const auto s = Floats(n, 90, 110), x = Floats(n, 60, 100), y = Floats(n, 0.1f, 2);
  const auto job = [&](int32_t steps, int32_t paths, uint64_t seed) {
    return Job{n,
               1000,
               {Operand(s), Operand(x), Operand(y), Output(4, n)},
               [=](const auto& at, int64_t rows) {
                 PackedArgs args;
                 for (int i = 0; i < 3; ++i) args.Add(at[i]);
                 args.Add(0.05f);
                 args.Add(0.3f);
                 args.Add(steps);
                 args.Add(paths);
                 args.Add(seed);
                 args.Add(at[3]);
                 args.Axes({rows}, 0);
                 return args;
               }};
  };
  const std::vector<Job> jobs = {job(1, 1, 77), job(6, 70, 9), job(3, 64, 77)};
  ExpectSame("asian_option", jobs);
  const Result found = OnCuda("asian_option", jobs, &random_)[1];
  for (int64_t i = 0; i < n; ++i) {
    const kernels::AsianOptionInput in{s[i], x[i], y[i], 0.05f, 0.3f, 6, 70, 9};
    EXPECT_NEAR(found.As<float>(0)[i], kernels::AsianOptionReference(in, 1000 + i), 2e-4) << i;
  }
}

TEST_F(CudaKernelsTest, MonteCarloPi) {
  const auto job = [](uint64_t seed, int64_t first, int64_t n) {
    return Job{n, first, {}, [=](const auto&, int64_t rows) {
                 PackedArgs args;
                 args.Add(seed);
                 args.Axes({rows}, 0);
                 return args;
               }};
  };
  const int64_t far = (int64_t{1} << 34) - 203;  // blocks of its counter around 2^32
  const std::vector<Job> jobs = {job(77, 1, 5000), job(78, far, 500), job(79, 0, 0)};
  ExpectSame("monte_carlo_pi", jobs);
  const auto found = OnCuda("monte_carlo_pi", jobs, &random_);
  EXPECT_EQ(found[0].PartialAs<uint64_t>()[0], kernels::MonteCarloPiReference(77, 1, 5000));
  EXPECT_EQ(found[1].PartialAs<uint64_t>()[0], kernels::MonteCarloPiReference(78, far, 500));
}

TEST_F(CudaKernelsTest, Histogram) {
  const auto job = [](const std::vector<uint8_t>& value) {
    return Job{
        static_cast<int64_t>(value.size()), 0, {Operand(value)}, [](const auto& at, int64_t rows) {
          PackedArgs args;
          args.Add(at[0]);
          args.Axes({rows}, 0);
          return args;
        }};
  };
  std::vector<uint8_t> skewed(6000), flat(100);
  for (auto& v : skewed) v = static_cast<uint8_t>(random_() % 3 == 0 ? random_() : 200);
  for (auto& v : flat) v = static_cast<uint8_t>(random_());
  const std::vector<Job> jobs = {job(skewed), job(flat)};
  ExpectSame("histogram", jobs);
  EXPECT_THAT(OnCuda("histogram", jobs, &random_)[0].PartialAs<uint64_t>(),
              ElementsAreArray(kernels::HistogramReference(skewed)));
}

TEST_F(CudaKernelsTest, KmerCount) {
  for (const int32_t k : {1, 5}) {
    const int64_t n = 2500;
    std::vector<uint8_t> base(static_cast<size_t>(n + k - 1));
    for (auto& b : base) b = static_cast<uint8_t>("ACGTacgtACGTACGTN"[random_() % 17]);
    const auto job = [&](uint8_t canonical) {
      return Job{n, 0, {Operand(base)}, [=](const auto& at, int64_t rows) {
                   PackedArgs args;
                   args.Add(at[0]);
                   args.Add(k);
                   args.Add(canonical);
                   args.Axes({rows}, 0);
                   return args;
                 }};
    };
    const std::vector<Job> jobs = {job(0), job(1)};
    ExpectSame("kmer_count", jobs);
    const std::string_view text(reinterpret_cast<const char*>(base.data()), base.size());
    const auto counts = OnCuda("kmer_count", jobs, &random_)[1].PartialAs<uint32_t>();
    const auto expected = kernels::KmerCountReference(text, k, true);
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), counts.begin())) << k;
  }
}

TEST_F(CudaKernelsTest, GradientLeafByLeaf) {
  const int64_t n = 300, d = 21;
  const auto x = Floats(n * d, -1, 1);
  std::vector<float> label(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) label[i] = i % 40 == 7 ? 0.5f : static_cast<float>(i % 2);
  const auto job = [&](const std::vector<float>& w, int64_t leaf) {
    return Job{.tasks = n,
               .buffers = {Operand(x, 4 * d), Operand(label), Operand(w, 0)},
               .make =
                   [=](const auto& at, int64_t rows) {
                     PackedArgs args;
                     for (const void* p : at) args.Add(p);
                     args.Axes({rows, d}, 0);
                     return args;
                   },
               .leaf = leaf};
  };
  const auto w = Floats(d, -1, 1);
  const std::vector<Job> jobs = {job(w, n), job(Floats(d, -1, 1), 64), job(w, 5)};
  ExpectSame("gradient", jobs);
  const auto sums = OnCuda("gradient", jobs, &random_)[0].PartialAs<float>();
  const auto expected = kernels::GradientReference(x, label, w);
  for (int64_t j = 0; j < d; ++j) EXPECT_NEAR(sums[j], expected.grad[j], 1e-5 * n) << j;
  const int64_t loss_at = (d * 4 + 63) / 64 * 64 / 4;
  EXPECT_NEAR(sums[loss_at], expected.loss, 1e-5 * n);
}

TEST_F(CudaKernelsTest, LinearAlongEitherAxisWithinItsTolerance) {
  const int64_t n = 9, m = 13, k = 40;
  const auto x = Floats(n * k, -1, 1), w = Floats(m * k, -1, 1), b = Floats(m, -1, 1);
  const std::vector<double> expected = kernels::LinearReference(x, w, b, k);
  for (const int64_t split : {0, 1}) {
    Buffer y = Output(4 * m, n);
    if (split != 0) y.row_bytes = 0;
    const Job job{.tasks = split == 0 ? n : m,
                  .buffers = {Operand(x, split == 0 ? 4 * k : 0), Operand(w, 0), Operand(b, 0), y},
                  .make =
                      [=](const auto& at, int64_t rows) {
                        PackedArgs args;
                        for (const void* p : at) args.Add(p);
                        args.Axes({split == 0 ? rows : n, m, k}, split);
                        return args;
                      },
                  .sliceable = split == 0};
    for (int round = 0; round < kRounds; ++round) {
      for (const Result& found : OnCuda("linear", {job, job}, &random_)) {
        const auto values = found.As<float>(0);
        for (size_t i = 0; i < values.size(); ++i) {
          const double tolerance =
              FindKernel(*tandem_builtin_cuda_kernels(), "linear").tolerance * (1 + k);
          ASSERT_NEAR(values[i], expected[i], tolerance) << "split " << split << ", element " << i;
        }
      }
    }
  }
}

TEST_F(CudaKernelsTest, GemmAlongEitherAxisWithinItsTolerance) {
  const int64_t m = 9, n = 13, k = 40;
  const auto a = Floats(m * k, -1, 1), b = Floats(k * n, -1, 1);
  const std::vector<double> expected = kernels::GemmReference(a, b, m, n, k);
  for (const int64_t split : {0, 1}) {
    Buffer c = Output(4 * n, m);
    if (split != 0) c.row_bytes = 0;
    const Job job{.tasks = split == 0 ? m : n,
                  .buffers = {Operand(a, split == 0 ? 4 * k : 0), Operand(b, 0), c},
                  .make =
                      [=](const auto& at, int64_t rows) {
                        PackedArgs args;
                        for (const void* p : at) args.Add(p);
                        args.Axes({split == 0 ? rows : m, n, k}, split);
                        return args;
                      },
                  .sliceable = split == 0};
    for (int round = 0; round < kRounds; ++round) {
      for (const Result& found : OnCuda("gemm", {job, job}, &random_)) {
        EXPECT_THAT(found.fault, testing::Each(TANDEM_OK));
        const auto values = found.As<float>(0);
        for (size_t i = 0; i < values.size(); ++i) {
          ASSERT_NEAR(values[i], expected[i], 1e-5 * (1 + k)) << "split " << split << ", " << i;
        }
      }
    }
  }
}

TEST_F(CudaKernelsTest, GemmOfNoTermsIsZero) {
  const Job job{
      3,
      0,
      {Operand(std::vector<float>(), 0), Operand(std::vector<float>(), 0), Output(4 * 5, 3)},
      [](const auto& at, int64_t rows) {
        PackedArgs args;
        for (const void* p : at) args.Add(p);
        args.Axes({rows, 5, 0}, 0);
        return args;
      }};
  EXPECT_THAT(OnCuda("gemm", {job}, &random_)[0].As<float>(0), testing::Each(0.0f));
}

TEST_F(CudaKernelsTest, BilateralFilter) {
  const auto job = [&](int64_t n, int64_t h, int64_t w, int32_t radius, float sigma_value) {
    return Job{n,
               0,
               {Operand(Floats(n * h * w, 0, 1), 4 * h * w), Output(4 * h * w, n)},
               [=](const auto& at, int64_t rows) {
                 PackedArgs args;
                 args.Add(at[0]);
                 args.Add(radius);
                 args.Add(1.5f);
                 args.Add(sigma_value);
                 args.Add(at[1]);
                 args.Axes({rows, h, w}, 0);
                 return args;
               }};
  };
  ExpectSame("bilateral_filter", {job(3, 7, 5, 2, 0.2f), job(2, 17, 66, 1, 0.5f)});
}

TEST_F(CudaKernelsTest, Mandelbrot) {
  const auto job = [](int32_t width, int32_t limit, int64_t first) {
    const int64_t n = 900;
    return Job{n, first, {Output(4, n)}, [=](const auto& at, int64_t rows) {
                 PackedArgs args;
                 args.Add(width);
                 args.Add(-2.0);
                 args.Add(1.1);
                 args.Add(0.07);
                 args.Add(limit);
                 args.Add(at[0]);
                 args.Axes({rows}, 0);
                 return args;
               }};
  };
  ExpectSame("mandelbrot", {job(41, 60, 0), job(30, 7, 100)});
}

TEST_F(CudaKernelsTest, SortOrdersEachPartOfALaunch) {
  const TandemKernelV1& kernel = FindKernel(*tandem_builtin_cuda_kernels(), "sort");
  constexpr int64_t kTasks = 3000, kCut = 1100;
  std::vector<int64_t> key(kTasks);
  for (int64_t& k : key) k = static_cast<int64_t>(random_()) >> (random_() % 60);
  key[5] = std::numeric_limits<int64_t>::min();
  key[6] = std::numeric_limits<int64_t>::max();
  const OnDevice keys(key.data(), key.size() * sizeof(int64_t));
  const OnDevice sorted(key.data(), key.size() * sizeof(int64_t));
  PackedArgs args;
  args.Add(static_cast<const void*>(keys.data()));
  args.Axes({kTasks}, 0);
  LaunchAndWait(kernel, {{args.data(), {0, 0}, kCut, nullptr, sorted.data()},
                         {args.data(),
                          {kCut, kCut},
                          kTasks - kCut,
                          nullptr,
                          sorted.data() + kCut * sizeof(int64_t)}});
  const std::vector<uint8_t> bytes = sorted.Fetch();
  std::vector<int64_t> found(kTasks);
  std::memcpy(found.data(), bytes.data(), bytes.size());
  const auto left = kernels::SortReference({key.begin(), key.begin() + kCut});
  EXPECT_TRUE(std::equal(left.begin(), left.end(), found.begin()));
  EXPECT_EQ(kernel.merge(args.data(), found.data(), kCut,
                         std::vector(found.begin() + kCut, found.end()).data(), kTasks - kCut),
            0);
  EXPECT_EQ(found, kernels::SortReference(key));
}

}  // namespace
}  // namespace tandem
