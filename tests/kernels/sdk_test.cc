// The SDK's powers, through a library built as a user's is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "kernels/monte_carlo_pi/monte_carlo_pi_ref.h"
#include "tandem/philox.h"
#include "tests/kernels/harness.h"
#include "tests/kernels/isa_test.h"
#include "tests/kernels/library.h"

namespace tandem {
namespace {

using testing::ElementsAre;

class SdkTest : public IsaTest {
 protected:
  const TandemKernelV1& Kernel(const char* name) {
    return FindKernel(LoadFor(TANDEM_PROBES, GetParam()), name);
  }
};

TEST_P(SdkTest, LibraryExportsOneTableForItsInstructionSet) {
  const TandemLibraryV1& library = LoadFor(TANDEM_PROBES, GetParam());
  EXPECT_EQ(library.struct_bytes, sizeof(TandemLibraryV1));
  EXPECT_EQ(library.abi_major, TANDEM_ABI_MAJOR);
  EXPECT_EQ(library.kernel_count, 7u);
  EXPECT_EQ(library.isa, "x86-64-" + isa());
  for (uint32_t i = 0; i < library.kernel_count; ++i) {
    EXPECT_TRUE(TANDEM_HAS(library.kernels[i], launch));
    EXPECT_EQ(library.kernels[i]->launch, nullptr);
    EXPECT_NE(library.kernels[i]->content_hash, 0u);
  }
}

TEST_P(SdkTest, BlockRunsPhasesOneAfterTheOther) {
  const TandemKernelV1& kernel = Kernel("row_sum");
  EXPECT_EQ(kernel.flags, uint32_t{TANDEM_BLOCK_A_TASK});
  for (int64_t d : {0, 1, 2, 3, 17, 64, 100}) {
    std::vector<float> x(5 * d);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 13);
    std::vector<float> y(5);
    std::vector<uint8_t> fault(5);
    PackedArgs args;
    args.Add(x.data());
    args.Add(y.data());
    args.Axes({5, d}, 0);
    EXPECT_EQ(RunPart(kernel, args, {0, 0}, 5, fault.data()), d == 0 ? 5 : 0);
    for (int64_t r = 0; r < 5; ++r) {
      EXPECT_EQ(y[r], std::accumulate(x.begin() + r * d, x.begin() + (r + 1) * d, 0.0f)) << d;
    }
  }
}

TEST_P(SdkTest, FailedTasksLeaveAReductionUntouched) {
  const TandemKernelV1& kernel = Kernel("summary");
  EXPECT_EQ(kernel.flags, uint32_t{TANDEM_WHOLE_LEAF});
  const float inf = std::numeric_limits<float>::infinity();
  std::vector<float> x(100);
  for (int i = 0; i < 100; ++i) x[i] = static_cast<float>(i - 50);
  x[3] = inf;
  x[70] = std::numeric_limits<float>::quiet_NaN();
  std::vector<uint8_t> fault(100);
  PackedArgs args;
  args.Add(x.data());
  args.Axes({100}, 0);
  const AlignedBytes p = MakePartial(kernel, args, 100);
  EXPECT_EQ(RunPart(kernel, args, {0, 0}, 100, fault.data(), p.data()), 2);
  EXPECT_EQ(*p.as<float>(0), -50);
  EXPECT_EQ(*p.as<float>(64), 49);
  EXPECT_EQ(*p.as<float>(128), -50 - (3 - 50) - (70 - 50));
  EXPECT_EQ(*p.as<int64_t>(192), 98);
  EXPECT_EQ(fault[3], 1);
  EXPECT_EQ(fault[70], 1);
  EXPECT_EQ(std::accumulate(fault.begin(), fault.end(), 0), 2);
}

TEST_P(SdkTest, NothingReducesToTheIdentity) {
  const TandemKernelV1& kernel = Kernel("summary");
  PackedArgs args;
  args.Add(static_cast<const float*>(nullptr));
  args.Axes({0}, 0);
  const AlignedBytes p = MakePartial(kernel, args, 0);
  RunPart(kernel, args, {0, 0}, 0, nullptr, p.data());
  EXPECT_EQ(*p.as<float>(0), std::numeric_limits<float>::infinity());
  EXPECT_EQ(*p.as<float>(64), -std::numeric_limits<float>::infinity());
  EXPECT_EQ(std::bit_cast<uint32_t>(*p.as<float>(128)), 0u);
}

// 32 lanes and a tree, computed here by the definition.
TEST_P(SdkTest, FloatSumsHaveThirtyTwoLanes) {
  const TandemKernelV1& kernel = Kernel("summary");
  std::mt19937 random(5);
  std::uniform_real_distribution<float> value(-1, 1);
  for (int n : {1, 5, 31, 32, 33, 64, 1000}) {
    std::vector<float> x(n), lane(32);
    for (int i = 0; i < n; ++i) lane[i % 32] += x[i] = value(random);
    for (int w = 16; w > 0; w /= 2) {
      for (int l = 0; l < w; ++l) lane[l] += lane[l + w];
    }
    std::vector<uint8_t> fault(n);
    PackedArgs args;
    args.Add(x.data());
    args.Axes({n}, 0);
    const AlignedBytes p = MakePartial(kernel, args, n);
    RunPart(kernel, args, {17, 0}, n, fault.data(), p.data());
    EXPECT_EQ(*p.as<float>(128), lane[0]) << n;
  }
}

TEST_P(SdkTest, MinimaAndMaximaOrderZerosAndIgnoreNan) {
  const TandemKernelV1& kernel = Kernel("summary");
  PackedArgs args;
  args.Add(static_cast<const float*>(nullptr));
  args.Axes({0}, 0);
  for (const bool swapped : {false, true}) {
    AlignedBytes a = MakePartial(kernel, args, 0), b = MakePartial(kernel, args, 0);
    auto at = [](const AlignedBytes& p, int64_t offset) {
      return reinterpret_cast<float*>(p.data() + offset);
    };
    *at(a, 0) = *at(a, 64) = swapped ? 0.0f : -0.0f;
    *at(b, 0) = *at(b, 64) = swapped ? -0.0f : 0.0f;
    kernel.merge(args.data(), a.data(), 1, b.data(), 1);
    EXPECT_TRUE(std::signbit(*at(a, 0)));
    EXPECT_FALSE(std::signbit(*at(a, 64)));
    *at(b, 0) = *at(b, 64) = std::numeric_limits<float>::quiet_NaN();
    kernel.merge(args.data(), a.data(), 1, b.data(), 1);
    EXPECT_EQ(*at(a, 0), 0);
  }
}

TEST_P(SdkTest, SizesOfPartialsFollowFromTheArguments) {
  const TandemKernelV1& kernel = Kernel("pairs");
  const int32_t lag = 2, m = 11;
  const uint8_t x[] = {1, 2, 3, 4, 5, 6, 7};
  std::vector<int32_t> weight(m);
  std::iota(weight.begin(), weight.end(), -3);
  PackedArgs args;
  args.Add(lag);
  args.Add(+x);
  args.Add(weight.data());
  args.Axes({5, m}, 0);
  ASSERT_EQ(kernel.partial_bytes(args.data(), 5),
            192 + 4 * m);  // 2 * 12 * 8 = 192, aligned as it is
  const AlignedBytes p = MakePartial(kernel, args, 5);
  RunPart(kernel, args, {0, 0}, 2, nullptr, p.data());
  RunPart(kernel, args, {2, 2}, 3, nullptr, p.data());
  int64_t sum = 0;
  int32_t top = 0;
  for (int i = 0; i < 5; ++i) {
    sum += x[i] * 256 + x[i + lag];
    top = std::max(top, x[i] * 256 + x[i + lag]);
  }
  for (int j = 0; j < m; ++j) {
    EXPECT_EQ(p.as<int64_t>()[2 * j], sum * weight[j]);
    EXPECT_EQ(p.as<int64_t>()[2 * j + 1], 0);
    EXPECT_EQ(p.as<int32_t>(192)[j], weight[j] >= 0 ? top * weight[j] : weight[j] * (1 * 256 + 3));
  }
  EXPECT_EQ(p.as<int64_t>()[2 * m + 1], 5);
}

TEST_P(SdkTest, PartsOfDifferentScalarsInOneCallEqualSeparateCalls) {
  const TandemKernelV1& saxpy = FindKernel(Builtin(), "saxpy");
  constexpr int kParts = 50;
  std::vector<std::vector<float>> x(kParts), together(kParts), apart(kParts);
  std::vector<PackedArgs> args(kParts);
  std::vector<TandemPart> parts;
  for (int i = 0; i < kParts; ++i) {
    const int64_t n = i * 7 % 20;
    x[i].assign(n, static_cast<float>(i));
    together[i].assign(n, -1);
    apart[i].assign(n, -1);
    for (auto* out : {&apart[i], &together[i]}) {
      args[i] = PackedArgs();
      args[i].Add(static_cast<float>(i) / 8);
      args[i].Add(x[i].data());
      args[i].Add(x[i].data());
      args[i].Add(out->data());
      args[i].Axes({n}, 0);
      if (out == &apart[i]) RunPart(saxpy, args[i], {i, 0}, n);
    }
    parts.push_back({args[i].data(), {i, 0}, n, nullptr, nullptr});
  }
  EXPECT_EQ(saxpy.range(parts.data(), kParts, nullptr), 0);
  EXPECT_EQ(together, apart);
  EXPECT_EQ(together[1][0], 1 + 1.0f / 8);
}

TEST_P(SdkTest, HalfPrecisionIsExactOneWayAndRoundsTheOther) {
  std::vector<uint16_t> all(65536), a(65536), b(65536);
  std::iota(all.begin(), all.end(), 0);
  std::vector<float> c(65536);
  PackedArgs args;
  args.Add(all.data());
  args.Add(all.data());
  args.Add(a.data());
  args.Add(b.data());
  args.Add(c.data());
  args.Axes({65536}, 0);
  RunPart(Kernel("halve"), args, {0, 0}, 65536);
  for (int i = 0; i < 65536; ++i) {
    const int exponent = i >> 10 & 31, mantissa = i & 1023;
    if (exponent == 31 && mantissa != 0) {
      EXPECT_EQ(a[i], 0x7e00) << "the canonical NaN";
    } else {
      EXPECT_EQ(a[i], i);
      const float magnitude = exponent == 31 ? std::numeric_limits<float>::infinity()
                              : exponent == 0
                                  ? std::ldexp(static_cast<float>(mantissa), -24)
                                  : std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25);
      EXPECT_EQ(c[i], i & 0x8000 ? -magnitude : magnitude);
    }
    const bool bf16_nan = (i & 0x7f80) == 0x7f80 && (i & 0x7f) != 0;
    EXPECT_EQ(b[i], bf16_nan ? 0x7fc0 : i);
  }
}

