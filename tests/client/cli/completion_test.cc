#include "client/cli/completion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/cli/app.h"

namespace tandem::cli {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

std::vector<std::string> Names(std::string_view kind, const std::string& kernel) {
  if (kind == "KERNEL") return {"noop", "saxpy"};
  if (kind == "JOBS") return {"12", "7"};
  if (kind == "NAME=VALUE" && kernel == "saxpy") return {"x=", "y=", "scale="};
  return {};
}

Completion Completed(const std::vector<std::string>& words) {
  Context context;
  return Complete(*MakeApp(&context), words, Names);
}
std::vector<std::string> Words(const std::vector<std::string>& words) {
  return Completed(words).words;
}

TEST(CompletionTest, OffersSubcommands) {
  EXPECT_THAT(Words({"kern"}), ElementsAre("kernel"));
  EXPECT_THAT(Words({"kernel", ""}), ElementsAre("ls", "show"));
  EXPECT_THAT(Words({""}), Contains("run"));
  EXPECT_THAT(Words({""}), Not(Contains("complete")));  // it is for scripts
  EXPECT_THAT(Words({"--address", "a:1", "kern"}), ElementsAre("kernel"));
}

TEST(CompletionTest, OffersOptionsOfTheCommandOnly) {
  EXPECT_THAT(Words({"run", "noop", "--gr"}), ElementsAre("--grain"));
  EXPECT_THAT(Words({"job", "ls", "--gr"}), IsEmpty());
  EXPECT_THAT(Words({"job", "ls", "-"}), Contains("--state"));
}

TEST(CompletionTest, OffersTheValuesOfAnOption) {
  EXPECT_THAT(Words({"run", "noop", "--device", ""}), ElementsAre("auto", "cpu", "gpu"));
  EXPECT_THAT(Words({"run", "noop", "--device=c"}), ElementsAre("--device=cpu"));
  EXPECT_THAT(Words({"job", "ls", "-o", "js"}), ElementsAre("json", "jsonl"));
  EXPECT_THAT(Words({"completion", ""}), ElementsAre("bash", "zsh", "fish"));
}

TEST(CompletionTest, OffersNamesThatTheClusterKnows) {
  EXPECT_THAT(Words({"run", ""}), ElementsAre("noop", "saxpy"));
  EXPECT_THAT(Words({"run", "sax"}), ElementsAre("saxpy"));
  EXPECT_THAT(Words({"run", "saxpy", ""}), ElementsAre("x=", "y=", "scale="));
  EXPECT_THAT(Words({"run", "--grain", "5", "saxpy", "x=1", "y"}), ElementsAre("y="));
  EXPECT_THAT(Words({"job", "show", ""}), ElementsAre("last", "all", "12", "7"));
  EXPECT_THAT(Words({"job", "show", "7", ""}), IsEmpty());
}

TEST(CompletionTest, OffersFilesWhereFilesBelong) {
  const Completion operand = Completed({"run", "saxpy", "x=@da"});
  EXPECT_EQ(operand.files, Completion::kFiles);
  EXPECT_EQ(operand.before_file, "x=@");
  EXPECT_EQ(CompletionLines(operand), ":files x=@\n");
  EXPECT_EQ(Completed({"run", "saxpy", "--out", "x=@"}).before_file, "x=@");
  EXPECT_EQ(CompletionLines(Completed({"up", "--dir", ""})), ":directories \n");
  EXPECT_EQ(Completed({"up", "--dir=/t"}).before_file, "--dir=");
  EXPECT_EQ(Completed({"job", "show", ""}).files, Completion::kNone);
}

}  // namespace
}  // namespace tandem::cli
