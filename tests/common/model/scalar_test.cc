#include "common/model/scalar.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "common/base/error.h"
#include "common/base/rng.h"
#include "common/model/reduction.h"

namespace tandem {
namespace {

TEST(ScalarTest, ParsesEachDtype) {
  EXPECT_EQ(Scalar::Parse("-5", DType::kI8)->AsInt64(), -5);
  EXPECT_EQ(Scalar::Parse("0xff", DType::kU8)->AsInt64(), 255);
  EXPECT_EQ(Scalar::Parse("18446744073709551615", DType::kU64)->bits(), ~uint64_t{0});
  EXPECT_EQ(Scalar::Parse("-9223372036854775808", DType::kI64)->AsInt64(),
            std::numeric_limits<int64_t>::min());
  EXPECT_EQ(Scalar::Parse("true", DType::kBool)->bits(), 1u);
  EXPECT_EQ(Scalar::Parse("0.1", DType::kF32)->bits(), std::bit_cast<uint32_t>(0.1f));
  EXPECT_EQ(Scalar::Parse("0.1", DType::kF64)->AsDouble(), 0.1);
  EXPECT_EQ(Scalar::Parse("-inf", DType::kF64)->AsDouble(),
            -std::numeric_limits<double>::infinity());
  EXPECT_EQ(Scalar::Parse("1.5", DType::kF16)->bits(), 0x3e00u);
  EXPECT_EQ(Scalar::Parse("1.5", DType::kBf16)->bits(), 0x3fc0u);
}

TEST(ScalarTest, RefusesWhatDoesNotFit) {
  struct Case {
    const char* text;
    DType dtype;
  };
  for (const Case& c : std::initializer_list<Case>{{"256", DType::kU8},
                                                   {"-1", DType::kU32},
                                                   {"128", DType::kI8},
                                                   {"-129", DType::kI8},
                                                   {"18446744073709551616", DType::kU64},
                                                   {"1.0", DType::kI32},
                                                   {"", DType::kI32},
                                                   {"--1", DType::kI32},
                                                   {"1e400", DType::kF64},
                                                   {"1e39", DType::kF32},
                                                   {"70000", DType::kF16},
                                                   {"1.5x", DType::kF32},
                                                   {"2", DType::kBool},
                                                   {"abc", DType::kBytes}}) {
    const absl::StatusOr<Scalar> value = Scalar::Parse(c.text, c.dtype);
    EXPECT_FALSE(value.ok()) << c.text << " " << c.dtype;
    EXPECT_EQ(ReasonOf(value.status()), reason::kBadArgument);
  }
}

TEST(ScalarTest, TextReadsBackToTheSameBits) {
  Rng rng(3);
  for (const DType dtype : kAllDTypes) {
    if (dtype == DType::kBytes) continue;
    for (int i = 0; i < 200; ++i) {
      const uint64_t width = 8 * DTypeSize(dtype);
      uint64_t bits = width == 64 ? rng.Next() : rng.Next() & ((uint64_t{1} << width) - 1);
      if (dtype == DType::kBool) bits &= 1;
      const Scalar value = Scalar::FromBits(dtype, bits);
      if (IsFloat(dtype) && std::isnan(value.AsDouble())) continue;
      const absl::StatusOr<Scalar> back = Scalar::Parse(value.ToString(), dtype);
      ASSERT_TRUE(back.ok()) << value.ToString() << back.status();
      EXPECT_EQ(*back, value) << value.ToString();
    }
  }
}

TEST(ScalarTest, ConversionKeepsTheValueOrRefuses) {
  EXPECT_EQ(Scalar::I64(11).ConvertTo(DType::kI32)->AsInt64(), 11);
  EXPECT_EQ(Scalar::F64(11).ConvertTo(DType::kI32)->AsInt64(), 11);
  EXPECT_EQ(Scalar::I64(3).ConvertTo(DType::kF32)->AsDouble(), 3.0);
  EXPECT_EQ(Scalar::F64(0.1).ConvertTo(DType::kF32)->bits(), std::bit_cast<uint32_t>(0.1f));
  EXPECT_EQ(Scalar::U64(~uint64_t{0}).ConvertTo(DType::kU64)->bits(), ~uint64_t{0});
  EXPECT_FALSE(Scalar::I64(-1).ConvertTo(DType::kU64).ok());
  EXPECT_FALSE(Scalar::I64(300).ConvertTo(DType::kU8).ok());
  EXPECT_FALSE(Scalar::F64(0.5).ConvertTo(DType::kI32).ok());
  EXPECT_FALSE(Scalar::F64(1e300).ConvertTo(DType::kI64).ok());
  EXPECT_FALSE(Scalar::F64(std::nan("")).ConvertTo(DType::kI64).ok());
  EXPECT_FALSE(Scalar::F64(1e39).ConvertTo(DType::kF32).ok());
  EXPECT_FALSE(Scalar().ConvertTo(DType::kI32).ok());
}

TEST(ScalarTest, ComparesAcrossSignedness) {
  EXPECT_LT(Scalar::Compare(Scalar::I64(-1), Scalar::U64(~uint64_t{0})), 0);
  EXPECT_GT(Scalar::Compare(Scalar::U64(~uint64_t{0}), Scalar::I64(1)), 0);
  EXPECT_EQ(Scalar::Compare(Scalar::U64(5), Scalar::I64(5)), 0);
  EXPECT_GT(Scalar::Compare(Scalar::F64(std::nan("")), Scalar::F64(1e300)), 0);
}

// The definition of round-to-nearest-even onto a table of every value of the narrow type.
uint16_t NearestOf(float value, float (*widen)(uint16_t), uint16_t infinity) {
  uint16_t best = 0;
  double best_distance = std::numeric_limits<double>::infinity();
  for (uint32_t bits = 0; bits < infinity; ++bits) {
    const double distance =
        std::fabs(static_cast<double>(widen(static_cast<uint16_t>(bits))) - std::fabs(value));
    const bool even = (bits & 1) == 0;
    if (distance < best_distance || (distance == best_distance && even)) {
      best_distance = distance;
      best = static_cast<uint16_t>(bits);
    }
  }
  return best | (std::signbit(value) ? 0x8000 : 0);
}

TEST(HalfTest, EveryF16SurvivesAndEveryRoundingIsNearest) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float value = F16ToF32(half);
    if (std::isnan(value)) {
      EXPECT_EQ(F32ToF16(value), 0x7e00);
    } else {
      EXPECT_EQ(F32ToF16(value), half);
    }
  }
  Rng rng(11);
  for (int i = 0; i < 300; ++i) {
    const auto value = static_cast<float>((rng.NextDouble() - 0.5) *
                                          std::ldexp(1.0, static_cast<int>(rng.Below(40)) - 24));
    if (std::fabs(value) > 65000) continue;
    EXPECT_EQ(F32ToF16(value), NearestOf(value, F16ToF32, 0x7c00)) << value;
  }
  // Half-way between two neighbours: the even one.
  for (uint32_t bits = 0; bits < 0x7bff; bits += 37) {
    const float middle =
        (F16ToF32(static_cast<uint16_t>(bits)) + F16ToF32(static_cast<uint16_t>(bits + 1))) / 2;
    EXPECT_EQ(F32ToF16(middle), bits + (bits & 1)) << middle;
    EXPECT_EQ(F32ToF16(-middle), (bits + (bits & 1)) | 0x8000) << middle;
  }
  EXPECT_EQ(F32ToF16(65519.0f), 0x7bff);
  EXPECT_EQ(F32ToF16(65520.0f), 0x7c00);
}