// The nearest of all f16 (bf16) values, ties to the one that ends in 0.
TEST_P(SdkTest, NarrowingRoundsToNearestEven) {
  std::mt19937 random(11);
  std::vector<float> x{65519.996f, 65520, 6.1e-5f,  2.98e-8f, 5.9604645e-8f, 1e-9f, 0,
                       -0.0f,      65504, 3.39e38f, 1,        1e30f};
  for (int i = 0; i < 100000; ++i)
    x.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
  for (int i = 0; i < 100000; ++i) {  // where f16 lives, ties among them
    x.push_back(
        std::ldexp(static_cast<float>(random() % 8192 + 1), static_cast<int>(random() % 40) - 36));
  }
  std::erase_if(x, [](float v) { return std::isnan(v); });
  std::vector<uint16_t> a(x.size()), b(x.size());
  PackedArgs args;
  args.Add(x.data());
  args.Add(a.data());
  args.Add(b.data());
  args.Axes({static_cast<int64_t>(x.size())}, 0);
  RunPart(Kernel("narrow"), args, {0, 0}, x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(a[i] >> 15 != 0, std::signbit(x[i]));
    const double magnitude = std::fabs(static_cast<double>(x[i]));
    // Spacing 2^-24 below 2^-14, then ten bits after the leading one; nearbyint rounds ties to
    // even.
    const double ulp =
        std::ldexp(1.0, std::max(magnitude > 0 ? std::ilogb(magnitude) : -99, -14) - 10);
    const double rounded = std::nearbyint(magnitude / ulp) * ulp;
    const uint16_t bits =
        rounded > 65504 ? 0x7c00
        : rounded < std::ldexp(1, -14)
            ? static_cast<uint16_t>(std::ldexp(rounded, 24))
            : static_cast<uint16_t>((std::ilogb(rounded) + 15) * 1024 +
                                    std::ldexp(rounded, 10 - std::ilogb(rounded)) - 1024);
    ASSERT_EQ(a[i] & 0x7fff, bits) << x[i];
    if (std::isinf(x[i])) continue;
    const float back = std::bit_cast<float>(uint32_t{b[i]} << 16);
    const double below =
        std::fabs(std::bit_cast<float>(std::bit_cast<uint32_t>(x[i]) & 0xffff0000u));
    const double step = std::ldexp(1.0, std::max(below > 0 ? std::ilogb(below) : -200, -126) - 7);
    if (magnitude < 3.3e38) {
      ASSERT_LE(std::fabs(std::fabs(static_cast<double>(back)) - magnitude), step / 2);
      const bool tie = std::fabs(std::fabs(static_cast<double>(back)) - magnitude) == step / 2;
      ASSERT_TRUE(!tie || (b[i] & 1) == 0) << x[i];
    }
  }
}

