#include "common/model/signature.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/base/rng.h"
#include "common/base/strings.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Signature Parse(const std::string& text) {
  absl::StatusOr<Signature> signature = Signature::Parse(text);
  EXPECT_TRUE(signature.ok()) << text << "\n" << signature.status();
  return *std::move(signature);
}

TEST(SignatureTest, ReadsAMap) {
  const Signature s = Parse(
      "spot[n]:f32, strike[n]:f32, rate:f32 = 0.05, volatility:f32 -> call[n]:f32, put[n]:f32");
  ASSERT_EQ(s.operands().size(), 2u);
  EXPECT_EQ(s.operands()[1].name, "strike");
  EXPECT_EQ(s.operands()[1].dtype, DType::kF32);
  ASSERT_EQ(s.scalars().size(), 2u);
  EXPECT_EQ(s.scalars()[0].default_value->ToString(), "0.05");
  EXPECT_FALSE(s.scalars()[1].default_value.has_value());
  ASSERT_EQ(s.outputs().size(), 2u);
  EXPECT_EQ(s.outputs()[1].reduction, Reduction::kNone);
  EXPECT_THAT(s.axes(), ElementsAre("n"));
  EXPECT_THAT(s.task_axes(), ElementsAre(0));
  ASSERT_EQ(s.inputs().size(), 4u);
  EXPECT_EQ(s.inputs()[2], (Signature::Input{Signature::InputKind::kScalar, 0}));
}

TEST(SignatureTest, ReadsWindowsBoundsAndReductions) {
  const Signature s =
      Parse("base[n + k - 1]:u8, k:i32 = 11 in [1, 15] -> count[4^k]:u32 : sum, top:u32 : max");
  EXPECT_EQ(s.scalars()[0].lo->AsInt64(), 1);
  EXPECT_EQ(s.scalars()[0].hi->AsInt64(), 15);
  EXPECT_EQ(s.outputs()[0].reduction, Reduction::kSum);
  EXPECT_EQ(s.outputs()[1].reduction, Reduction::kMax);
  EXPECT_TRUE(s.outputs()[1].dims.empty());
  EXPECT_THAT(s.axes(), ElementsAre("n"));  // k is a scalar, though used before it is declared.
  EXPECT_EQ(s.ExtentToString(s.operands()[0].dims[0]), "n + k - 1");
}

TEST(SignatureTest, DeclaredAxesAreTheTaskAxes) {
  const Signature s = Parse("x[k,n]:f32, axis n, axis m, w[m,k]:f32 -> y[n,m]:f32");
  EXPECT_THAT(s.axes(), ElementsAre("k", "n", "m"));
  EXPECT_THAT(s.task_axes(), ElementsAre(1, 2));
  EXPECT_TRUE(s.Bound(0));
  const Signature pi = Parse("axis n, seed:u64 = 0 -> hits:u64 : sum");
  EXPECT_FALSE(pi.Bound(0));
  EXPECT_THAT(pi.task_axes(), ElementsAre(0));
}

TEST(SignatureTest, AnInputMayBeCalledAxis) {
  EXPECT_EQ(Parse("axis[n]:f32 -> y[n]:f32").operands()[0].name, "axis");
  EXPECT_EQ(Parse("axis:f32, x[n]:f32 -> y[n]:f32").scalars()[0].name, "axis");
}

TEST(SignatureTest, ATextIsRefusedWhoseCanonicalFormIsTooLong) {
  std::string text = "axis n->";  // without the blanks that the canonical form has
  while (text.size() + 20 < Signature::kTextBytesMax) {
    text += StrCat("y", text.size(), "[n]:u8,");
  }
  text.pop_back();
  const auto parsed = Signature::Parse(text);
  EXPECT_EQ(ReasonOf(parsed.status()), reason::kBadSignature);
}

TEST(SignatureTest, CanonicalTextReadsBackToAnEqualSignature) {
  for (const char* text :
       {"spot[n]:f32,strike[n]:f32,rate:f32=0.05->call[n]:f32,put[n]:f32",
        "base[ n+k-1 ]:u8, k:i32=11 in[1,15] -> count[4^k]:u32:sum",
        "value[n]:u8->count[256]:u32:sum",
        "x[n,d]:f32, label[n]:f32, w[d]:f32 -> grad[d]:f32 : sum, loss:f32 : sum",
        "image[n]:bytes -> edges[n]:bytes", "key[n]:u32 -> sorted[n]:u32 : merge",
        "axis n, seed:u64 = 0 -> hits:u64 : sum", "x[k,n]:f32,axis n,axis m,w[m,k]:f32->y[n,m]:f32",
        "axis n ->", "->", "x[n]:bool, axis q -> y[q]:bool : min",
        "a:f64 = -inf in [-inf, inf], b:i8 = -3 in [-128, 127], c:bool = true, x[n]:u8 ->"}) {
    const Signature s = Parse(text);
    const std::string canonical = s.ToString();
    EXPECT_EQ(Parse(canonical), s) << canonical;
    EXPECT_EQ(Parse(canonical).ToString(), canonical);
  }
  EXPECT_EQ(Parse("base[n+k-1]:u8,k:i32=11 in[1,15]->count[4^k]:u32:sum").ToString(),
            "base[n + k - 1]:u8, k:i32 = 11 in [1, 15] -> count[4^k]:u32 : sum");
}

