#include "common/base/failpoint.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "common/base/error.h"
#include "gtest/gtest.h"

namespace tandem {
namespace {

class FailpointTest : public ::testing::Test {
 protected:
  void TearDown() override { ClearFailpoints(); }
};

TEST_F(FailpointTest, OneThatWasNeverSetPasses) {
  EXPECT_TRUE(internal::PassFailpoint("t.unset").ok());
  EXPECT_EQ(FailpointHits("t.unset"), 0u);
}

TEST_F(FailpointTest, ErrorIsReturnedToThePlaceAndNamesTheFailpoint) {
  ASSERT_TRUE(SetFailpoint("t.a", "error").ok());
  const absl::Status status = internal::PassFailpoint("t.a");
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_NE(status.message().find("t.a"), absl::string_view::npos) << status;
  EXPECT_TRUE(internal::PassFailpoint("t.b").ok());
}

TEST_F(FailpointTest, ATermWithACountIsUsedUpAndTheNextFollows) {
  ASSERT_TRUE(SetFailpoint("t.a", "2*off->1*error->off").ok());
  std::string seen;
  for (int i = 0; i < 5; ++i) seen += internal::PassFailpoint("t.a").ok() ? '.' : 'E';
  EXPECT_EQ(seen, "..E..");
  EXPECT_EQ(FailpointHits("t.a"), 5u);
}

TEST_F(FailpointTest, AChanceActsInThatShareOfTheHits) {
  ASSERT_TRUE(SetFailpoint("t.a", "25%error").ok());
  int failed = 0;
  for (int i = 0; i < 4000; ++i) failed += !internal::PassFailpoint("t.a").ok();
  EXPECT_GT(failed, 850);
  EXPECT_LT(failed, 1150);
}

TEST_F(FailpointTest, APausedThreadGoesOnWhenTheFailpointIsCleared) {
  ASSERT_TRUE(SetFailpoint("t.a", "pause").ok());
  std::atomic<bool> passed = false;
  std::thread thread([&] {
    EXPECT_TRUE(internal::PassFailpoint("t.a").ok());
    passed = true;
  });
  WaitForFailpoint("t.a", 1);
  EXPECT_FALSE(passed);
  ClearFailpoints();
  thread.join();
  EXPECT_TRUE(passed);
}

TEST_F(FailpointTest, CrashKillsTheProcessBySigkill) {
  const pid_t child = fork();
  if (child == 0) {
    if (SetFailpoint("t.a", "crash").ok()) (void)internal::PassFailpoint("t.a");
    _exit(0);
  }
  int state = 0;
  ASSERT_EQ(waitpid(child, &state, 0), child);
  ASSERT_TRUE(WIFSIGNALED(state));
  EXPECT_EQ(WTERMSIG(state), SIGKILL);
}

TEST_F(FailpointTest, AListSetsAllOrNothing) {
  ASSERT_TRUE(SetFailpoints("t.a=error; t.b = 1*error ;").ok());
  EXPECT_FALSE(internal::PassFailpoint("t.a").ok());
  EXPECT_FALSE(internal::PassFailpoint("t.b").ok());
  EXPECT_FALSE(SetFailpoints("t.c=error;t.d=explode").ok());
  EXPECT_TRUE(internal::PassFailpoint("t.c").ok());
}

TEST_F(FailpointTest, WhatCannotBeReadIsRefusedNamingTheTerm) {
  for (const char* bad : {"", "explode", "sleep", "sleep(x)", "101%error", "x*error", "off->"}) {
    const absl::Status status = SetFailpoint("t.a", bad);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad;
    EXPECT_EQ(ReasonOf(status), reason::kBadArgument) << bad;
  }
  EXPECT_NE(SetFailpoint("t.a", "off->explode").message().find("explode"), absl::string_view::npos);
  EXPECT_FALSE(SetFailpoints("=error").ok());
  EXPECT_FALSE(SetFailpoints("nothing").ok());
}

}  // namespace
}  // namespace tandem