TEST_P(SdkTest, OwnMergeMergesRuns) {
  const TandemKernelV1& kernel = Kernel("insertion_sort");
  EXPECT_EQ(kernel.flags, uint32_t{TANDEM_OWN_MERGE | TANDEM_OWN_LAUNCHER});
  const std::vector<int32_t> key{5, -1, 7, 7, 0, 3, 2, -9, 4};
  PackedArgs args;
  args.Add(key.data());
  args.Axes({9}, 0);
  AlignedBytes left(kernel.partial_bytes(args.data(), 9)),
      right(kernel.partial_bytes(args.data(), 4));
  RunPart(kernel, args, {0, 0}, 5, nullptr, left.data());
  RunPart(kernel, args, {5, 5}, 4, nullptr, right.data());
  EXPECT_EQ(kernel.merge(args.data(), left.data(), 5, right.data(), 4), 0);
  EXPECT_THAT(std::vector<int32_t>(left.as<int32_t>(), left.as<int32_t>() + 9),
              ElementsAre(-9, -1, 0, 2, 3, 4, 5, 7, 7));
}

int32_t AppendTo(void* context, const void* bytes, int64_t size) {
  auto* text = static_cast<std::string*>(context);
  if (*text == "closed") return 1;
  text->append(static_cast<const char*>(bytes), size);
  return 0;
}

