#include "worker/ring/start_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <string>

namespace tandem::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::string TempPath(const std::string& name) {
  return testing::TempDir() + "/" + name + "-" + std::to_string(::getpid());
}

TEST(StartPageTest, WhatStartedAndDidNotFinishIsNamed) {
  const std::string path = TempPath("named");
  auto page = StartPage::Create(path, 3);
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_THAT((*page)->Running(), IsEmpty());
  StartSlot first = (*page)->slot(0), third = (*page)->slot(2);
  first.Start(7, 100, 4);
  third.Start(8, 50, 1);
  third.StartTask(55);
  EXPECT_THAT((*page)->Running(),
              ElementsAre(Started{0, 7, 100, 4, std::nullopt, 1}, Started{2, 8, 50, 1, 55, 1}));
  third.Finish();
  third.Start(9, 1, 1);  // the task of the piece before is forgotten
  first.Finish();
  EXPECT_THAT((*page)->Running(), ElementsAre(Started{2, 9, 1, 1, std::nullopt, 2}));
  ::unlink(path.c_str());
}

TEST(StartPageTest, AKilledProcessLeavesItsSuspectsBehind) {
  const std::string path = TempPath("killed");
  { ASSERT_TRUE(StartPage::Create(path, 2).ok()); }
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto page = StartPage::Open(path);
    if (!page.ok()) ::_exit(3);
    StartSlot slot = (*page)->slot(1);
    for (uint64_t leaf = 0; leaf < 1000; ++leaf) {
      slot.Start(5, leaf, 2);
      slot.Finish();
    }
    slot.Start(5, 4096, 2);
    slot.StartTask(0);
    ::raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  auto page = StartPage::Open(path);
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_THAT((*page)->Running(), ElementsAre(Started{1, 5, 4096, 2, 0, 1001}));
  ::unlink(path.c_str());
}

TEST(StartPageTest, AFileOfAnotherKindIsRefused) {
  const std::string path = TempPath("other");
  EXPECT_FALSE(StartPage::Open(path).ok());
  std::ofstream(path) << "short";
  EXPECT_EQ(StartPage::Open(path).status().code(), absl::StatusCode::kInvalidArgument);
  std::ofstream(path) << std::string(1000, 'x');
  EXPECT_EQ(StartPage::Open(path).status().code(), absl::StatusCode::kInvalidArgument);
  ::unlink(path.c_str());
}

}  // namespace
}  // namespace tandem::worker
