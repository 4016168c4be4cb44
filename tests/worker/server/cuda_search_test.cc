// What a worker makes of each way in which the search for CUDA's devices can end; scripts play the
// program that is asked.
#include "worker/server/cuda_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "common/base/error.h"
#include "common/base/reason.h"
#include "common/base/strings.h"

namespace tandem::worker {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr char kDevice[] =
    R"({"uuid": "GPU-a", "model": "a model", "memory_bytes": 64, "multiprocessors": 4})";

CudaSearch::Devices DevicesSaidBy(const std::string& script,
                                  absl::Duration limit = absl::Seconds(60)) {
  const std::string program = StrCat(testing::TempDir(), "/cuda-search-", ::getpid());
  std::ofstream(program) << "#!/bin/sh\n" << script << "\n";
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  const CudaSearch search(program, limit);
  EXPECT_TRUE(search.Done(absl::Seconds(60)));
  std::filesystem::remove(program);
  return search.devices();
}

std::string Answer(const std::string& rest) {
  return StrCat(R"(test "$*" = --probe && echo '{"version": 1, "kind": "devices", )", rest, "}'");
}

TEST(CudaSearchTest, WhatTheProgramSaysItSeesIsFound) {
  const auto devices = DevicesSaidBy(Answer(StrCat(R"("devices": [)", kDevice, "]")));
  ASSERT_TRUE(devices.ok()) << devices.status();
  ASSERT_THAT(*devices, SizeIs(1));
  EXPECT_EQ(devices->front().uuid, "GPU-a");
  EXPECT_EQ(devices->front().model, "a model");
}

TEST(CudaSearchTest, NoDeviceIsUnsatisfiableWithTheProgramsOwnReason) {
  EXPECT_EQ(ReasonOf(DevicesSaidBy(Answer(R"("devices": [])")).status()), reason::kUnsatisfiable);
  const auto devices = DevicesSaidBy(
      Answer(R"("devices": [], "error": {"code": 9, "reason": "VERSION_SKEW", "message": "old"})"));
  EXPECT_EQ(ReasonOf(devices.status()), reason::kVersionSkew);
  EXPECT_THAT(std::string(devices.status().message()), HasSubstr("old"));
}

TEST(CudaSearchTest, AProgramThatIsMissingCannotStartOrMakesNoSenseIsAnError) {
  const CudaSearch missing("/none/tandem-executor-cuda", absl::Seconds(60));
  ASSERT_TRUE(missing.Done(absl::Seconds(60)));
  EXPECT_EQ(ReasonOf(missing.devices().status()), reason::kPathUnreadable);
  EXPECT_THAT(std::string(DevicesSaidBy("exit 127").status().message()), HasSubstr("ldd"));
  EXPECT_EQ(ReasonOf(DevicesSaidBy("echo nonsense").status()), reason::kProtocolError);
  EXPECT_EQ(ReasonOf(DevicesSaidBy("kill -SEGV $$").status()), reason::kDeviceFault);
}

TEST(CudaSearchTest, ADriverThatHangsIsGivenUp) {
  const auto devices = DevicesSaidBy("exec sleep 600", absl::Milliseconds(100));
  EXPECT_EQ(ReasonOf(devices.status()), reason::kTimeLimit);
}

TEST(CudaSearchTest, TheProgramLiesBesideTheOneForCpus) {
  EXPECT_EQ(CudaExecutorOf("/usr/libexec/tandem/tandem-executor"),
            "/usr/libexec/tandem/tandem-executor-cuda");
}

}  // namespace
}  // namespace tandem::worker