struct BadCase {
  const char* text;
  int column;
  const char* expected;
};

TEST(SignatureTest, ErrorsNameTheColumnAndWhatWasExpected) {
  for (const BadCase& c : std::initializer_list<BadCase>{
           {"spot[n]:f31 -> y[n]:f32", 9, "expected a dtype (bool, u8"},
           {"spot[n] -> y[n]:f32", 9, "expected \":\" and a dtype"},
           {"spot -> y[n]:f32", 6, "expected \"[\" for an operand or \":\" for a scalar"},
           {"spot[n:f32 -> y[n]:f32", 7, "expected \",\", \"]\" or an operator"},
           {"spot[]:f32 -> y[n]:f32", 6, "expected an axis, a scalar or a whole number"},
           {"spot[n +]:f32 -> y[n]:f32", 9, "expected an axis, a scalar or a whole number"},
           {"spot[(n]:f32 -> y[n]:f32", 8, "expected \")\""},
           {"spot[1.5]:f32 -> y:f32 : sum", 6, "expected a whole number below 2^63"},
           {"spot[9223372036854775808]:f32 -> y:f32 : sum", 6, "a whole number below 2^63"},
           {"spot[2^70]:f32 -> y:f32 : sum", 6, "expected an extent from 0 to 2^63 - 1"},
           {"spot[3 - 5]:f32 -> y:f32 : sum", 6, "expected an extent from 0"},
           {"spot[n]:f32", 12, "expected \",\" or \"->\", found the end"},
           {"spot[n]:f32, -> y[n]:f32", 14, "expected the name of an operand"},
           {"spot[n]:f32 -> y[n]:f32 : add", 27, "expected a reduction (sum, min, max or merge)"},
           {"spot[n]:f32 -> y[n]:f32 z", 25, "expected \",\" or the end"},
           {"spot[n]:f32 -> spot[n]:f32", 16, "expected a name that is not taken"},
           {"a[n]:f32, a[n]:f32 -> y[n]:f32", 11, "expected a name that is not taken"},
           {"x[n]:f32 = 3 -> y[n]:f32", 10, "only a scalar has a default"},
           {"x[n]:f32, k:i32 = 1.5 -> y[n]:f32", 19, "expected a default value"},
           {"x[n]:f32, k:i32 = -> y[n]:f32", 19, "expected a default value"},
           {"x[n]:f32, k:u8 = 300 -> y[n]:f32", 18, "whole number from 0 to 255"},
           {"x[n]:f32, k:i32 in [5, 1] -> y[n]:f32", 17, "a lower bound that is not above"},
           {"x[n]:f32, k:i32 = 9 in [1, 5] -> y[n]:f32", 17, "a default within the bounds"},
           {"x[n]:f32, k:i32 in 5 -> y[n]:f32", 20, "\"[\" and the bounds"},
           {"x[n]:f32, r:f32 -> y[n * r]:f32", 26, "an integer scalar, found r"},
           {"x[n]:f32 -> y[x]:f32", 15, "an axis or a scalar, found the operand"},
           {"x[n]:f32 -> y[m]:f32", 15, "declare it with \"axis m\""},
           {"x[4^m]:u32 -> y[m]:f32", 5, "declare it with \"axis m\""},
           {"axis n, axis n, x[n]:u8 ->", 14, "declared already"},
           {"axis k, k:i32, x[n]:u8 ->", 6, "declared already"},
           {"s:bytes, x[n]:u8 ->", 1, "as in s[n]:bytes"},
           {"x[n,m]:bytes ->", 1, "expected one plain axis"},
           {"x[n+1]:bytes ->", 1, "expected one plain axis"},
           {"x[n]:u8 -> y:bytes", 12, "expected one plain axis"},
           {"x[n]:bytes -> y[n]:bytes : merge", 26, "no reduction on an output of bytes"},
           {"x[n]:bool -> y:bool : sum", 21, "a sum of bool is not a bool"},
           {"x[n]:u8 -> y[n]:u8; z", 19, "found \";\""},
           {"", 1, "expected the name of an operand"}}) {
    const absl::StatusOr<Signature> s = Signature::Parse(c.text);
    ASSERT_FALSE(s.ok()) << c.text;
    EXPECT_EQ(ReasonOf(s.status()), reason::kBadSignature);
    const std::string message(s.status().message());
    EXPECT_THAT(message, HasSubstr("column " + std::to_string(c.column) + ": ")) << c.text;
    EXPECT_THAT(message, HasSubstr(c.expected)) << c.text;
  }
}

