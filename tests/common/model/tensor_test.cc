#include "common/model/tensor.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "common/base/error.h"
#include "common/base/rng.h"
#include "tests/common/model/plan_cases.h"

namespace tandem {
namespace {

TEST(TensorSpecTest, CountsElementsAndBytes) {
  const TensorSpec spec{DType::kF32, {3, 4, 5}};
  EXPECT_EQ(*spec.Elements(), 60u);
  EXPECT_EQ(*spec.Bytes(), 240u);
  EXPECT_EQ(spec.ToString(), "f32[3,4,5]");
  EXPECT_EQ(*(TensorSpec{DType::kF64, {}}).Bytes(), 8u);
}

TEST(TensorSpecTest, OverflowIsAnErrorUnlessNothingIsThere) {
  const int64_t big = int64_t{1} << 40;
  EXPECT_EQ(ReasonOf((TensorSpec{DType::kU8, {big, big}}).Elements().status()), reason::kTooLarge);
  EXPECT_EQ(ReasonOf((TensorSpec{DType::kF64, {int64_t{1} << 61}}).Bytes().status()),
            reason::kTooLarge);
  EXPECT_EQ(*(TensorSpec{DType::kU8, {big, big, 0}}).Elements(), 0u);
  EXPECT_FALSE((TensorSpec{DType::kU8, {-1}}).Elements().ok());
  EXPECT_FALSE((TensorSpec{DType::kBytes, {3}}).Bytes().ok());
}

// Indices of the elements in a slice, by visiting every element of the tensor.
std::vector<uint32_t> Visit(const TensorSpec& spec, size_t dim, int64_t begin, int64_t end) {
  std::vector<uint32_t> found;
  const auto count = static_cast<uint32_t>(*spec.Elements());
  for (uint32_t flat = 0; flat < count; ++flat) {
    int64_t rest = flat;
    int64_t index = 0;
    for (size_t d = spec.shape.size(); d-- > 0;) {
      if (d == dim) index = rest % spec.shape[d];
      rest /= spec.shape[d];
    }
    if (index >= begin && index < end) found.push_back(flat);
  }
  return found;
}

TEST(SliceOfTest, FindsTheElementsThatAVisitOfAllFinds) {
  Rng rng(1);
  for (int round = 0; round < 300; ++round) {
    TensorSpec spec{DType::kU32, {}};
    const size_t rank = 1 + rng.Below(4);
    for (size_t d = 0; d < rank; ++d) spec.shape.push_back(static_cast<int64_t>(1 + rng.Below(5)));
    const size_t dim = rng.Below(rank);
    const uint64_t begin = rng.Below(static_cast<uint64_t>(spec.shape[dim]) + 1);
    const uint64_t end = rng.Between(begin, static_cast<uint64_t>(spec.shape[dim]));
    std::vector<uint32_t> whole(*spec.Elements());
    std::iota(whole.begin(), whole.end(), 0u);

    const StridedSlice slice = SliceOf(spec, dim, begin, end);
    std::vector<uint32_t> packed(slice.bytes() / 4);
    GatherSlice(slice, whole.data(), packed.data());
    EXPECT_EQ(packed, Visit(spec, dim, static_cast<int64_t>(begin), static_cast<int64_t>(end)));
    EXPECT_LE(slice.end(), whole.size() * 4);

    std::vector<uint32_t> target(whole.size(), ~0u);
    plan_cases::Scatter(slice, packed.data(), target.data());
    size_t placed = 0;
    for (size_t i = 0; i < target.size(); ++i) {
      if (target[i] == ~0u) continue;
      EXPECT_EQ(target[i], i);
      ++placed;
    }
    EXPECT_EQ(placed, packed.size());
  }
}

TEST(SliceOfTest, TheLeadingDimensionIsOneRun) {
  const TensorSpec spec{DType::kF32, {10, 7}};
  EXPECT_EQ(SliceOf(spec, 0, 2, 5), (StridedSlice{56, 84, 84, 1}));
  EXPECT_EQ(SliceOf(spec, 1, 2, 5), (StridedSlice{8, 12, 28, 10}));
  EXPECT_EQ(SliceOf(spec, 1, 0, 7), (StridedSlice{0, 280, 280, 1}));
  EXPECT_EQ(SliceOf(spec, 0, 5, 5).bytes(), 0u);
}

}  // namespace
}  // namespace tandem
