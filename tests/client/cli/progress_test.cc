#include "client/cli/progress.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "common/base/clock.h"

namespace tandem::cli {
namespace {

class ProgressTest : public ::testing::Test {
 protected:
  ~ProgressTest() override { std::fclose(stream_); }
  std::string Written() {
    std::string text(4096, '\0');
    std::rewind(stream_);
    text.resize(std::fread(text.data(), 1, text.size(), stream_));
    return text;
  }
  std::FILE* stream_ = std::tmpfile();
  FakeClock clock_;
};

TEST_F(ProgressTest, ABarShowsRateAndTimeLeft) {
  {
    Progress progress(stream_, Progress::Style::kBar, "job 7", "tasks", &clock_);
    progress.Update(0, 1000, "");
    clock_.Advance(absl::Seconds(10));
    progress.Update(250, 1000, "");
  }
  const std::string written = Written();
  EXPECT_NE(written.find("25.0%  250 of 1.00 k tasks  25/s  ETA 30s"), std::string::npos)
      << written;
  EXPECT_TRUE(written.ends_with("\r\x1b[K"));  // the line is clean for what follows
}

TEST_F(ProgressTest, LinesAreSparseAndPlain) {
  Progress progress(stream_, Progress::Style::kLines, "job 7", "tasks", &clock_);
  for (int i = 0; i < 100; ++i) {
    clock_.Advance(absl::Milliseconds(100));
    progress.Update(static_cast<uint64_t>(i), 100, "waits: NO_WORKER");
  }
  progress.Finish();
  const std::string written = Written();
  EXPECT_EQ(written.find('\x1b'), std::string::npos);
  EXPECT_EQ(std::count(written.begin(), written.end(), '\n'), 5);
  EXPECT_NE(written.find("waits: NO_WORKER"), std::string::npos);
}

TEST_F(ProgressTest, QuietIsQuiet) {
  Progress progress(stream_, Progress::Style::kNone, "job 7", "tasks", &clock_);
  clock_.Advance(absl::Hours(1));
  progress.Update(1, 2, "");
  progress.Finish();
  EXPECT_EQ(Written(), "");
}

TEST(HumanCountTest, HasThreeDigits) {
  EXPECT_EQ(HumanCount(950), "950");
  EXPECT_EQ(HumanCount(12'345'678), "12.3 M");
  EXPECT_EQ(HumanCount(999'999), "1.00 M");
}

}  // namespace
}  // namespace tandem::cli
