#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/model/signature.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<std::vector<int64_t>> Infer(const std::string& text, std::vector<Shape> shapes,
                                           std::vector<int64_t> scalars = {},
                                           std::vector<int64_t> given = {}) {
  const absl::StatusOr<Signature> s = Signature::Parse(text);
  EXPECT_TRUE(s.ok()) << s.status();
  given.resize(s->axes().size(), kUnknownExtent);
  return s->InferAxes(shapes, scalars, given);
}

std::string ReasonFor(const std::string& text, std::vector<Shape> shapes,
                      std::vector<int64_t> scalars = {}, std::vector<int64_t> given = {}) {
  return ReasonOf(Infer(text, std::move(shapes), std::move(scalars), std::move(given)).status());
}

TEST(InferAxesTest, SolvesPlainAxesAndWindows) {
  EXPECT_THAT(*Infer("x[n,k]:f32, w[m,k]:f32 -> y[n,m]:f32", {{10, 3}, {7, 3}}),
              ElementsAre(10, 3, 7));
  EXPECT_THAT(*Infer("base[n + k - 1]:u8, k:i32 -> c[4^k]:u32 : sum", {{100}}, {11}),
              ElementsAre(90));
  EXPECT_THAT(*Infer("p[2 * n + 1]:u8 -> y[n]:u8", {{21}}), ElementsAre(10));
}

TEST(InferAxesTest, SolvesInWhateverOrderTheShapesAllow) {
  // w is known only from the second operand.
  EXPECT_THAT(*Infer("x[n + w - 1]:f32, f[w]:f32 -> y[n]:f32", {{100}, {5}}), ElementsAre(96, 5));
  EXPECT_THAT(*Infer("flat[n * d]:f32, w[d]:f32 -> y[n]:f32", {{24}, {4}}), ElementsAre(6, 4));
  EXPECT_THAT(*Infer("axis n, flat[n * d]:f32 -> y[n]:f32", {{24}}, {}, {8}), ElementsAre(8, 3));
}

TEST(InferAxesTest, DisagreementNamesOperandDimensionAndBothExtents) {
  const absl::Status status =
      Infer("spot[n]:f32, strike[n]:f32 -> call[n]:f32", {{7}, {5}}).status();
  EXPECT_EQ(ReasonOf(status), reason::kShapeMismatch);
  EXPECT_EQ(FieldOf(status), "operands.strike.shape");
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("operand strike, dimension 0 (n) has 5 elements, expected 7, as n = 7 "
                        "(from operand spot)"));
}

TEST(InferAxesTest, EveryDimensionIsChecked) {
  EXPECT_EQ(ReasonFor("x[n, 3]:f32 -> y[n]:f32", {{5, 4}}), reason::kShapeMismatch);
  EXPECT_EQ(ReasonFor("x[n, 2^k]:f32, k:i32 -> y[n]:f32", {{5, 16}}, {4}), "");
  EXPECT_EQ(ReasonFor("x[n, 2^k]:f32, k:i32 -> y[n]:f32", {{5, 15}}, {4}), reason::kShapeMismatch);
  EXPECT_EQ(ReasonFor("x[n]:f32 -> y[n]:f32", {{5, 4}}), reason::kShapeMismatch);
  EXPECT_EQ(ReasonFor("p[2 * n]:f32 -> y[n]:f32", {{5}}), reason::kShapeMismatch);
  EXPECT_EQ(ReasonFor("axis n, x[n]:f32 -> y[n]:f32", {{5}}, {}, {6}), reason::kShapeMismatch);
}

TEST(InferAxesTest, ARestThatIsNoWholeTaskIsNamed) {
  EXPECT_THAT(std::string(Infer("p[3 * n + 1]:f32 -> y[n]:f32", {{6}}).status().message()),
              HasSubstr("has 6 elements, which is not 3 for each task and 1"));
}

TEST(InferAxesTest, AnAxisThatNothingBindsMustBeGiven) {
  const std::string pi = "axis n, seed:u64 = 0 -> hits:u64 : sum";
  const absl::Status status = Infer(pi, {}, {0}).status();
  EXPECT_EQ(ReasonOf(status), reason::kMissingAxisExtent);
  EXPECT_EQ(FieldOf(status), "axis_extents.n");
  EXPECT_THAT(*Infer(pi, {}, {0}, {1'000'000'000'000'000'000}),
              ElementsAre(1'000'000'000'000'000'000));
}

TEST(InferAxesTest, LessThanOneWindowIsNoTask) {
  const std::string kmer = "base[n + k - 1]:u8, k:i32 -> c[4^k]:u32 : sum";
  EXPECT_THAT(*Infer(kmer, {{11}}, {11}), ElementsAre(1));
  EXPECT_THAT(*Infer(kmer, {{10}}, {11}), ElementsAre(0));
  EXPECT_THAT(*Infer(kmer, {{3}}, {11}), ElementsAre(0));
  EXPECT_THAT(*Infer(kmer, {{0}}, {11}), ElementsAre(0));
  // Another operand that says otherwise is a disagreement.
  EXPECT_EQ(ReasonFor("base[n + 10]:u8, q[n]:u8 -> y[n]:u8", {{5}, {3}}), reason::kShapeMismatch);
}

TEST(InferAxesTest, AWindowShorterThanATaskIsRefused) {
  EXPECT_EQ(ReasonFor("base[n + k - 1]:u8, k:i32 -> c:u32 : sum", {{100}}, {0}),
            reason::kShapeMismatch);
}

TEST(InferAxesTest, OverflowIsAnError) {
  EXPECT_EQ(ReasonFor("x[n]:u8, y[n * n]:u8 -> z[n]:u8", {{int64_t{1} << 40}, {5}}),
            reason::kTooLarge);
}

TEST(OutputSpecTest, ComputesShapes) {
  const Signature s = *Signature::Parse("base[n + k - 1]:u8, k:i32 -> count[4^k]:u32 : sum");
  const std::vector<int64_t> axes = {100};
  std::vector<int64_t> scalars = {11};
  EXPECT_EQ(s.OutputSpec(0, {axes, scalars})->ToString(), "u32[4194304]");
  scalars[0] = 40;
  EXPECT_EQ(ReasonOf(s.OutputSpec(0, {axes, scalars}).status()), reason::kTooLarge);
  const Signature negative = *Signature::Parse("x[n]:u8 -> y[n - 5]:u8 : merge");
  const std::vector<int64_t> three = {3};
  EXPECT_EQ(ReasonOf(negative.OutputSpec(0, {three, {}}).status()), reason::kShapeMismatch);
}

}  // namespace
}  // namespace tandem
