#include "common/model/extent.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/model/signature.h"

namespace tandem {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

// The one extent of an operand, over axes a (0), b (1), c (2) and the scalar s.
Extent ParseExtent(const std::string& text) {
  const absl::StatusOr<Signature> signature =
      Signature::Parse("axis a, axis b, axis c, s:i64, x[" + text + "]:u8 ->");
  EXPECT_TRUE(signature.ok()) << text << ": " << signature.status();
  return signature->operands()[0].dims[0];
}

int64_t Evaluate(const std::string& text, std::vector<int64_t> axes, int64_t s) {
  const std::vector<int64_t> scalars = {s};
  return *ParseExtent(text).Evaluate({axes, scalars});
}

TEST(ExtentTest, EvaluatesWithTheUsualPrecedence) {
  EXPECT_EQ(Evaluate("2 + 3 * 4", {0, 0, 0}, 0), 14);
  EXPECT_EQ(Evaluate("(2 + 3) * 4", {0, 0, 0}, 0), 20);
  EXPECT_EQ(Evaluate("10 - 3 - 2", {0, 0, 0}, 0), 5);
  EXPECT_EQ(Evaluate("2^3^2", {0, 0, 0}, 0), 512);
  EXPECT_EQ(Evaluate("3 * 2^4", {0, 0, 0}, 0), 48);
  EXPECT_EQ(Evaluate("4^s", {0, 0, 0}, 11), 4194304);
  EXPECT_EQ(Evaluate("a + s - 1", {100, 0, 0}, 5), 104);
  EXPECT_EQ(Evaluate("a * b - c", {7, 6, 2}, 0), 40);
}

TEST(ExtentTest, OverflowIsAnError) {
  const std::vector<int64_t> axes = {kMax, 2, 64};
  const std::vector<int64_t> scalars = {-1};
  for (const char* text : {"a + 1", "a * b", "b^c", "2^s", "(0 - a) - b"}) {
    EXPECT_EQ(ReasonOf(ParseExtent(text).Evaluate({axes, scalars}).status()), reason::kTooLarge)
        << text;
  }
}

TEST(ExtentTest, KnowsItsFormInAnAxis) {
  struct Case {
    const char* text;
    bool linear;
    bool multiple;
  };
  for (const Case& c : std::initializer_list<Case>{{"a", true, true},
                                                   {"a + s - 1", true, false},
                                                   {"2 * a", true, true},
                                                   {"a * (b + 1)", true, true},
                                                   {"a * b + a", true, true},
                                                   {"a * b + b", true, false},
                                                   {"(a + 1) * b", true, false},
                                                   {"b", true, false},
                                                   {"a * a", false, false},
                                                   {"2^a", false, false},
                                                   {"a^2", false, false},
                                                   {"a * b * a", false, false}}) {
    EXPECT_EQ(ParseExtent(c.text).LinearIn(0), c.linear) << c.text;
    EXPECT_EQ(ParseExtent(c.text).MultipleOf(0), c.multiple) << c.text;
  }
}

TEST(ExtentTest, LinearFormAgreesWithEvaluation) {
  for (const char* text : {"a", "a + s - 1", "3 * a + 2", "(a + b) * c", "a * b - a + 4^2"}) {
    const Extent extent = ParseExtent(text);
    std::vector<int64_t> axes = {0, 5, 7};
    const std::vector<int64_t> scalars = {3};
    const LinearForm form = *extent.EvaluateLinear(0, {axes, scalars});
    for (const int64_t a : {0, 1, 10, 1000}) {
      axes[0] = a;
      EXPECT_EQ(*extent.Evaluate({axes, scalars}), form.constant + form.coefficient * a) << text;
    }
  }
}

TEST(ExtentTest, TextHasOnlyTheParenthesesItNeeds) {
  const std::vector<std::string> axes = {"a", "b", "c"};
  const std::vector<std::string> scalars = {"s"};
  EXPECT_EQ(ParseExtent("((a)) + ((b*c))").ToString(axes, scalars), "a + b * c");
  EXPECT_EQ(ParseExtent("(a+b)*c").ToString(axes, scalars), "(a + b) * c");
  EXPECT_EQ(ParseExtent("a-(b-c)").ToString(axes, scalars), "a - (b - c)");
  EXPECT_EQ(ParseExtent("(a-b)-c").ToString(axes, scalars), "a - b - c");
  EXPECT_EQ(ParseExtent("(2^3)^s").ToString(axes, scalars), "(2^3)^s");
  EXPECT_EQ(ParseExtent("2^(3^s)").ToString(axes, scalars), "2^3^s");
}

}  // namespace
}  // namespace tandem
