#include "common/cli/usage.h"

#include <gtest/gtest.h>

#include "client/cli/app.h"
#include "common/base/error.h"
#include "common/base/strings.h"

namespace tandem::cli {
namespace {

// What a command line that cannot be parsed is refused with. No command runs.
absl::Status Refused(std::vector<std::string> words) {
  Context context;
  const auto app = MakeApp(&context);
  std::reverse(words.begin(), words.end());
  try {
    app->parse(words);
  } catch (const CLI::ParseError& error) {
    return UsageError(*app, error);
  }
  return absl::OkStatus();
}

void ExpectRefused(const std::vector<std::string>& words, std::string_view reason,
                   std::string_view says) {
  const absl::Status refused = Refused(words);
  EXPECT_EQ(ReasonOf(refused), reason) << refused;
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(ToStd(refused.message()).find(says), std::string_view::npos) << refused;
}

TEST(UsageTest, AMistypedSubcommandSuggestsTheNearest) {
  ExpectRefused({"jbo"}, "UNKNOWN_COMMAND",
                "tandem has no subcommand \"jbo\"; did you mean job? See tandem --help");
  ExpectRefused({"job", "lst"}, "UNKNOWN_COMMAND", "did you mean ls?");
  ExpectRefused({"--address", "a:1", "job", "lst"}, "UNKNOWN_COMMAND", "did you mean ls?");
  ExpectRefused({"kernel", "qqqqqq"}, "UNKNOWN_COMMAND", "it has ls, show");
}

TEST(UsageTest, AMistypedOptionSuggestsTheNearest) {
  ExpectRefused({"job", "ls", "--stat", "RUNNING"}, "UNKNOWN_OPTION",
                "tandem job ls has no option \"--stat\"; did you mean --state?");
  ExpectRefused({"run", "noop", "n=1", "--grian=5"}, "UNKNOWN_OPTION", "did you mean --grain?");
  ExpectRefused({"job", "ls", "-z"}, "UNKNOWN_OPTION", "\"-z\"");
  // Before what is missing: the unknown option may be why.
  ExpectRefused({"run", "--nmae=x"}, "UNKNOWN_OPTION", "did you mean --name?");
}

TEST(UsageTest, WhatIsMissingIsNamed) {
  ExpectRefused({}, "MISSING_ARGUMENT", "tandem needs a subcommand: up, run");
  ExpectRefused({"job"}, "MISSING_ARGUMENT", "tandem job needs a subcommand: ls");
  ExpectRefused({"run"}, "MISSING_ARGUMENT", "tandem run needs KERNEL: The kernel's name");
  ExpectRefused({"job", "show"}, "MISSING_ARGUMENT", "tandem job show needs JOBS");
  ExpectRefused({"run", "noop", "--name"}, "MISSING_ARGUMENT", "--name needs a value");
}

TEST(UsageTest, WhatIsTooMuchIsNamed) {
  ExpectRefused({"job", "show", "1", "2"}, "UNEXPECTED_ARGUMENT", "\"2\"");
  ExpectRefused({"run", "noop", "--name", "a", "--name", "b"}, "BAD_ARGUMENT",
                "--name is given more than once");
}

TEST(UsageTest, AValueThatDoesNotFitNamesItsOption) {
  ExpectRefused({"run", "noop", "--grain", "-1"}, "BAD_ARGUMENT",
                "--grain: \"-1\" is no whole number of at least 1");
  ExpectRefused({"run", "noop", "--crash-limit", "0"}, "BAD_ARGUMENT", "from 1 to 1000");
  ExpectRefused({"run", "noop", "--device", "gppu"}, "BAD_ARGUMENT", "did you mean gpu?");
  ExpectRefused({"job", "ls", "-o", "jsn"}, "BAD_ARGUMENT", "did you mean json?");
  ExpectRefused({"job", "ls", "--state", "RUNING"}, "BAD_ARGUMENT", "did you mean RUNNING?");
  EXPECT_EQ(FieldOf(Refused({"run", "noop", "--grain", "x"})), "--grain");
}

void ExpectExamplesFirst(const CLI::App& app) {
  const std::string help = app.help();
  const size_t examples = help.find("Examples:\n  "), usage = help.find("Usage: ");
  EXPECT_NE(examples, std::string::npos) << CommandPath(app) << " has no examples";
  EXPECT_LT(examples, usage) << CommandPath(app);
  for (const CLI::App* child : VisibleSubcommands(app)) ExpectExamplesFirst(*child);
}

TEST(UsageTest, EveryHelpBeginsWithExamples) {
  Context context;
  ExpectExamplesFirst(*MakeApp(&context));
}

TEST(UsageTest, ExamplesNameTheirOwnCommand) {
  Context context;
  const auto app = MakeApp(&context);
  EXPECT_NE(app->get_subcommand("job")->get_subcommand("wait")->help().find("tandem job wait"),
            std::string::npos);
  EXPECT_EQ(CommandPath(*app->get_subcommand("job")->get_subcommand("wait")), "tandem job wait");
}

}  // namespace
}  // namespace tandem::cli
