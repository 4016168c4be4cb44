#include "common/base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/base/strong_id.h"

namespace tandem {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

std::vector<std::string>* lines = nullptr;

class LogTest : public ::testing::Test {
 protected:
  void SetUp() override {
    lines = &lines_;
    SetLogSink([](LogLevel, std::string_view line) { lines->emplace_back(line); });
    SetLogLevel(LogLevel::Info);
  }
  void TearDown() override {
    SetLogSink(nullptr);
    SetLogLevel(LogLevel::Info);
  }
  std::vector<std::string> lines_;
};

TEST_F(LogTest, WritesOneLineWithItsPairs) {
  TLOG(Info, "lease_granted", "job", StrongId<struct TestTag>(7), "why", "two words\nand \"more\"",
       "empty", "");
  ASSERT_EQ(lines_.size(), 1u);
  EXPECT_THAT(lines_[0],
              EndsWith(" I lease_granted job=7 why=\"two words\\nand \\\"more\\\"\" empty=\"\""));
}

TEST_F(LogTest, DoesNotEvaluateBelowItsLevel) {
  int evaluated = 0;
  TLOG(Debug, "event", "n", ++evaluated);
  EXPECT_EQ(evaluated, 0);
  TLOG(Error, "event", "n", ++evaluated);
  EXPECT_EQ(evaluated, 1);
  EXPECT_THAT(lines_.at(0), HasSubstr(" E event n=1"));
}

}  // namespace
}  // namespace tandem