// Drives the stages of one task as a device does; `strips`: rows of cells a part. Returns the
// fault.
int RunStages(const TandemKernelV1& kernel, const PackedArgs& args, TandemTask task,
              int64_t strip) {
  alignas(16) uint8_t shape[64];
  EXPECT_LE(kernel.shape_bytes, sizeof(shape));
  TandemNeed need;
  if (int fault = kernel.measure(args.data(), task, shape, &need)) return fault;
  std::vector<uint8_t> in(need.in_bytes), out(need.out_bytes);
  const TandemStage stage{in.data(), out.data(), need.across, need.down};
  AlignedBytes work(kernel.work_bytes);
  if (int fault = kernel.prepare(args.data(), task, shape, &stage, work.data())) return fault;
  EXPECT_EQ(std::memcmp(work.data(), &stage, sizeof(stage)), 0) << "work begins with the stage";
  constexpr size_t kMembers = 32;  // of Upper's Args
  EXPECT_EQ(std::memcmp(work.data() + kernel.work_args_offset, args.data(), kMembers), 0);
  EXPECT_EQ(kernel.args_bytes, kMembers + 2 * sizeof(int64_t));
  for (int64_t row = 0; row < need.down; row += strip) {
    const TandemPart part{
        work.data(), {task.id, row}, std::min<int64_t>(strip, need.down - row), nullptr, nullptr};
    EXPECT_EQ(kernel.range(&part, 1, nullptr), 0);
  }
  return kernel.finish(args.data(), task, shape, work.data());
}

