// NVML: on a fake library that does as it is told, on softcuda's, and on a real one.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <deque>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "common/base/error.h"
#include "tests/worker/device/fake_nvml.h"
#include "worker/device/nvml/nvml_library.h"
#include "worker/device/nvml/nvml_monitor.h"
#include "worker/device/nvml/xid.h"

namespace tandem::worker {
namespace {

using testing::HasSubstr;

constexpr absl::Duration kPatience = absl::Seconds(30);

TEST(XidTest, TheseTakeADeviceOutOfService) {
  for (const uint64_t xid : {79, 48, 46, 95, 119, 120, 64}) {
    EXPECT_EQ(MeaningOfXid(xid), XidMeaning::kOutOfService) << xid;
  }
}

TEST(XidTest, AnApplicationsErrorsDoNot) {
  for (const uint64_t xid : {13, 31, 43, 45, 68, 109}) {
    EXPECT_EQ(MeaningOfXid(xid), XidMeaning::kApplication) << xid;
  }
  EXPECT_EQ(MeaningOfXid(63), XidMeaning::kNoted);
  EXPECT_EQ(MeaningOfXid(uint64_t{1} << 40), XidMeaning::kNoted);
}

TEST(XidTest, IsDescribedWithItsMend) {
  EXPECT_THAT(DescribeXid(79), HasSubstr("Xid 79: the GPU has fallen off the bus"));
  EXPECT_THAT(DescribeXid(4242), HasSubstr("Xid 4242"));
}

// Collects what a monitor tells.
class Events {
 public:
  NvmlMonitor::Listener Listener() {
    return [this](const GpuEvent& event) {
      absl::MutexLock lock(&mu_);
      events_.push_back(event);
    };
  }
  GpuEvent Next() {
    absl::MutexLock lock(&mu_);
    const bool came = mu_.AwaitWithTimeout(
        absl::Condition(
            +[](std::deque<GpuEvent>* events) { return !events->empty(); }, &events_),
        kPatience);
    EXPECT_TRUE(came);
    if (!came) return {};
    GpuEvent event = events_.front();
    events_.pop_front();
    return event;
  }

