#include "common/probe/visible_devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace tandem {
namespace {

using Kind = VisibleDevices::Kind;
using testing::HasSubstr;

TEST(VisibleDevicesTest, NotSetIsEveryDevice) {
  EXPECT_EQ(DescribeVisible(std::nullopt).kind, Kind::kAll);
}

TEST(VisibleDevicesTest, SomeHideEveryDevice) {
  for (const char* value : {"", " ", "NoDevFiles", "-1"}) {
    const VisibleDevices none = DescribeVisible(value);
    EXPECT_EQ(none.kind, Kind::kNone) << value;
    EXPECT_NE(none.mend, "") << value;
  }
  EXPECT_THAT(DescribeVisible("NoDevFiles").text, HasSubstr("Slurm"));
  EXPECT_THAT(DescribeVisible("NoDevFiles").mend, HasSubstr("--gpus"));
}

TEST(VisibleDevicesTest, IndicesUuidsAndSlicesAreRead) {
  for (const char* value :
       {"0", "3,1", "0, 1", "GPU-8932f937", "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6,1",
        "MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f", "MIG-GPU-8932f937-d72c-4106/3/0"}) {
    const VisibleDevices some = DescribeVisible(value);
    EXPECT_EQ(some.kind, Kind::kSome) << value << ": " << some.text;
    EXPECT_THAT(some.text, HasSubstr(value));
    EXPECT_EQ(some.mend, "");
  }
}

TEST(VisibleDevicesTest, RangesAndJunkAreNamed) {
  for (const char* value : {"0-3", "0:3", "0..3", "1,2-3"}) {
    const VisibleDevices junk = DescribeVisible(value);
    EXPECT_EQ(junk.kind, Kind::kJunk) << value;
    EXPECT_THAT(junk.text, HasSubstr("range")) << value;
    EXPECT_THAT(junk.mend, HasSubstr("0,1")) << value;
  }
  for (const char* value : {"all", "gpu0", "0,,1", "GPU-", "GPU-xyz", "1gpu", "none", "0;1"}) {
    EXPECT_EQ(DescribeVisible(value).kind, Kind::kJunk) << value;
  }
  EXPECT_THAT(DescribeVisible("0,junk,1").text, HasSubstr("'junk'"));
  EXPECT_THAT(DescribeVisible("0,1,0").text, HasSubstr("twice"));
}

}  // namespace
}  // namespace tandem
