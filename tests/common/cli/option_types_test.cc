#include "common/cli/option_types.h"

#include <gtest/gtest.h>

#include "common/base/error.h"

namespace tandem::cli {
namespace {

std::string Refusal(const CLI::Validator& check, const std::string& text) { return check(text); }

TEST(CountTest, TakesPlainDigitsWithinBounds) {
  EXPECT_EQ(Refusal(Count(1, 10), "1"), "");
  EXPECT_EQ(Refusal(Count(1, 10), "10"), "");
  EXPECT_EQ(Refusal(Count(0), "18446744073709551615"), "");
}

TEST(CountTest, RefusesEverythingElseWithItsBounds) {
  for (const char* text : {"0", "11", "-1", "+1", "1.0", "0x5", " 1", "1 ", "", "one"}) {
    EXPECT_NE(Refusal(Count(1, 10), text).find("is no whole number from 1 to 10"),
              std::string::npos)
        << text;
  }
  EXPECT_NE(Refusal(Count(1), "18446744073709551616").find("of at least 1"), std::string::npos);
}

TEST(IntegerTest, TakesASign) {
  EXPECT_EQ(Refusal(Integer(-5, 5), "-5"), "");
  EXPECT_NE(Refusal(Integer(-5, 5), "-6").find("from -5 to 5"), std::string::npos);
  EXPECT_NE(Refusal(Integer(-5, 5), "+5"), "");
}

TEST(OneOfTest, SuggestsTheNearest) {
  const CLI::Validator check = OneOf({"auto", "cpu", "gpu"});
  EXPECT_EQ(Refusal(check, "cpu"), "");
  EXPECT_EQ(Refusal(check, "gpuu"), "\"gpuu\" is none of auto, cpu, gpu; did you mean gpu?");
  EXPECT_EQ(Refusal(check, "quantum"), "\"quantum\" is none of auto, cpu, gpu");
  EXPECT_EQ(check.get_description(), "auto|cpu|gpu");
}

TEST(OneOfTest, SuggestsTheSameWordInAnotherCase) {
  const CLI::Validator check = OneOf({"PENDING", "RUNNING"});
  EXPECT_EQ(Refusal(check, "running"),
            "\"running\" is none of PENDING, RUNNING; did you mean RUNNING?");
}

TEST(OneOfTest, IsAStatusToo) {
  EXPECT_TRUE(CheckOneOf("output", "json", {"json"}).ok());
  const absl::Status refused = CheckOneOf("output", "jso", {"json"});
  EXPECT_EQ(ReasonOf(refused), "BAD_ARGUMENT");
  EXPECT_EQ(std::string(refused.message()), "output: \"jso\" is none of json; did you mean json?");
}

}  // namespace
}  // namespace tandem::cli
