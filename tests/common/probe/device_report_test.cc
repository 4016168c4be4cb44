#include "common/probe/device_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/base/error.h"

namespace tandem {
namespace {

DeviceReport Report() {
  DeviceReport report;
  report.driver = "580.65.06";
  report.driver_cuda = "13.0";
  report.runtime = "13.0";
  report.toolkit = "12.4";
  report.visible = "0";
  report.installed = 2;
  ReportedDevice device;
  device.uuid = "GPU-1";
  device.model = "A \"model\"";
  device.pci = "0000:18:00.0";
  device.capability = "9.0";
  device.memory_bytes = uint64_t{141} << 30;
  device.multiprocessors = 132;
  device.numa_node = 1;
  device.ecc = true;
  device.ecc_uncorrected = 0;
  device.temperature_celsius = 41.5;
  report.devices = {device, {.uuid = "MIG-2", .model = "slice", .memory_bytes = 5, .slice = true}};
  return report;
}

TEST(DeviceReportTest, GoesThroughJsonAndBack) {
  const std::string text = ToJson(Report());
  EXPECT_EQ(text.find('\n'), text.size() - 1);
  const auto parsed = ParseDeviceReport(text);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(ToJson(*parsed), text);
  EXPECT_EQ(parsed->installed, 2u);
  EXPECT_EQ(parsed->visible, "0");
  EXPECT_EQ(parsed->error, absl::OkStatus());
  ASSERT_EQ(parsed->devices.size(), 2u);
  EXPECT_EQ(parsed->devices[0].memory_bytes, uint64_t{141} << 30);
  EXPECT_EQ(parsed->devices[0].numa_node, 1);
  EXPECT_EQ(parsed->devices[0].ecc, true);
  EXPECT_EQ(parsed->devices[0].temperature_celsius, 41.5);
  EXPECT_EQ(parsed->devices[0].mig, std::nullopt);
  EXPECT_TRUE(parsed->devices[1].slice);
}

TEST(DeviceReportTest, CarriesWhyThereIsNone) {
  DeviceReport report;
  report.error =
      Error(absl::StatusCode::kFailedPrecondition, reason::kVersionSkew, "too old; mend");
  const auto parsed = ParseDeviceReport(ToJson(report));
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->error, report.error);
  EXPECT_EQ(ReasonOf(parsed->error), reason::kVersionSkew);
  EXPECT_EQ(parsed->visible, std::nullopt);
}

TEST(DeviceReportTest, BytesThatAreNoUtf8DoNotStopIt) {
  DeviceReport report;
  report.visible = "\xff\xfe";
  EXPECT_TRUE(ParseDeviceReport(ToJson(report)).ok());
}

TEST(DeviceReportTest, GridsGoThroughToo) {
  const GridReport grid{
      "GPU-1", "saxpy", 20'000,
      0.25,    0.001,   Error(absl::StatusCode::kDataLoss, reason::kDeviceFault, "differs")};
  const auto parsed = ParseGridReport(ToJson(grid));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(ToJson(*parsed), ToJson(grid));
  EXPECT_EQ(parsed->error, grid.error);
}

TEST(DeviceReportTest, WhatIsNoReportIsRefused) {
  const std::string good = ToJson(Report());
  for (size_t length = 0; length + 2 < good.size(); length += 7) {
    EXPECT_EQ(ReasonOf(ParseDeviceReport(good.substr(0, length)).status()), reason::kProtocolError);
  }
  for (const char* text :
       {"[]", "{}", R"({"version":2,"kind":"devices","devices":[]})",
        R"({"version":1,"kind":"grid","devices":[]})", R"({"version":1,"kind":"devices"})",
        R"({"version":1,"kind":"devices","devices":[{"uuid":7}]})",
        R"({"version":1,"kind":"devices","devices":[],"error":{"code":"x"}})"}) {
    EXPECT_EQ(ReasonOf(ParseDeviceReport(text).status()), reason::kProtocolError) << text;
  }
  EXPECT_FALSE(ParseGridReport(good).ok());
}

}  // namespace
}  // namespace tandem
