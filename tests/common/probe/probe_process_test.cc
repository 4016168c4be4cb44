#include "common/probe/probe_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "common/base/error.h"

namespace tandem {
namespace {

using testing::HasSubstr;

constexpr absl::Duration kAmple = absl::Seconds(60);

std::vector<std::string> Shell(const std::string& script) { return {"/bin/sh", "-c", script}; }

TEST(ProbeProcessTest, HasWhatTheProgramWrote) {
  const auto text = RunProbe(Shell("echo one; echo two; exit 3"), kAmple);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(*text, "one\ntwo\n");
}

TEST(ProbeProcessTest, OneThatIsNotThereIsSaid) {
  const absl::Status status = RunProbe({"/none/probe"}, kAmple).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/none/probe"));
}

TEST(ProbeProcessTest, OneThatHangsIsKilledWithItsChildren) {
  const std::string path = testing::TempDir() + "/probe_process_test.pid";
  const auto text = RunProbe(Shell("sleep 1000 & echo $! >" + path + "; echo begun; wait"),
                             absl::Milliseconds(300));
  EXPECT_EQ(text.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(ReasonOf(text.status()), reason::kTimeLimit);
  EXPECT_THAT(std::string(text.status().message()), HasSubstr("hangs"));
  std::string pid(16, '\0');
  std::FILE* const file = std::fopen(path.c_str(), "r");
  ASSERT_NE(file, nullptr);
  pid.resize(std::fread(pid.data(), 1, pid.size(), file));
  std::fclose(file);
  // Gone, or a zombie that nobody has reaped.
  const std::string state = "case $(cut -d' ' -f3 /proc/" + std::to_string(std::stoi(pid)) +
                            "/stat 2>/dev/null) in ''|Z) echo gone;; esac";
  EXPECT_EQ(RunProbe(Shell(state), kAmple).value_or(""), "gone\n");
}

TEST(ProbeProcessTest, OneThatClosesItsOutputAndHangsIsKilledToo) {
  EXPECT_EQ(RunProbe(Shell("exec >&-; sleep 1000"), absl::Milliseconds(200)).status().code(),
            absl::StatusCode::kDeadlineExceeded);
}

TEST(ProbeProcessTest, OneThatCrashesIsSaid) {
  const absl::Status status = RunProbe(Shell("kill -SEGV $$"), kAmple).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("SIGSEGV"));
}

TEST(ProbeProcessTest, EndlessOutputIsBounded) {
  const auto text = RunProbe(Shell("head -c 3000000 /dev/zero"), kAmple);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(text->size(), kProbeBytesMax);
}

}  // namespace
}  // namespace tandem
