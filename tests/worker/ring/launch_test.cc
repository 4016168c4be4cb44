#include "worker/ring/launch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ExecutorLaunch Example() {
  ExecutorLaunch launch;
  launch.channel = "3,4,5";
  launch.staging_fd = 6;
  launch.start_page = "/var/lib/tandem/w/start-1";
  launch.owner = "ada lovelace";
  launch.device = "cuda:GPU-8f6d";
  launch.directory = "/var/lib/tandem/w/owner-ada";
  launch.cores = {0, 1, 2, 8};
  launch.groups = 2;
  launch.beside_devices = true;
  launch.kernel_libraries = {"/opt/k/a.so", "/usr/lib/k/b=c.so"};
  launch.local_data = false;
  launch.cache_bytes_max = 1 << 30;
  launch.parent_pid = 4711;
  launch.memory = "12.5%";
  launch.pinned_bytes_max = 64 << 20;
  return launch;
}

TEST(LaunchTest, WhatTheSupervisorSaysIsWhatTheExecutorReads) {
  auto parsed = ParseLaunch(ToArguments(Example()));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(*parsed, Example());
}

TEST(LaunchTest, AMissingUnknownOrMalformedArgumentIsNamed) {
  auto arguments = ToArguments(Example());
  arguments.erase(arguments.begin());
  EXPECT_THAT(std::string(ParseLaunch(arguments).status().message()), HasSubstr("--channel"));
  for (const char* bad : {"--colour=red", "cores=1", "--cores", "--staging=x", "--cores=3-1",
                          "--cores=", "--cores=1,,2", "--cores=99999999", "--device="}) {
    auto with_bad = ToArguments(Example());
    with_bad.push_back(bad);
    EXPECT_EQ(ParseLaunch(with_bad).status().code(), absl::StatusCode::kInvalidArgument) << bad;
  }
}

TEST(LaunchTest, CpuListsReadAsTasksetWritesThem) {
  EXPECT_THAT(*ParseCpuList("0-3,8\n"), ElementsAre(0, 1, 2, 3, 8));
  EXPECT_THAT(*ParseCpuList("5,1-2,2"), ElementsAre(1, 2, 5));
  std::string often = "0-65535";
  for (int i = 0; i < 10; ++i) often += "," + often;  // ten million, were each kept
  EXPECT_EQ(ParseCpuList(often)->size(), 65536u);
  EXPECT_EQ(FormatCpuList({0, 1, 2, 3, 8, 10, 11}), "0-3,8,10-11");
  EXPECT_EQ(FormatCpuList({}), "");
}

}  // namespace
}  // namespace tandem::worker
