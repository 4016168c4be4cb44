#include "common/data/room_keeper.h"

#include <memory>
#include <string>

#include "common/base/error.h"
#include "common/base/reason.h"
#include "common/data/segment_store.h"
#include "gtest/gtest.h"
#include "tests/support/fault_file_system.h"

namespace tandem {
namespace {

class RoomKeeperTest : public ::testing::Test {
 protected:
  RoomKeeperTest() : keeper_(&fs_, 1000, [this] { return free_; }) {}

  std::unique_ptr<File> NewFile() {
    EXPECT_TRUE(keeper_.CreateDirectory("/data").ok());
    return *keeper_.Open("/data/a", FileSystem::Mode::kCreate);
  }

  FaultFileSystem fs_;
  uint64_t free_ = 1500;
  RoomKeeper keeper_;
};

TEST_F(RoomKeeperTest, WhatWouldGrowIntoTheKeptPartIsRefusedAsOnAFullDisk) {
  const std::unique_ptr<File> file = NewFile();
  EXPECT_TRUE(file->Reserve(500).ok());
  const absl::Status refused = file->Reserve(1001);
  EXPECT_EQ(ReasonOf(refused), reason::kDiskFull) << refused;
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReasonOf(WriteFully(*file, 0, std::string(1001, 'x'))), reason::kDiskFull);
}

TEST_F(RoomKeeperTest, WhatWasReservedAndWhatIsThereCanBeWritten) {
  const std::unique_ptr<File> file = NewFile();
  ASSERT_TRUE(file->Reserve(500).ok());
  free_ = 900;
  EXPECT_TRUE(keeper_.Low());
  EXPECT_TRUE(WriteFully(*file, 0, std::string(500, 'x')).ok());
  EXPECT_TRUE(WriteFully(*file, 100, "over it").ok());
  EXPECT_FALSE(WriteFully(*file, 500, "y").ok());
  free_ = 1001;
  EXPECT_FALSE(keeper_.Low());
  EXPECT_TRUE(WriteFully(*file, 500, "y").ok());
}

TEST_F(RoomKeeperTest, ASegmentGoesOnWhenThereIsRoomAgain) {
  free_ = 64 << 20;
  auto segments = *SegmentStore::Open(&keeper_, "/data", {});
  auto appender = *segments->NewAppender("ada");
  ASSERT_TRUE(appender->Append(std::string(100, 'a')).ok());
  free_ = 1000;
  const absl::Status refused = appender->Append(std::string(32 << 20, 'b')).status();
  EXPECT_EQ(ReasonOf(refused), reason::kDiskFull) << refused;
  free_ = 64 << 20;
  EXPECT_TRUE(appender->Append(std::string(32 << 20, 'c')).ok());
}

}  // namespace
}  // namespace tandem
