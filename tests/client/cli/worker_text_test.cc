#include "client/cli/worker_text.h"

#include <limits>

#include "gtest/gtest.h"

namespace tandem::cli {
namespace {

TEST(WorkerTextTest, AReadingSaysWhatTheDriverTold) {
  DeviceReading reading;
  reading.uuid = "GPU-1";
  EXPECT_EQ(ReadingText(reading), "GPU-1:");
  reading.utilization = 0.374;
  reading.memory_utilization = 0.12;
  reading.memory_used_bytes = 3 << 20;
  reading.temperature_celsius = 41;
  reading.power_watts = 123.5;
  EXPECT_EQ(ReadingText(reading), "GPU-1: busy 37%, its memory 12%, used 3MiB, 41 °C, 124 W");
  reading = {};
  reading.power_watts = std::numeric_limits<double>::max();
  reading.power_limit_watts = 700;
  reading.ecc_corrected = 5;
  reading.ecc_uncorrected = 1;
  EXPECT_EQ(ReadingText(reading), ": 1000000000 of 700 W, ECC errors 5 corrected, 1 not");
  reading = {};
  reading.ecc = false;
  EXPECT_EQ(ReadingText(reading), ": ECC off");
}

TEST(WorkerTextTest, TheShapeOfADeviceIsTheSameWhateverIsKnown) {
  client::WorkerSummary worker;
  worker.devices.resize(2);
  worker.devices[1].kind = DeviceKind::kGpu;
  DeviceReading& reading = worker.devices[1].reading.emplace();
  reading.temperature_celsius = 41;
  reading.ecc = true;
  const nlohmann::ordered_json devices = WorkerJson(worker)["devices"];
  EXPECT_EQ(devices[0]["reading"].dump(), "null");
  EXPECT_EQ(devices[1]["reading"].dump(),
            R"({"utilization":null,"memory_utilization":null,"memory_used_bytes":null,)"
            R"("temperature_celsius":41.0,"power_watts":null,"power_limit_watts":null,)"
            R"("ecc":true,"ecc_corrected":null,"ecc_uncorrected":null})");
}

}  // namespace
}  // namespace tandem::cli
