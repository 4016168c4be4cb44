#include "common/cli/error_file.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "common/base/error.h"
#include "common/base/strings.h"

namespace tandem::cli {
namespace {

using absl::StatusCode;

std::string FileOf(const char* name) { return StrCat(testing::TempDir(), "/", name, ".error"); }

TEST(ErrorFileTest, TheStarterEndsWithTheSameSentenceReasonAndExitCode) {
  const std::string path = FileOf("told");
  for (const absl::Status& status :
       {Error(StatusCode::kPermissionDenied, reason::kPathUnwritable, "cannot write \"a b\": no"),
        Error(StatusCode::kFailedPrecondition, reason::kVersionSkew, "two\nlines"),
        InvalidError(reason::kBadDuration, "x (y)")}) {
    const int code = FailToStart("tandem-master", status, path);
    const absl::Status read = ReadErrorFile(path);
    EXPECT_EQ(read.message(), status.message());
    EXPECT_EQ(ReasonOf(read), ReasonOf(status));
    EXPECT_EQ(ExitCodeOf(read), code);
  }
  std::remove(path.c_str());
}

TEST(ErrorFileTest, WhatIsNobodysFaultMakesAServerUnavailable) {
  EXPECT_EQ(FailToStart("tandem-worker", absl::InternalError("odd"), ""), 5);
  EXPECT_EQ(FailToStart("tandem-worker", absl::NotFoundError("gone"), ""), 5);
  EXPECT_EQ(ReasonOf(AsStartError(absl::InternalError("odd"))), reason::kInternal);
}

TEST(ErrorFileTest, WhatWroteNothingSaysNothing) {
  EXPECT_TRUE(ReadErrorFile(FileOf("none")).ok());
  const std::string path = FileOf("half");
  std::FILE* file = std::fopen(path.c_str(), "w");
  std::fputs("7 PATH_UN", file);
  std::fclose(file);
  EXPECT_TRUE(ReadErrorFile(path).ok());
  std::remove(path.c_str());
}

TEST(ExitCodeTest, AFolderThatCannotBeWrittenIsNotAllowedWhateverTheCode) {
  for (const StatusCode code :
       {StatusCode::kInvalidArgument, StatusCode::kNotFound, StatusCode::kFailedPrecondition}) {
    EXPECT_EQ(ExitCodeOf(Error(code, reason::kPathUnwritable, "x")), 4);
  }
  EXPECT_EQ(ExitCodeOf(Error(StatusCode::kFailedPrecondition, reason::kStoreLocked, "x")), 5);
}

}  // namespace
}  // namespace tandem::cli
