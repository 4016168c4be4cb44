#include "common/model/gpu_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/base/error.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint64_t kGiB = uint64_t{1} << 30;

std::string ReasonFor(const std::string& text) { return ReasonOf(GpuMemory::Parse(text).status()); }

TEST(GpuMemoryTest, WithoutAWordItIsNineTenthsOfWhatIsFree) {
  EXPECT_EQ(GpuMemory().For("GPU-1").Of(1000), 900u);
  EXPECT_EQ(GpuMemory::Parse(kGpuMemoryDefault)->For("GPU-1"), GpuMemory().For("GPU-1"));
}

TEST(GpuMemoryTest, ASizeIsTakenAsItIsAndAShareOfWhatIsFree) {
  EXPECT_EQ(GpuMemory::Parse("20GiB")->For("any").Of(5), 20 * kGiB);
  EXPECT_EQ(GpuMemory::Parse("12.5 %")->For("any").Of(800), 100u);
  EXPECT_EQ(GpuMemory::Parse("100%")->For("any").Of(801), 801u);
  EXPECT_EQ(GpuMemory::Parse("20GiB")->For("any").Words(), "20GiB");
  EXPECT_EQ(GpuMemory::Parse("80%")->For("any").Words(), "80% of what is free");
}

TEST(GpuMemoryTest, ANamedDeviceHasItsOwnAndTheLongestNameCounts) {
  const GpuMemory memory = *GpuMemory::Parse("80%,GPU-1f=20GiB, GPU-1f0e=1GiB");
  EXPECT_EQ(memory.For("GPU-2").Of(10), 8u);
  EXPECT_EQ(memory.For("GPU-1f99").bytes, 20 * kGiB);
  EXPECT_EQ(memory.For("GPU-1f0e8c5a").bytes, kGiB);
  EXPECT_EQ(GpuMemory::Parse("GPU-1=50%")->For("GPU-2").percent, 90);
  EXPECT_THAT(memory.UnknownNames({"", "GPU-1f0e8c5a"}), ElementsAre());
  EXPECT_THAT(memory.UnknownNames({"GPU-1f99"}), ElementsAre("GPU-1f0e"));
}

TEST(GpuMemoryTest, WhatIsWrittenIsReadAgain) {
  for (const char* text : {"90%", "0.001%", "33.3333%", "123456789B", "20GiB", "100%"}) {
    const MemoryShare share = *MemoryShare::Parse(text);
    EXPECT_EQ(*MemoryShare::Parse(share.ToString()), share) << text;
  }
}

TEST(GpuMemoryTest, WhatMakesNoSenseIsRefusedWithWhatWould) {
  for (const char* text :
       {"0", "0%", "101%", "0B", "1e99%", "80%,90%", "GPU-1=1GiB,GPU-1=2GiB", "=5GiB"}) {
    EXPECT_FALSE(GpuMemory::Parse(text).ok()) << text;
  }
  for (const char* text : {"0", "0%", "100.1%", "80%,90%", "GPU-1=1GiB,GPU-1=2GiB", "=5GiB"}) {
    EXPECT_EQ(ReasonFor(text), reason::kBadArgument) << text;
  }
  for (const char* text :
       {"", "-1", "-5%", "lots", "20Gigs", "nan%", "%", "inf%", "80%,", "1.2.3%", "GPU-1="}) {
    EXPECT_EQ(ReasonFor(text), reason::kBadSize) << text;
  }
  EXPECT_EQ(ReasonFor("20G"), reason::kAmbiguous);
  EXPECT_THAT(std::string(GpuMemory::Parse("0").status().message()), HasSubstr("20GiB"));
  EXPECT_THAT(std::string(GpuMemory::Parse("lots").status().message()), HasSubstr("90%"));
  std::string many = "1%";
  for (size_t i = 0; i < GpuMemory::kEntriesMax; ++i) many += ",G" + std::to_string(i) + "=1%";
  EXPECT_EQ(ReasonFor(many), reason::kBadArgument);
}

TEST(GpuMemoryTest, ADeviceThatHasLessIsNamed) {
  const GpuMemory memory = *GpuMemory::Parse("1GiB");
  EXPECT_TRUE(memory.CheckAgainst("GPU-1", kGiB).ok());
  const absl::Status status = memory.CheckAgainst("GPU-1", kGiB - 1);
  EXPECT_EQ(ReasonOf(status), reason::kBadArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("GPU-1 has"));
  EXPECT_TRUE(GpuMemory().CheckAgainst("GPU-1", 1).ok());
}

}  // namespace
}  // namespace tandem