TEST(SignatureTest, DeepAndLongTextsAreRefusedNotFollowed) {
  const std::string deep = "x[" + std::string(1000, '(') + "n" + std::string(1000, ')') + "]:u8 ->";
  EXPECT_FALSE(Signature::Parse(deep).ok());
  std::string power = "x[n";
  for (int i = 0; i < 1000; ++i) power += "^2";
  EXPECT_FALSE(Signature::Parse(power + "]:u8 ->").ok());
  EXPECT_FALSE(Signature::Parse(std::string(10'000, 'a') + "[n]:u8 ->").ok());
}

TEST(SignatureTest, NoTextCrashesTheParser) {
  const std::string alphabet = "xnk[](),:=+-*^ ->019.axisinf32u8sumbytes;\"\x80\n";
  Rng rng(42);
  int accepted = 0;
  std::string seed = "axis n, base[n + k - 1]:u8, k:i32 = 11 in [1, 15] -> count[4^k]:u32 : sum";
  for (int i = 0; i < 20'000; ++i) {
    std::string text = seed;
    for (uint64_t edits = 1 + rng.Below(4); edits > 0; --edits) {
      const size_t at = rng.Below(text.size());
      const char c = alphabet[rng.Below(alphabet.size())];
      switch (rng.Below(3)) {
        case 0:
          text[at] = c;
          break;
        case 1:
          text.insert(at, 1, c);
          break;
        default:
          text.erase(at, 1 + rng.Below(6));
          if (text.empty()) text = "x";
      }
    }
    const absl::StatusOr<Signature> s = Signature::Parse(text);
    if (!s.ok()) continue;
    ++accepted;
    const absl::StatusOr<Signature> again = Signature::Parse(s->ToString());
    ASSERT_TRUE(again.ok()) << text << "\n" << s->ToString() << "\n" << again.status();
    ASSERT_EQ(*again, *s) << text;
  }
  EXPECT_GT(accepted, 100);
}

TEST(CheckSplittableTest, SaysWhyAnAxisCannotBeSplit) {
  struct Case {
    const char* text;
    const char* axis;
    const char* why;  // "" when it can be.
  };
  for (const Case& c : std::initializer_list<Case>{
           {"x[n,k]:f32 -> y[n]:f32", "n", ""},
           {"x[n,k]:f32 -> y[n]:f32", "k", "output y does not have it and names no reduction"},
           {"x[n,n]:f32 -> y[n]:f32", "n", "operand x has it in two dimensions"},
           {"x[n]:f32 -> y[n,n]:f32", "n", "output y has it in two dimensions"},
           {"axis n, x[n*n]:f32 -> y[n]:f32", "n", "not linear in it"},
           {"axis n, x[2^n]:f32 -> y[n]:f32", "n", "not linear in it"},
           {"x[n]:f32 -> y[n + 1]:f32", "n", "not a multiple of it"},
           {"x[n]:f32 -> y[2 * n]:f32", "n", ""},
           {"x[n]:f32, w[d]:f32 -> g[d]:f32 : sum", "d", "the kernel's tasks run along n"},
           {"axis n, axis m, x[n,k]:f32, w[m,k]:f32 -> y[n,m]:f32", "m", ""},
           {"key[n]:u32 -> sorted[n]:u32 : merge", "n", ""},
           {"x[n]:f32 -> y[4^n]:f32 : sum", "n", "not a multiple of it"}}) {
    const Signature s = Parse(c.text);
    const absl::Status status = s.CheckSplittable(s.FindAxis(c.axis));
    if (*c.why == '\0') {
      EXPECT_TRUE(status.ok()) << c.text << status;
    } else {
      EXPECT_EQ(ReasonOf(status), reason::kAxisNotSplittable) << c.text;
      EXPECT_THAT(std::string(status.message()), HasSubstr(c.why)) << c.text;
    }
  }
}

}  // namespace
}  // namespace tandem
