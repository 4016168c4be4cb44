#include "worker/device/emulated/emulated_spec.h"

#include <string>

#include "common/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem::worker {
namespace {

TEST(EmulatedSpecTest, ANameAloneIsADeviceWithAPacedClock) {
  EXPECT_TRUE(IsEmulated("emulated:E-3"));
  EXPECT_FALSE(IsEmulated("cpu"));
  const auto options = ParseEmulated("emulated:E-3");
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->uuid, "E-3");
  EXPECT_EQ(options->clock, EmulatedClock::kPaced);
}

TEST(EmulatedSpecTest, SettingsAreTaken) {
  const auto options = ParseEmulated(
      "emulated:E;clock=exact;memory=4096;cores=2.5;launch=1e-3;copy=1e9;seed=7;"
      "faults=oom@2,slow@5:4");
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->clock, EmulatedClock::kExact);
  EXPECT_EQ(options->memory_bytes, 4096u);
  EXPECT_EQ(options->speed.cores, 2.5);
  EXPECT_EQ(options->speed.launch_seconds, 1e-3);
  EXPECT_EQ(options->speed.copy_bytes_per_second, 1e9);
  EXPECT_EQ(options->seed, 7u);
  EXPECT_TRUE(options->faults.failing_allocations.contains(2));
  EXPECT_EQ(options->faults.SlowdownAt(5), 4);
}

TEST(EmulatedSpecTest, TheEnvironmentSetsAllDevicesOrOne) {
  const char* const environment = "cores=8;memory=4096 E-1;faults=lost@5;cores=2";
  const auto first = ParseEmulated("emulated:E-0", environment);
  const auto second = ParseEmulated("emulated:E-1;memory=5000", environment);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first->speed.cores, 8);
  EXPECT_EQ(first->faults.OfLaunch(5), LaunchFault::kNone);
  EXPECT_EQ(second->speed.cores, 2);
  EXPECT_EQ(second->memory_bytes, 5000u);
  EXPECT_EQ(second->faults.OfLaunch(5), LaunchFault::kLost);
  EXPECT_FALSE(ParseEmulated("emulated:E-1", "E-1;speed=3").ok());
}

TEST(EmulatedSpecTest, WhatIsNoSettingIsNamed) {
  for (const char* bad : {"emulated:", "emulated:E;speed=4", "emulated:E;cores=0",
                          "emulated:E;cores=inf", "emulated:E;memory=1.5", "emulated:E;clock=",
                          "emulated:E;clock=virtual", "emulated:E;faults=melts@2", "emulated:E;"}) {
    const auto options = ParseEmulated(bad);
    EXPECT_EQ(options.status().code(), absl::StatusCode::kInvalidArgument) << bad;
    EXPECT_EQ(ReasonOf(options.status()), reason::kBadArgument) << bad;
  }
}

}  // namespace
}  // namespace tandem::worker