TEST_P(SdkTest, HostStagesStandAroundTheGridAndTasksFailAlone) {
  const TandemKernelV1& kernel = Kernel("upper");
  EXPECT_EQ(kernel.flags, uint32_t{TANDEM_HOST_STAGES});
  const std::vector<std::string> text{"", "hello, grid", "? no", "! no", "last", "refused"};
  std::vector<std::string> shouted(text.size());
  shouted[5] = "closed";
  std::vector<TandemBytes> bytes;
  std::vector<TandemSink> sinks;
  std::vector<int64_t> letters(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    bytes.push_back(
        {reinterpret_cast<const uint8_t*>(text[i].data()), static_cast<int64_t>(text[i].size())});
    sinks.push_back({&AppendTo, &shouted[i]});
  }
  PackedArgs args;
  args.Add(bytes.data());
  args.Add(int32_t{'A' - 'a'});
  args.Add(sinks.data());
  args.Add(letters.data());
  args.Axes({6}, 0);
  std::vector<int> fault;
  for (int64_t i = 0; i < 6; ++i) fault.push_back(RunStages(kernel, args, {i, i}, 1 + i % 3));
  EXPECT_THAT(fault, ElementsAre(1, 0, 2, 3, 0, int{TANDEM_FAULT_INTERNAL}));
  EXPECT_THAT(shouted, ElementsAre("", "HELLO, GRID", "", "", "LAST", "closed"));
  EXPECT_EQ(letters[1], 11);
  EXPECT_STREQ(kernel.faults[2], "cannot prepare");
}

TANDEM_FOR_EACH_ISA(SdkTest);

// kat_vectors of Random123 1.14: philox4x32, 10 rounds.
TEST(PhiloxTest, AgreesWithThePublishedVectors) {
  const auto words = [](Philox4 r) { return std::vector<uint32_t>{r.x, r.y, r.z, r.w}; };
  EXPECT_THAT(words(Philox4x32(0, 0, 0, 0, 0, 0)),
              ElementsAre(0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8));
  EXPECT_THAT(words(Philox4x32(~0u, ~0u, ~0u, ~0u, ~0u, ~0u)),
              ElementsAre(0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd));
  EXPECT_THAT(
      words(Philox4x32(0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0)),
      ElementsAre(0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1));
  EXPECT_THAT(kernels::PhiloxReference({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                                       {0xa4093822, 0x299f31d0}),
              ElementsAre(0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1));
}

TEST(PhiloxTest, UniformNumbersStayInsideTheInterval) {
  EXPECT_GT(Uniform(0), 0);
  EXPECT_LT(Uniform(~0u), 1);
  EXPECT_GT(UniformDouble(0, 0), 0);
  EXPECT_LT(UniformDouble(~0u, ~0u), 1);
  EXPECT_EQ(Uniform(0x80000000u), 0.5f + 0x1p-24f);
}

}  // namespace
}  // namespace tandem
