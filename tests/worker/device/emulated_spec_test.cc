#include "worker/device/emulated/emulated_spec.h"

#include <string>

#include "common/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem::worker {
namespace {

using ::testing::HasSubstr;

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

TEST(EmulatedSpecTest, WhatNoDeviceCouldBeIsRefused) {
  EXPECT_FALSE(ParseEmulated("emulated:E;memory=99999999999999999").ok());
  for (const char* absurd :
       {"emulated:E;cores=1e9", "emulated:E;launch=3600", "emulated:E;copy=1e18"}) {
    EXPECT_THAT(std::string(ParseEmulated(absurd).status().message()), HasSubstr("at most"))
        << absurd;
  }
}

TEST(EmulatedSpecTest, TheVariableIsHeldAgainstTheDevicesThereAre) {
  EXPECT_TRUE(CheckEmulated("", 1).ok());
  EXPECT_TRUE(CheckEmulated("cores=8;memory=4096 EMULATED-1;faults=lost@5", 2).ok());
  struct Case {
    const char* text;
    const char* says;
  };
  for (const auto& [text, says] :
       {Case{"EMULATED-2;cores=3", "EMULATED-2"},
        Case{"EMULATED-2;cores=3", "EMULATED-0 to EMULATED-1"}, Case{"junk", "junk"},
        Case{"cores=many", "cores=many"}, Case{"EMULATED-1;junk", "junk"},
        Case{"cores=2 emulated-0;cores=3", "emulated-0"}}) {
    const absl::Status status = CheckEmulated(text, 2);
    EXPECT_EQ(ReasonOf(status), reason::kBadArgument) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr("TANDEM_EMULATED: ")) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(says)) << text;
  }
}

}  // namespace
}  // namespace tandem::worker
