#include "common/model/generator.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/base/rng.h"

namespace tandem {
namespace {

std::string Bytes(const Generator& generator, DType dtype, uint64_t first, uint64_t count) {
  std::string bytes(count * DTypeSize(dtype), '\0');
  Generate(generator, dtype, first, count, bytes.data());
  return bytes;
}

TEST(GeneratorTest, AnyCutGivesTheSameBytes) {
  Rng rng(2);
  for (const DType dtype : kAllDTypes) {
    if (dtype == DType::kBytes) continue;
    for (const char* text : {"uniform(seed=7)", "iota", "constant(1)"}) {
      const absl::StatusOr<Generator> generator = ParseGenerator(text, dtype);
      if (dtype == DType::kBool && std::string(text) == "iota") {
        EXPECT_FALSE(generator.ok());
        continue;
      }
      ASSERT_TRUE(generator.ok()) << generator.status();
      const std::string whole = Bytes(*generator, dtype, 1000, 300);
      const uint64_t cut = rng.Below(301);
      EXPECT_EQ(
          Bytes(*generator, dtype, 1000, cut) + Bytes(*generator, dtype, 1000 + cut, 300 - cut),
          whole)
          << text << " " << dtype;
    }
  }
}

TEST(GeneratorTest, FollowsItsDefinition) {
  const Generator f32 = *ParseGenerator("uniform(seed=7, lo=10, hi=20)", DType::kF32);
  const Generator u8 = *ParseGenerator("uniform(seed=9)", DType::kU8);
  const Generator iota = *ParseGenerator("iota(start=5, step=-2)", DType::kI32);
  for (uint64_t i = 0; i < 50; ++i) {
    float f = 0;
    Generate(f32, DType::kF32, i, 1, &f);
    const float u = static_cast<float>(SplitMix64At(7, i) >> 40) / 16777216.0f;
    EXPECT_EQ(f, 10.0f + 10.0f * u);
    uint8_t b = 0;
    Generate(u8, DType::kU8, i, 1, &b);
    EXPECT_EQ(b, SplitMix64At(9, i) >> 56);  // 256 values: the top byte.
    int32_t n = 0;
    Generate(iota, DType::kI32, i, 1, &n);
    EXPECT_EQ(n, 5 - 2 * static_cast<int32_t>(i));
  }
}

TEST(GeneratorTest, StaysWithinItsBounds) {
  const Generator g = *ParseGenerator("uniform(seed=1, lo=-3, hi=3)", DType::kI8);
  std::vector<int8_t> values(2000);
  Generate(g, DType::kI8, 0, values.size(), values.data());
  std::vector<int> count(7);
  for (const int8_t value : values) {
    ASSERT_TRUE(value >= -3 && value <= 3);
    ++count[static_cast<size_t>(value + 3)];
  }
  for (const int n : count) EXPECT_GT(n, 200);
}

TEST(GeneratorTest, TextReadsBack) {
  for (const char* text :
       {"uniform(seed=7, lo=0, hi=1)", "iota(start=0, step=1)", "constant(3.5)"}) {
    const absl::StatusOr<Generator> generator = ParseGenerator(text, DType::kF64);
    ASSERT_TRUE(generator.ok()) << generator.status();
    EXPECT_EQ(GeneratorToString(*generator), text);
    EXPECT_EQ(*ParseGenerator(GeneratorToString(*generator), DType::kF64), *generator);
  }
}

TEST(GeneratorTest, RefusesWithItsReason) {
  for (const char* text : {"", "gauss", "uniform(seed=x)", "uniform(seed=1,seed=2)",
                           "uniform(lo=2,hi=1)", "iota(stop=3)", "constant", "constant()", "iota(",
                           "uniform(lo=nan)", "uniform(lo=-1e308,hi=1e308)", "iota(start=)"}) {
    const absl::StatusOr<Generator> generator = ParseGenerator(text, DType::kF64);
    ASSERT_FALSE(generator.ok()) << text;
    EXPECT_EQ(ReasonOf(generator.status()), reason::kBadLocator) << text;
  }
  EXPECT_FALSE(ParseGenerator("iota", DType::kBytes).ok());
  EXPECT_FALSE(ValidateGenerator(ConstantGenerator{Scalar::F64(1)}, DType::kF32).ok());
}

}  // namespace
}  // namespace tandem
