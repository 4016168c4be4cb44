#include "client/cli/exit_code.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string_view>
#include <tuple>

#include "common/base/error.h"

namespace tandem::cli {
namespace {

using absl::StatusCode;

TEST(ExitCodeTest, EachKindOfErrorHasItsCode) {
  const std::tuple<StatusCode, std::string_view, int> kCases[] = {
      {StatusCode::kInvalidArgument, reason::kBadArgument, 2},
      {StatusCode::kAlreadyExists, reason::kRequestIdReused, 2},
      {StatusCode::kUnimplemented, reason::kNotYetHonoured, 2},
      {StatusCode::kFailedPrecondition, reason::kKernelChanged, 2},
      {StatusCode::kNotFound, reason::kJobNotFound, 3},
      {StatusCode::kPermissionDenied, reason::kNotOwner, 4},
      {StatusCode::kUnauthenticated, reason::kNotOwner, 4},
      {StatusCode::kUnavailable, reason::kMasterUnavailable, 5},
      {StatusCode::kDeadlineExceeded, reason::kMasterUnavailable, 5},
      {StatusCode::kFailedPrecondition, reason::kResultNotReady, 5},
      {StatusCode::kResourceExhausted, reason::kDiskFull, 6},
      {StatusCode::kCancelled, reason::kJobCancelled, 7},
      {StatusCode::kFailedPrecondition, reason::kVersionSkew, 8},
      {StatusCode::kCancelled, reason::kInterrupted, 130},
      {StatusCode::kFailedPrecondition, reason::kJobFailed, 1},
      {StatusCode::kInternal, reason::kInternal, 1},
  };
  for (const auto& [code, reason, exit] : kCases) {
    EXPECT_EQ(ExitCodeOf(Error(code, reason, "x")), exit) << reason;
  }
  EXPECT_EQ(ExitCodeOf(absl::OkStatus()), 0);
}

TEST(ExitCodeTest, AnEndedJobHasItsCode) {
  EXPECT_EQ(ExitCodeOf(client::JobState::kSucceeded), 0);
  EXPECT_EQ(ExitCodeOf(client::JobState::kFailed), 1);
  EXPECT_EQ(ExitCodeOf(client::JobState::kCancelled), 7);
}

TEST(ErrorLineTest, AnErrorAlwaysHasAReason) {
  EXPECT_EQ(ErrorLine(Error(StatusCode::kNotFound, reason::kJobNotFound, "no job 7")),
            "tandem: no job 7 (JOB_NOT_FOUND)");
  EXPECT_EQ(ErrorLine(absl::InternalError("odd")), "tandem: odd (INTERNAL)");
  EXPECT_EQ(ErrorLine(absl::InternalError("")),
            "tandem: the master refused without a word; its log says more (INTERNAL)");
}

TEST(ErrorLineTest, ACallThatTheMasterDoesNotKnowIsSkew) {
  EXPECT_EQ(ExitCodeOf(absl::UnimplementedError("")), 8);
  EXPECT_NE(ErrorLine(absl::UnimplementedError("")).find("(VERSION_SKEW)"), std::string::npos);
}

TEST(ErrorJsonTest, HasStableFields) {
  const auto json = nlohmann::json::parse(ErrorJson(WithField(
      Error(StatusCode::kInvalidArgument, reason::kBadArgument, "no \xff"), "spec.name")));
  EXPECT_EQ(json["api_version"], "tandem.v1");
  EXPECT_EQ(json["kind"], "error");
  EXPECT_EQ(json.size(), 3);
  EXPECT_EQ(json["error"], (nlohmann::json{{"code", "INVALID_ARGUMENT"},
                                           {"reason", "BAD_ARGUMENT"},
                                           {"field", "spec.name"},
                                           {"message", "no \xEF\xBF\xBD"}}));
}

}  // namespace
}  // namespace tandem::cli