TEST(HalfTest, Bf16RoundsToNearestEven) {
  Rng rng(12);
  for (int i = 0; i < 100; ++i) {
    const auto value = static_cast<float>(rng.NextDouble() * 100 - 50);
    EXPECT_EQ(F32ToBf16(value), NearestOf(value, Bf16ToF32, 0x7f80)) << value;
  }
  EXPECT_EQ(F32ToBf16(std::nanf("")), 0x7fc0);
}

TEST(ReductionTest, IdentityLeavesEveryValueAsItIs) {
  for (const DType dtype : kAllDTypes) {
    if (dtype == DType::kBytes) continue;
    const Scalar low = ReductionIdentity(Reduction::kMax, dtype);
    const Scalar high = ReductionIdentity(Reduction::kMin, dtype);
    Rng rng(static_cast<uint64_t>(dtype));
    for (int i = 0; i < 100; ++i) {
      uint64_t bits = rng.Next();
      if (DTypeSize(dtype) < 8) bits &= (uint64_t{1} << (8 * DTypeSize(dtype))) - 1;
      if (dtype == DType::kBool) bits &= 1;
      const Scalar value = Scalar::FromBits(dtype, bits);
      if (IsFloat(dtype) && std::isnan(value.AsDouble())) continue;
      EXPECT_LE(Scalar::Compare(low, value), 0) << dtype << " " << value.ToString();
      EXPECT_GE(Scalar::Compare(high, value), 0) << dtype << " " << value.ToString();
    }
    EXPECT_EQ(ReductionIdentity(Reduction::kSum, dtype).AsDouble(), 0);
  }
}

}  // namespace
}  // namespace tandem
