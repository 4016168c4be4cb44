#include "common/base/error.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace tandem {
namespace {

TEST(ErrorTest, CarriesReasonAndField) {
  absl::Status status = InvalidError(reason::kShapeMismatch, "no");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReasonOf(status), "SHAPE_MISMATCH");
  EXPECT_EQ(FieldOf(status), "");
  status = WithField(WithField(status, "shape"), "operands.spot");
  EXPECT_EQ(FieldOf(status), "operands.spot.shape");
}

TEST(ErrorTest, ContextKeepsCodeAndPayloads) {
  const absl::Status status = WithContext(
      WithField(Error(absl::StatusCode::kNotFound, reason::kJobNotFound, "none"), "id"), "job 7");
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(std::string(status.message()), "job 7: none");
  EXPECT_EQ(ReasonOf(status), "JOB_NOT_FOUND");
  EXPECT_EQ(FieldOf(status), "id");
}

TEST(ErrorTest, OkHasNeither) {
  EXPECT_TRUE(WithField(absl::OkStatus(), "x").ok());
  EXPECT_TRUE(WithContext(absl::OkStatus(), "x").ok());
  EXPECT_EQ(ReasonOf(absl::OkStatus()), "");
  EXPECT_EQ(ReasonOf(absl::InternalError("plain")), "");
}

TEST(ReasonTest, TokensAreUniqueUpperCaseWords) {
  std::set<std::string_view> seen;
  for (const std::string_view token : reason::kAll) {
    EXPECT_TRUE(seen.insert(token).second) << token;
    EXPECT_FALSE(token.empty());
    for (const char c : token) EXPECT_TRUE((c >= 'A' && c <= 'Z') || c == '_') << token;
  }
}

absl::StatusOr<int> Half(int x) {
  if (x % 2 != 0) return InvalidError(reason::kBadArgument, "odd");
  return x / 2;
}
absl::StatusOr<int> Quarter(int x) {
  ASSIGN_OR_RETURN(const int half, Half(x));
  int quarter = -1;
  ASSIGN_OR_RETURN(quarter, Half(half));
  RETURN_IF_ERROR(absl::OkStatus());
  return quarter;
}

TEST(StatusMacrosTest, ReturnTheFirstError) {
  EXPECT_EQ(*Quarter(8), 2);
  EXPECT_EQ(ReasonOf(Quarter(6).status()), reason::kBadArgument);
}

}  // namespace
}  // namespace tandem
