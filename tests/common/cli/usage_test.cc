#include "common/cli/usage.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "common/cli/option_types.h"

namespace tandem::cli {
namespace {

// A program without subcommands.
struct Program {
  CLI::App app{"Does things.\n\nExamples:\n  thing --dir x", "thing"};
  std::string dir, mode = "auto";

  Program() {
    app.add_option("--dir", dir, "Where")->required()->type_name("DIR");
    app.add_option("--mode", mode, "How")->check(OneOf({"auto", "never"}))->capture_default_str();
  }
  // The exit code, and what was said on stderr.
  std::pair<std::optional<int>, std::string> Run(std::vector<const char*> words) {
    words.insert(words.begin(), "thing");
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const auto code =
        ParseCommandLine(&app, static_cast<int>(words.size()), const_cast<char**>(words.data()));
    said = testing::internal::GetCapturedStdout();
    return {code, testing::internal::GetCapturedStderr()};
  }
  std::string said;
};

TEST(ParseCommandLineTest, WhatIsRightGoesOn) {
  Program program;
  EXPECT_EQ(program.Run({"--dir", "x"}), std::make_pair(std::optional<int>(), std::string()));
  EXPECT_EQ(program.dir, "x");
}

TEST(ParseCommandLineTest, ARefusalIsOneLineWithProgramRemedyAndReason) {
  EXPECT_EQ(Program().Run({"--dri", "x"}).second,
            "thing: thing has no option \"--dri\"; did you mean --dir? See thing --help "
            "(UNKNOWN_OPTION)\n");
  EXPECT_EQ(Program().Run({}).second,
            "thing: thing needs --dir DIR: Where; see thing --help (MISSING_ARGUMENT)\n");
  EXPECT_EQ(Program().Run({"--dir", "x", "y"}).second,
            "thing: thing takes no further argument, but \"y\" is given; see thing --help "
            "(UNEXPECTED_ARGUMENT)\n");
  EXPECT_EQ(Program().Run({"--dri"}).first, 2);
}

TEST(ParseCommandLineTest, HelpBeginsWithExamplesAndNamesTypesAndDefaults) {
  Program program;
  EXPECT_EQ(program.Run({"--help"}).first, 0);
  EXPECT_LT(program.said.find("Examples:\n  thing"), program.said.find("Usage: "));
  EXPECT_NE(program.said.find("--dir DIR (required)"), std::string::npos) << program.said;
  EXPECT_NE(program.said.find("--mode auto|never [auto]"), std::string::npos) << program.said;
}

}  // namespace
}  // namespace tandem::cli
