#include "worker/server/learned_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/base/rng.h"

namespace tandem::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);

DeviceModelState Learn(const std::vector<std::string>& kernels) {
  DeviceModel model;
  Rng rng(3);
  const MonoTime now = MonoTime::FromNanos(1);
  for (const std::string& kernel : kernels) {
    for (int i = 0; i < 20; ++i) {
      const double tasks = static_cast<double>(rng.Between(1, 1'000'000));
      const BatchMeasured measured = {1e-6,         1e-6 + tasks * 1e-9, tasks * 3e-9,
                                      tasks * 2e-9, tasks * 8,           tasks * 4};
      EXPECT_TRUE(model.Learn({kernel, "k=21"}, {tasks, 1e-7}, measured, now));
    }
  }
  return model.State(now + absl::Seconds(5));
}

std::vector<KeptDevice> SomeDevices() {
  return {{{"cpu", 2, Learn({"a@1", "b@2"})}, "a CPU; cores=2"},
          {{"cuda:GPU-1", 1, Learn({"b@2"})}, "NVIDIA H200"}};
}

TEST(LearnedFileTest, WhatIsWrittenIsReadAsItWas) {
  const std::vector<KeptDevice> devices = SomeDevices();
  const auto read = DecodeLearned(EncodeLearned(devices, kNow), kNow);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, devices);
  EXPECT_THAT(*DecodeLearned(EncodeLearned({}, kNow), kNow), ElementsAre());
}

TEST(LearnedFileTest, AgesGoOnWhileNobodyRuns) {
  const std::string bytes = EncodeLearned(SomeDevices(), kNow);
  const auto age = [&](absl::Time now) {
    return (*DecodeLearned(bytes, now))[0].learned.model.kernels[0].age;
  };
  EXPECT_EQ(age(kNow + absl::Hours(1)), absl::Hours(1) + absl::Seconds(5));
  EXPECT_EQ(age(kNow - absl::Hours(1)), absl::ZeroDuration()) << "the clock was set back";
}

TEST(LearnedFileTest, WhatWasCutOrChangedIsRefused) {
  const std::string bytes = EncodeLearned(SomeDevices(), kNow);
  const auto refused = [](const std::string& spoilt) {
    const auto read = DecodeLearned(spoilt, kNow);
    return !read.ok() && ReasonOf(read.status()) == reason::kBadFile;
  };
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_TRUE(refused(bytes.substr(0, size))) << size;
  }
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string spoilt = bytes;
    spoilt[at] = static_cast<char>(spoilt[at] ^ 0x10);
    EXPECT_TRUE(refused(spoilt)) << at;
  }
  EXPECT_TRUE(refused(bytes + "x"));
  EXPECT_TRUE(refused(std::string(kLearnedBytesMax + 1, 'x')));
  std::string later = bytes;
  later.replace(later.find("1\n"), 1, "2");
  EXPECT_THAT(std::string(DecodeLearned(later, kNow).status().message()),
              HasSubstr("another version"));
}

TEST(LearnedFileTest, OnlyWhatIsStillThereIsTakenOver) {
  const std::map<std::string, std::string> hardware = {{"cpu", "a CPU; cores=2"},
                                                       {"cuda:GPU-1", "NVIDIA H100"}};
  LearnedThatFits fits = KeepWhatFits(SomeDevices(), hardware, {"b@2", "c@3"});
  ASSERT_EQ(fits.devices.size(), 1u);
  EXPECT_EQ(fits.devices[0].device, "cpu");
  ASSERT_EQ(fits.devices[0].model.kernels.size(), 1u);
  EXPECT_EQ(fits.devices[0].model.kernels[0].key.kernel, "b@2");
  EXPECT_EQ(fits.kernels, 1u);
  EXPECT_EQ(fits.kernels_dropped, 1u) << "a@1 is of another build";
  EXPECT_EQ(fits.devices_dropped, "cuda:GPU-1") << "replaced";
  fits = KeepWhatFits(SomeDevices(), {}, {"a@1", "b@2"});
  EXPECT_EQ(fits.devices_dropped, "cpu, cuda:GPU-1");
}

class LearnedKeeperTest : public ::testing::Test {
 protected:
  LearnedKeeperTest() {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~LearnedKeeperTest() override { std::filesystem::remove_all(folder_); }

  const std::string folder_ = ::testing::TempDir() + "learned_keeper_test";
  const std::string path_ = folder_ + "/learned";
};

TEST_F(LearnedKeeperTest, TheLastThatWasSavedIsThereWhenItEnds) {
  {
    LearnedKeeper keeper(path_);
    EXPECT_TRUE(absl::IsNotFound(keeper.Read(kNow).status()));
    for (int i = 0; i < 20; ++i) keeper.Save(EncodeLearned({}, kNow));
    keeper.Save(EncodeLearned(SomeDevices(), kNow));
  }
  LearnedKeeper keeper(path_);
  const auto read = keeper.Read(kNow);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, SomeDevices());
  // Nothing else is left behind.
  const std::filesystem::directory_iterator entries(folder_);
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 1);
}

TEST_F(LearnedKeeperTest, AFolderThatCannotBeWrittenHarmsNobody) {
  {
    LearnedKeeper keeper(folder_ + "/missing/learned");
    keeper.Save(EncodeLearned({}, kNow));
    keeper.Save(EncodeLearned({}, kNow));
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/missing"));
}

TEST_F(LearnedKeeperTest, AFileThatIsCutShortIsNoFile) {
  { LearnedKeeper(path_).Save(EncodeLearned(SomeDevices(), kNow)); }
  std::filesystem::resize_file(path_, std::filesystem::file_size(path_) / 2);
  EXPECT_EQ(ReasonOf(LearnedKeeper(path_).Read(kNow).status()), reason::kBadFile);
}

}  // namespace
}  // namespace tandem::worker
