// The probe on a device, real or softcuda's: what it lists works.
#include <gtest/gtest.h>

#include "tests/worker/device/cuda_process.h"
#include "worker/device/cuda/probe.h"
#include "worker/device/nvml/nvml_library.h"

namespace tandem::worker {
namespace {

using CudaProbeTest = CudaProcessTest;

TEST_F(CudaProbeTest, EveryDeviceThatItListsRunsAGrid) {
  InChild({}, [&] {
    const DeviceReport report = ProbeDevices(kNvmlPath);
    EXPECT_EQ(report.error, absl::OkStatus());
    EXPECT_NE(report.driver_cuda, "");
    ASSERT_FALSE(report.devices.empty());
    EXPECT_EQ(report.devices[0].uuid, uuid_);
    for (const ReportedDevice& device : report.devices) {
      EXPECT_GT(device.memory_bytes, 0u);
      EXPECT_GT(device.multiprocessors, 0u);
    }
  });
  InChild({}, [&] {
    const GridReport grid = CheckGrid(uuid_);
    EXPECT_EQ(grid.error, absl::OkStatus());
    EXPECT_GT(grid.grid_seconds, 0);
  });
}

}  // namespace
}  // namespace tandem::worker
