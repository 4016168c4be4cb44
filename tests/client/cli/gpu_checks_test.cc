#include "client/cli/gpu_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/error.h"

namespace tandem::cli {
namespace {

using testing::HasSubstr;
using Verdict = Finding::Verdict;

ReportedDevice Device(const std::string& uuid) {
  ReportedDevice device;
  device.uuid = uuid;
  device.model = "NVIDIA H200";
  device.capability = "9.0";
  device.memory_bytes = uint64_t{141} << 30;
  device.multiprocessors = 132;
  device.numa_node = 1;
  device.ecc = device.persistence = true;
  device.mig = device.remapping_failed = false;
  device.ecc_uncorrected = 0;
  return device;
}

// A machine with two GPUs that are well.
GpuProbe Well() {
  GpuProbe probe;
  probe.program = "/bin/tandem-executor-cuda";
  probe.hardware = probe.nvidia_smi = true;
  DeviceReport report;
  report.driver = "580.65.06";
  report.driver_cuda = report.runtime = report.toolkit = "13.0";
  report.installed = 2;
  report.devices = {Device("GPU-a"), Device("GPU-b")};
  probe.report = report;
  probe.grids = {GridReport{"GPU-a", "saxpy", 20'000, 0.2, 0.001, absl::OkStatus()},
                 GridReport{"GPU-b", "saxpy", 20'000, 0.2, 0.001, absl::OkStatus()}};
  return probe;
}

Finding Of(const GpuProbe& probe, const std::string& check) {
  for (Finding& finding : CheckGpus(probe)) {
    if (finding.check == check) return std::move(finding);
  }
  ADD_FAILURE() << "nothing is said of " << check;
  return {};
}

TEST(GpuChecksTest, AMachineThatIsWell) {
  const std::vector<Finding> findings = CheckGpus(Well());
  ASSERT_EQ(findings.size(), 5u);
  for (const Finding& finding : findings) {
    EXPECT_EQ(finding.verdict, Verdict::kOk) << finding.check << ": " << finding.found;
    EXPECT_EQ(finding.mend, "");
  }
  EXPECT_EQ(findings[0].found, "2 devices; driver 580.65.06 for CUDA 13.0, built with CUDA 13.0");
  EXPECT_EQ(findings[4].check, "gpu GPU-b");
  EXPECT_EQ(findings[4].found,
            "NVIDIA H200, 141GiB, capability 9.0, NUMA node 1, MIG off, ECC on; a grid of saxpy "
            "agrees with the CPU; jobs may use 90% of what is free (default)");
  EXPECT_EQ(findings[4].facts["memory_bytes"], uint64_t{141} << 30);
  EXPECT_EQ(findings[4].facts["grid_seconds"], 0.001);
}

TEST(GpuChecksTest, WhatJobsMayUseIsHeldAgainstTheDevice) {
  GpuProbe probe = Well();
  probe.memory = *GpuMemory::Parse("80%,GPU-b=200GiB");
  probe.memory_origin = "TANDEM_GPU_MEMORY";
  EXPECT_EQ(Of(probe, "gpu GPU-a").facts["gpu_memory"], "80% of what is free");
  EXPECT_EQ(Of(probe, "gpu GPU-a").verdict, Verdict::kOk);
  const Finding finding = Of(probe, "gpu GPU-b");
  EXPECT_EQ(finding.verdict, Verdict::kFailure);
  EXPECT_EQ(ReasonOf(finding.error), reason::kBadArgument);
  EXPECT_NE(finding.found.find("200GiB (TANDEM_GPU_MEMORY)"), std::string::npos);
  EXPECT_NE(finding.mend.find("--gpu-memory"), std::string::npos);
}

TEST(GpuChecksTest, WithoutCudaItSaysSo) {
  GpuProbe probe;
  EXPECT_EQ(Of(probe, "gpus").verdict, Verdict::kOk);
  EXPECT_THAT(Of(probe, "gpus").found, HasSubstr("built without CUDA"));
  probe.hardware = true;
  EXPECT_EQ(Of(probe, "gpus").verdict, Verdict::kWarning);
  EXPECT_THAT(Of(probe, "gpus").mend, HasSubstr("nvcc"));
}

TEST(GpuChecksTest, NoDriverIsWrongOnlyWhereThereIsAGpu) {
  GpuProbe probe = Well();
  DeviceReport report;
  report.toolkit = report.runtime = "13.0";
  report.error = Error(absl::StatusCode::kUnavailable, reason::kUnsatisfiable,
                       "no driver; install the driver");
  probe.report = report;
  probe.hardware = false;
  EXPECT_EQ(CheckGpus(probe).size(), 1u);
  EXPECT_EQ(Of(probe, "gpus").verdict, Verdict::kOk);
  probe.hardware = true;
  const Finding finding = Of(probe, "gpus");
  EXPECT_EQ(finding.verdict, Verdict::kFailure);
  EXPECT_EQ(finding.found, "no driver");
  EXPECT_EQ(finding.mend, "install the driver");
  EXPECT_EQ(ReasonOf(finding.error), reason::kUnsatisfiable);
}

TEST(GpuChecksTest, ADriverThatHangsFails) {
  GpuProbe probe = Well();
  probe.report = Error(absl::StatusCode::kDeadlineExceeded, reason::kTimeLimit,
                       "did not answer within 30s: the driver hangs; reboot");
  EXPECT_EQ(CheckGpus(probe).size(), 1u);
  EXPECT_EQ(ReasonOf(Of(probe, "gpus").error), reason::kTimeLimit);
  EXPECT_EQ(Of(probe, "gpus").mend, "reboot");
}

TEST(GpuChecksTest, TheMaskIsShownAndJudged) {
  GpuProbe probe = Well();
  probe.report->visible = "GPU-a";
  probe.report->devices.pop_back();
  probe.grids.pop_back();
  EXPECT_EQ(Of(probe, "gpu visible").verdict, Verdict::kOk);
  EXPECT_THAT(Of(probe, "gpu visible").found, HasSubstr("CUDA sees 1 of 2"));
  probe.report->visible = "0-3";
  EXPECT_EQ(Of(probe, "gpu visible").verdict, Verdict::kWarning);
  probe.report->visible = "NoDevFiles";
  probe.report->devices.clear();
  probe.report->error = Error(absl::StatusCode::kNotFound, reason::kUnsatisfiable, "none");
  EXPECT_EQ(Of(probe, "gpus").verdict, Verdict::kOk) << "the mask is what is to be mended";
  EXPECT_THAT(Of(probe, "gpu visible").mend, HasSubstr("srun"));
}

TEST(GpuChecksTest, WhereTheLoaderLooksIsJudged) {
  GpuProbe probe = Well();
  probe.library_path = "/usr/lib:/usr/local/cuda/lib64/stubs";
  EXPECT_EQ(Of(probe, "gpu paths").verdict, Verdict::kFailure);
  EXPECT_THAT(Of(probe, "gpu paths").mend, HasSubstr("/usr/local/cuda/lib64/stubs"));
  probe = Well();
  probe.report->runtime = "12.4";
  EXPECT_EQ(ReasonOf(Of(probe, "gpu paths").error), reason::kVersionSkew);
  probe = Well();
  probe.nvidia_smi = false;
  EXPECT_THAT(Of(probe, "gpu paths").mend, HasSubstr("PATH"));
}

TEST(GpuChecksTest, ADeviceThatIsNotWellHasItsMend) {
  const auto judged = [](const std::function<void(ReportedDevice*)>& spoil) {
    GpuProbe probe = Well();
    spoil(&probe.report->devices[1]);
    EXPECT_EQ(Of(probe, "gpu GPU-a").verdict, Verdict::kOk);
    return Of(probe, "gpu GPU-b");
  };
  const Finding ecc = judged([](ReportedDevice* d) { d->ecc_uncorrected = 3; });
  EXPECT_EQ(ecc.verdict, Verdict::kFailure);
  EXPECT_EQ(ecc.mend, "drain it and reset it: nvidia-smi --gpu-reset -i GPU-b");
  EXPECT_THAT(judged([](ReportedDevice* d) { d->remapping_failed = true; }).mend,
              HasSubstr("replaced"));
  EXPECT_EQ(judged([](ReportedDevice* d) { d->persistence = false; }).mend, "nvidia-smi -pm 1");
  EXPECT_EQ(ReasonOf(judged([](ReportedDevice* d) { d->capability = "7.5"; }).error),
            reason::kVersionSkew);
  EXPECT_EQ(judged([](ReportedDevice* d) { d->capability = "12.0"; }).verdict, Verdict::kOk);
  EXPECT_THAT(judged([](ReportedDevice* d) { d->slice = true; }).found, HasSubstr("a MIG slice"));
}

TEST(GpuChecksTest, AGridThatFailsOrDiffersFails) {
  GpuProbe probe = Well();
  probe.grids[1]->error = Error(absl::StatusCode::kDataLoss, reason::kDeviceFault,
                                "task 4 differs; take it out of service");
  EXPECT_EQ(Of(probe, "gpu GPU-b").verdict, Verdict::kFailure);
  EXPECT_EQ(Of(probe, "gpu GPU-b").mend, "take it out of service");
  probe.grids[0] = Error(absl::StatusCode::kDeadlineExceeded, reason::kTimeLimit, "hangs; reboot");
  EXPECT_EQ(ReasonOf(Of(probe, "gpu GPU-a").error), reason::kTimeLimit);
}

TEST(GpuChecksTest, HardwareIsFoundWithoutADriver) {
  namespace fs = std::filesystem;
  const fs::path root = fs::path(testing::TempDir()) / "gpu_checks_test";
  fs::remove_all(root);
  const fs::path pci = root / "sys/bus/pci/devices/0000:18:00.0";
  fs::create_directories(pci);
  std::ofstream(pci / "vendor") << "0x10de\n";
  std::ofstream(pci / "class") << "0x040300\n";  // its sound
  EXPECT_FALSE(HasNvidiaHardware(root));
  std::ofstream(pci / "class") << "0x030200\n";
  EXPECT_TRUE(HasNvidiaHardware(root));
  fs::remove_all(root / "sys");
  fs::create_directories(root / "dev");
  std::ofstream(root / "dev/nvidiactl") << "";
  EXPECT_TRUE(HasNvidiaHardware(root));
  fs::remove_all(root);
}

}  // namespace
}  // namespace tandem::cli