 private:
  absl::Mutex mu_;
  std::deque<GpuEvent> events_ ABSL_GUARDED_BY(mu_);
};

// Until a monitor says so; false if it never does.
bool Becomes(const NvmlMonitor& monitor, absl::StatusCode code) {
  const absl::Time give_up = absl::Now() + kPatience;
  while (monitor.status().code() != code) {
    if (absl::Now() >= give_up) return false;
    std::this_thread::yield();
  }
  return true;
}

class NvmlTest : public testing::Test {
 protected:
  void SetUp() override {
    void* const handle = dlopen(TANDEM_FAKE_NVML, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(handle, nullptr) << dlerror();
    fake_ = reinterpret_cast<FakeNvmlFunction>(dlsym(handle, "fake_nvml"))();
    fake_->reset();
  }
  static NvmlOptions Options() {
    return {.library = TANDEM_FAKE_NVML, .read_every = absl::Milliseconds(2)};
  }
  const FakeNvml* fake_ = nullptr;
};

TEST_F(NvmlTest, ReadsEveryDevice) {
  const auto nvml = NvmlLibrary::Open(TANDEM_FAKE_NVML);
  ASSERT_TRUE(nvml.ok()) << nvml.status();
  EXPECT_EQ((*nvml)->DriverVersion(), "599.12.03");
  fake_->set_uncorrected(1, 3);
  const std::vector<GpuReading> readings = (*nvml)->Read();
  ASSERT_EQ(readings.size(), 2u);
  const GpuReading& second = readings[1];
  EXPECT_EQ(second.uuid, "GPU-fake-1");
  EXPECT_EQ(second.model, "Fake 1");
  EXPECT_DOUBLE_EQ(second.utilization.value(), 0.37);
  EXPECT_DOUBLE_EQ(second.memory_utilization.value(), 0.12);
  EXPECT_EQ(second.memory_total_bytes, 1000u);
  EXPECT_EQ(second.memory_used_bytes, 400u);
  EXPECT_EQ(second.temperature_celsius, 41.0);
  EXPECT_DOUBLE_EQ(second.power_watts.value(), 123.5);
  EXPECT_EQ(second.ecc_corrected, 5u);
  EXPECT_EQ(second.ecc_uncorrected, 3u);
  EXPECT_EQ(readings[0].ecc_uncorrected, 0u);
  // What the device does not have, and what the library does not.
  EXPECT_EQ(second.mig, std::nullopt);
  EXPECT_EQ(second.power_limit_watts, std::nullopt);
  EXPECT_EQ(second.persistence, std::nullopt);
}

TEST_F(NvmlTest, AMissingLibraryIsSaid) {
  NvmlMonitor monitor({.library = "/none/libnvidia-ml.so.1"}, nullptr);
  const absl::Time give_up = absl::Now() + kPatience;
  while (absl::IsUnknown(monitor.status()) && absl::Now() < give_up) std::this_thread::yield();
  EXPECT_EQ(monitor.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(monitor.status().message()), HasSubstr("/none/libnvidia-ml.so.1"));
  EXPECT_TRUE(monitor.readings().empty());
}

TEST_F(NvmlTest, ALibraryThatIsNoNvmlIsSaid) {
  EXPECT_THAT(std::string(NvmlLibrary::Open("libm.so.6").status().message()),
              HasSubstr("is no NVML"));
}

TEST_F(NvmlTest, AnErrorAtTheStartIsSaid) {
  fake_->fail_init(9);
  const absl::Status status = NvmlLibrary::Open(TANDEM_FAKE_NVML).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("Driver Not Loaded (9)"));
}

TEST_F(NvmlTest, XidsAreToldWithTheirMeaning) {
  Events events;
  NvmlMonitor monitor(Options(), events.Listener());
  fake_->push_xid(1, 79);
  const GpuEvent lost = events.Next();
  EXPECT_EQ(lost.uuid, "GPU-fake-1");
  EXPECT_EQ(lost.xid, 79u);
  EXPECT_TRUE(lost.out_of_service);
  EXPECT_THAT(lost.text, HasSubstr("fallen off the bus"));
  fake_->push_xid(0, 31);
  const GpuEvent fault = events.Next();
  EXPECT_EQ(fault.uuid, "GPU-fake-0");
  EXPECT_FALSE(fault.out_of_service);
  EXPECT_TRUE(Becomes(monitor, absl::StatusCode::kOk));
  EXPECT_EQ(monitor.readings().size(), 2u);
}

TEST_F(NvmlTest, WhatNoXidTellsIsReadAndToldOnce) {
  fake_->take_events_away();
  Events events;
  fake_->set_uncorrected(0, 2);  // of before: says nothing
  NvmlMonitor monitor(Options(), events.Listener());
  EXPECT_TRUE(Becomes(monitor, absl::StatusCode::kUnavailable));
  EXPECT_THAT(std::string(monitor.status().message()), HasSubstr("no Xids"));
  EXPECT_EQ(monitor.readings().size(), 2u);
  fake_->lose(1);
  const GpuEvent lost = events.Next();
  EXPECT_EQ(lost.uuid, "GPU-fake-1");
  EXPECT_TRUE(lost.out_of_service);
  EXPECT_THAT(lost.text, HasSubstr("lost"));
  fake_->set_uncorrected(0, 3);
  const GpuEvent ecc = events.Next();
  EXPECT_EQ(ecc.uuid, "GPU-fake-0");
  EXPECT_TRUE(ecc.out_of_service);
  EXPECT_THAT(ecc.text, HasSubstr("uncorrectable"));
  fake_->fail_remapping(0);
  EXPECT_THAT(events.Next().text, HasSubstr("no spare"));
}

TEST_F(NvmlTest, AHangIsSaidAndHoldsNobodyUp) {
  NvmlOptions options = Options();
  options.limit = absl::Milliseconds(50);
  {
    NvmlMonitor monitor(options, nullptr);
    EXPECT_TRUE(Becomes(monitor, absl::StatusCode::kOk));
    fake_->hang(true);
    EXPECT_TRUE(Becomes(monitor, absl::StatusCode::kUnavailable));
    EXPECT_THAT(std::string(monitor.status().message()), HasSubstr("hangs"));
    fake_->hang(false);
    EXPECT_TRUE(Becomes(monitor, absl::StatusCode::kOk)) << "it came back";
    fake_->hang(true);
    EXPECT_TRUE(Becomes(monitor, absl::StatusCode::kUnavailable));
  }  // ends without it
  fake_->hang(false);
}

// softcuda's library, found by LD_LIBRARY_PATH; its settings are read at each call.
TEST(SoftcudaNvmlTest, ReadsAndTellsXids) {
  if (std::getenv("TANDEM_TEST_SOFTCUDA") == nullptr) GTEST_SKIP() << "skipped: not on softcuda";
  const std::string path = testing::TempDir() + "/nvml_test.conf";
  const auto configure = [&](const std::string& more) {
    std::ofstream(path) << "SOFTCUDA_NVML_TEMPERATURE=71\nSOFTCUDA_NVML_POWER_MW=250000\n"
                           "SOFTCUDA_NVML_ECC_UNCORRECTED=0\n"
                        << more;
  };
  configure("");
  setenv("SOFTCUDA_CONFIG", path.c_str(), 1);
  setenv("SOFTCUDA_DEVICES", "2", 1);
  Events events;
  NvmlMonitor monitor({.read_every = absl::Milliseconds(5)}, events.Listener());
  ASSERT_TRUE(Becomes(monitor, absl::StatusCode::kOk)) << monitor.status();
  const std::vector<GpuReading> readings = monitor.readings();
  ASSERT_EQ(readings.size(), 2u);
  EXPECT_EQ(readings[0].temperature_celsius, 71.0);
  EXPECT_EQ(readings[0].power_watts, 250.0);
  EXPECT_EQ(readings[1].pci, "0000:02:00.0");
  EXPECT_GT(readings[1].memory_total_bytes.value(), 0u);
  EXPECT_NE(readings[0].uuid, readings[1].uuid);
  configure("SOFTCUDA_NVML_XID_1=31,48\n");
  EXPECT_FALSE(events.Next().out_of_service);
  const GpuEvent ecc = events.Next();
  EXPECT_TRUE(ecc.out_of_service);
  EXPECT_EQ(ecc.uuid, readings[1].uuid);
  EXPECT_EQ(ecc.xid, 48u);
  configure("SOFTCUDA_NVML_LOST_0=1\nSOFTCUDA_NVML_XID_1=31,48\n");
  const GpuEvent lost = events.Next();
  EXPECT_EQ(lost.uuid, readings[0].uuid);
  EXPECT_TRUE(lost.out_of_service);
}

TEST(RealNvmlTest, SaysWhatIsPlausible) {
  const auto nvml = NvmlLibrary::Open(kNvmlPath);
  if (!nvml.ok()) GTEST_SKIP() << "skipped: no CUDA device: " << nvml.status();
  EXPECT_NE((*nvml)->DriverVersion(), "");
  for (const GpuReading& reading : (*nvml)->Read()) {
    EXPECT_TRUE(reading.uuid.starts_with("GPU-")) << reading.uuid;
    EXPECT_FALSE(reading.lost);
    EXPECT_GT(reading.memory_total_bytes.value_or(0), 0u);
    EXPECT_LE(reading.memory_used_bytes.value_or(0), reading.memory_total_bytes.value_or(0));
    EXPECT_GT(reading.temperature_celsius.value_or(20), 0);
    EXPECT_LT(reading.temperature_celsius.value_or(20), 120);
    EXPECT_LE(reading.utilization.value_or(0), 1);
  }
}

}  // namespace
}  // namespace tandem::worker
