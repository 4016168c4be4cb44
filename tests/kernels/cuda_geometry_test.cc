// Grids as large as their tasks ask: beyond a few waves threads come back for more, a task has a
// block or a warp, and a block as much shared memory as it needs, for the arrays of a reduction
// too.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kernels/noop/noop_ref.h"
#include "tests/kernels/cuda_harness.h"
#include "tests/kernels/library.h"

namespace tandem {
namespace {

class CudaGeometryTest : public CudaTest {
 protected:
  // Sums of rows of small whole numbers, which floats add up exactly in any order.
  void ExpectRowSums(const char* name, int64_t n, int64_t d) {
    std::vector<float> x(static_cast<size_t>(n * d));
    for (float& v : x) v = static_cast<float>(random_() % 16);
    const Job job{n, 0, {Operand(x, 4 * d), Output(4, n)}, [=](const auto& at, int64_t rows) {
                    PackedArgs args;
                    for (const void* p : at) args.Add(p);
                    args.Axes({rows, d}, 0);
                    return args;
                  }};
    const TandemKernelV1& kernel = FindKernel(LoadFor(TANDEM_CUDA_PROBES, "v2"), name);
    const Result found = OnCuda(kernel, {job}, &random_)[0];
    const std::vector<float> sums = found.As<float>(0);
    for (int64_t i = 0; i < n; ++i) {
      float expected = 0;
      for (int64_t j = 0; j < d; ++j) expected += x[i * d + j];
      ASSERT_EQ(sums[i], expected) << name << " row " << i << " of " << n << " x " << d;
      ASSERT_EQ(found.fault[i], d == 0 ? 1 : 0);
    }
  }
};

TEST_F(CudaGeometryTest, AThreadATaskBeyondAFewWaves) {
  const int64_t n = 150'001;
  const Job job{n, 5, {Output(8, n)}, [](const auto& at, int64_t rows) {
                  PackedArgs args;
                  args.Add(uint64_t{3});
                  args.Add(at[0]);
                  args.Axes({rows}, 0);
                  return args;
                }};
  EXPECT_TRUE(OnCuda("noop", {job}, &random_)[0].As<uint64_t>(0) ==
              kernels::NoopReference(3, 5, n));
}

TEST_F(CudaGeometryTest, ABlockATask) {
  ExpectRowSums("row_sum", 1, 1);
  ExpectRowSums("row_sum", 4, 0);
  ExpectRowSums("row_sum", 5, 700);
  ExpectRowSums("row_sum", 400, 3);  // more than run at once on softcuda's device
}

TEST_F(CudaGeometryTest, MoreSharedMemoryThanABlockHasUnasked) {
  ExpectRowSums("row_sum", 3, 20'000);
  ExpectRowSums("warp_sum", 2, 13'000);
}

TEST_F(CudaGeometryTest, AWarpATask) {
  ExpectRowSums("warp_sum", 1, 1);
  ExpectRowSums("warp_sum", 9, 0);
  ExpectRowSums("warp_sum", 17, 333);
  ExpectRowSums("warp_sum", 2000, 5);
  ExpectRowSums("warp_sum", 10, 3000);  // several of them are more than a block has unasked
}

// Sums and greatest values of arrays, by a plain loop.
struct Extremes {
  std::vector<int64_t> sums;
  std::vector<int32_t> tops;
};
Extremes ExtremesOf(const std::vector<uint8_t>& x, const std::vector<int32_t>& weight, int64_t n) {
  const auto m = static_cast<int64_t>(weight.size());
  Extremes e{std::vector<int64_t>(static_cast<size_t>(2 * (m + 1))),
             std::vector<int32_t>(weight.size(), std::numeric_limits<int32_t>::min())};
  for (int64_t i = 0; i < n; ++i) {
    const int32_t pair = x[i] * 256 + x[i + 1];
    for (int64_t j = 0; j < m; ++j) {
      e.sums[2 * j] += int64_t{weight[j]} * pair;
      e.tops[j] = std::max(e.tops[j], weight[j] * pair);
    }
    ++e.sums[2 * m + 1];
  }
  return e;
}

TEST_F(CudaGeometryTest, ArraysOfAReductionInABlocksMemoryOrTheDevices) {
  const TandemKernelV1& kernel = FindKernel(LoadFor(TANDEM_CUDA_PROBES, "v2"), "pairs");
  for (const auto& [n, m] : {std::pair<int64_t, int64_t>{5000, 3}, {40, 7000}, {1, 1}}) {
    std::vector<uint8_t> x(static_cast<size_t>(n + 1));
    std::vector<int32_t> weight(static_cast<size_t>(m));
    for (auto& v : x) v = static_cast<uint8_t>(random_());
    for (auto& v : weight) v = static_cast<int32_t>(random_() % 2001) - 1000;
    const auto make = [m = m](const std::vector<const void*>& at, int64_t rows) {
      PackedArgs args;
      args.Add(int32_t{1});
      args.Add(at[0]);
      args.Add(at[1]);
      args.Axes({rows, m}, 0);
      return args;
    };
    const Job job{n, 0, {Operand(x), Operand(weight, 0)}, make};
    const Extremes expected = ExtremesOf(x, weight, n);
    for (int round = 0; round < 3; ++round) {
      const auto partial = OnCuda(kernel, {job, job}, &random_)[1].partial;
      const size_t tops_at = (expected.sums.size() * 8 + TANDEM_PARTIAL_ALIGN - 1) /
                             TANDEM_PARTIAL_ALIGN * TANDEM_PARTIAL_ALIGN;
      EXPECT_EQ(std::memcmp(partial.data(), expected.sums.data(), expected.sums.size() * 8), 0);
      EXPECT_EQ(
          std::memcmp(partial.data() + tops_at, expected.tops.data(), 4 * expected.tops.size()), 0);
    }
  }
}

}  // namespace
}  // namespace tandem
