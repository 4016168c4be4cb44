// Grids as large as their tasks ask: beyond a few waves threads come back for more, a task has a
// block or a warp, and a block as much shared memory as it needs.
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
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

}  // namespace
}  // namespace tandem
