#include "client/cli/gpu_checks.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "common/base/strings.h"
#include "common/probe/probe_process.h"
#include "common/probe/visible_devices.h"

namespace tandem::cli {
namespace {

namespace fs = std::filesystem;
using absl::StatusCode;

constexpr char kProgram[] = "tandem-executor-cuda";
constexpr double kCapabilityLeast = 8.0;

// Beside `tandem` in a build folder, else where an installation has it.
std::string FindProgram(const std::string& directory) {
  for (const std::string& folder : {directory, StrCat(directory, "/../libexec/tandem")}) {
    const std::string path = StrCat(folder, "/", kProgram);
    if (access(path.c_str(), X_OK) == 0) return path;
  }
  return "";
}

std::string Environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool IsOnPath(std::string_view name) {
  const std::string path = Environment("PATH");
  for (const std::string_view folder : Split(path, ':')) {
    if (access(StrCat(folder, "/", name).c_str(), X_OK) == 0) return true;
  }
  return false;
}

// "13" of "13.0"
std::string_view Major(std::string_view version) { return version.substr(0, version.find('.')); }

Finding FailAs(Finding finding, const absl::Status& error) {
  finding.verdict = Finding::Verdict::kFailure;
  finding.error = error;
  // A sentence of ours ends with its mend, behind a semicolon.
  const std::string text(error.message());
  const size_t mend = text.find("; ");
  finding.found = text.substr(0, mend);
  finding.mend = mend == std::string::npos ? "see nvidia-smi and dmesg" : text.substr(mend + 2);
  return finding;
}

// Whether Tandem, driver and toolkit can work together at all.
Finding CheckDriver(const GpuProbe& probe) {
  Finding finding{.check = "gpus"};
  if (probe.program.empty()) {
    finding.found = probe.hardware ? "an NVIDIA GPU is here, but this Tandem was built without CUDA"
                                   : "built without CUDA, and no NVIDIA GPU here";
    if (!probe.hardware) return finding;
    return std::move(finding).Warn(
        "build Tandem where nvcc of CUDA 12 or later is found, to use the GPU");
  }
  if (!probe.report.ok()) return FailAs(std::move(finding), probe.report.status());
  const DeviceReport& report = *probe.report;
  finding.facts = {{"driver", report.driver},
                   {"driver_cuda", report.driver_cuda},
                   {"runtime", report.runtime},
                   {"toolkit", report.toolkit},
                   {"devices", report.devices.size()}};
  if (report.installed.has_value()) finding.facts["installed"] = *report.installed;
  if (report.driver_cuda.empty() && !probe.hardware) {
    finding.found = "no NVIDIA GPU and no driver here";
    return finding;
  }
  const bool hidden = DescribeVisible(report.visible).kind != VisibleDevices::Kind::kAll;
  if (!report.error.ok() && !(hidden && absl::IsNotFound(report.error))) {
    return FailAs(std::move(finding), report.error);
  }
  finding.found = StrCat(report.devices.size(), report.devices.size() == 1 ? " device" : " devices",
                         "; driver ", report.driver.empty() ? "unknown" : report.driver,
                         " for CUDA ", report.driver_cuda, ", built with CUDA ", report.toolkit);
  if (report.nvml.empty()) return finding;
  StrAppend(&finding.found, "; ", report.nvml);
  return std::move(finding).Warn(
      "install NVIDIA's management library, libnvidia-ml.so.1, which comes with the driver");
}

Finding CheckMask(const DeviceReport& report) {
  const VisibleDevices visible = DescribeVisible(report.visible);
  Finding finding{.check = "gpu visible", .found = visible.text};
  if (report.visible.has_value()) finding.facts["visible"] = *report.visible;
  if (report.installed.has_value()) {
    StrAppend(&finding.found, "; CUDA sees ", report.devices.size(), " of ", *report.installed);
  }
  if (visible.mend.empty() && !report.devices.empty()) return finding;
  return std::move(finding).Warn(visible.mend.empty()
                                     ? "nvidia-smi -L lists what there is; correct the variable"
                                     : visible.mend);
}

// Where the loader finds CUDA's libraries.
Finding CheckPaths(const GpuProbe& probe) {
  const DeviceReport& report = *probe.report;
  Finding finding{.check = "gpu paths",
                  .facts = {{"ld_library_path", probe.library_path},
                            {"runtime", report.runtime},
                            {"nvidia_smi", probe.nvidia_smi}}};
  finding.found = StrCat("CUDA runtime ", report.runtime);
  for (const std::string_view folder : Split(probe.library_path, ':')) {
    if (!folder.ends_with("/stubs") && !folder.ends_with("/stubs/")) continue;
    StrAppend(&finding.found, "; LD_LIBRARY_PATH has ", folder, ", whose libcuda is no driver");
    return std::move(finding).Fail(StatusCode::kFailedPrecondition, reason::kVersionSkew,
                                   StrCat("take ", folder, " out of LD_LIBRARY_PATH"));
  }
  if (Major(report.runtime) != Major(report.toolkit)) {
    StrAppend(&finding.found, ", but built with ", report.toolkit);
    return std::move(finding).Fail(
        StatusCode::kFailedPrecondition, reason::kVersionSkew,
        StrCat("let LD_LIBRARY_PATH find libcudart of CUDA ", report.toolkit, " first"));
  }
  if (!probe.nvidia_smi) {
    StrAppend(&finding.found, "; nvidia-smi is not found by PATH");
    return std::move(finding).Warn("add the folder of nvidia-smi to PATH: mends below use it");
  }
  return finding;
}

std::string OnOff(const std::optional<bool>& value) {
  return !value.has_value() ? "unknown" : *value ? "on" : "off";
}

// What it is, in a line.
std::string DescribeDevice(const ReportedDevice& device) {
  std::string text = StrCat(device.model, ", ", HumanSize(device.memory_bytes), ", capability ",
                            device.capability, ", NUMA node ");
  if (device.numa_node.has_value()) {
    StrAppend(&text, *device.numa_node);
  } else {
    StrAppend(&text, "unknown");
  }
  StrAppend(&text, ", ", device.slice ? "a MIG slice" : StrCat("MIG ", OnOff(device.mig)), ", ECC ",
            OnOff(device.ecc));
  return text;
}

// The device's state, as far as NVML tells.
Finding JudgeState(Finding finding, const ReportedDevice& device) {
  if (std::atof(device.capability.c_str()) < kCapabilityLeast) {
    return std::move(finding).Fail(StatusCode::kFailedPrecondition, reason::kVersionSkew,
                                   "Tandem's kernels need capability 8.0 (Ampere) or later");
  }
  if (device.remapping_failed.value_or(false)) {
    StrAppend(&finding.found, "; a bad row of memory has no spare");
    return std::move(finding).Fail(StatusCode::kUnavailable, reason::kDeviceFault,
                                   "have the device replaced");
  }
  if (device.ecc_uncorrected.value_or(0) > 0) {
    StrAppend(&finding.found, "; ", *device.ecc_uncorrected, " uncorrectable memory errors");
    return std::move(finding).Fail(
        StatusCode::kUnavailable, reason::kDeviceFault,
        StrCat("drain it and reset it: nvidia-smi --gpu-reset -i ", device.uuid));
  }
  if (!device.persistence.value_or(true)) {
    StrAppend(&finding.found, "; persistence off: each start of an executor takes longer");
    return std::move(finding).Warn("nvidia-smi -pm 1");
  }
  return finding;
}

Finding CheckDevice(const GpuProbe& probe, size_t index) {
  const ReportedDevice& device = probe.report->devices[index];
  const absl::StatusOr<GridReport>& grid = probe.grids[index];
  Finding finding{.check = StrCat("gpu ", device.uuid),
                  .found = DescribeDevice(device),
                  .facts = {{"uuid", device.uuid},
                            {"model", device.model},
                            {"pci", device.pci},
                            {"capability", device.capability},
                            {"memory_bytes", device.memory_bytes},
                            {"multiprocessors", device.multiprocessors},
                            {"slice", device.slice}}};
  if (device.numa_node.has_value()) finding.facts["numa_node"] = *device.numa_node;
  if (device.mig.has_value()) finding.facts["mig"] = *device.mig;
  if (device.ecc.has_value()) finding.facts["ecc"] = *device.ecc;
  if (device.ecc_uncorrected.has_value()) {
    finding.facts["ecc_uncorrected"] = *device.ecc_uncorrected;
  }
  const absl::Status ran = grid.ok() ? grid->error : grid.status();
  if (!ran.ok()) return FailAs(std::move(finding), ran);
  finding.facts["start_seconds"] = grid->start_seconds;
  finding.facts["grid_seconds"] = grid->grid_seconds;
  StrAppend(&finding.found, "; a grid of ", grid->kernel, " agrees with the CPU");
  const std::string share = probe.memory.For(device.uuid).Words();
  finding.facts["gpu_memory"] = share;
  finding.facts["gpu_memory_origin"] = probe.memory_origin;
  StrAppend(&finding.found, "; jobs may use ", share, " (", probe.memory_origin, ")");
  if (!probe.memory.CheckAgainst(device.uuid, device.memory_bytes).ok()) {
    return std::move(finding).Fail(StatusCode::kInvalidArgument, reason::kBadArgument,
                                   "give workers less of its memory: --gpu-memory 90%, or "
                                   "`tandem config set gpu_memory 90%`");
  }
  return JudgeState(std::move(finding), device);
}

}  // namespace

bool HasNvidiaHardware(const std::string& root) {
  std::error_code failed;
  if (fs::exists(fs::path(root) / "dev/nvidiactl", failed)) return true;
  const fs::path folder = fs::path(root) / "sys/bus/pci/devices";
  for (const auto& entry : fs::directory_iterator(folder, failed)) {
    std::string vendor, kind;
    std::ifstream(entry.path() / "vendor") >> vendor;
    std::ifstream(entry.path() / "class") >> kind;
    if (vendor == "0x10de" && kind.starts_with("0x03")) return true;  // a display controller
  }
  return false;
}

GpuProbe ProbeGpus(const std::string& directory, absl::Duration limit) {
  GpuProbe probe;
  probe.program = FindProgram(directory);
  probe.hardware = HasNvidiaHardware("/");
  probe.library_path = Environment("LD_LIBRARY_PATH");
  probe.nvidia_smi = IsOnPath("nvidia-smi");
  if (probe.program.empty()) return probe;
  const auto text = RunProbe({probe.program, "--probe"}, limit);
  probe.report = text.ok() ? ParseDeviceReport(*text) : text.status();
  if (!probe.report.ok()) return probe;
  for (const ReportedDevice& device : probe.report->devices) {
    const auto ran = RunProbe({probe.program, StrCat("--check=", device.uuid)}, limit);
    probe.grids.push_back(ran.ok() ? ParseGridReport(*ran) : ran.status());
  }
  return probe;
}

std::vector<Finding> CheckGpus(const GpuProbe& probe) {
  std::vector<Finding> findings = {CheckDriver(probe)};
  if (probe.program.empty() || !probe.report.ok()) return findings;
  const DeviceReport& report = *probe.report;
  if (report.driver_cuda.empty()) return findings;
  findings.push_back(CheckMask(report));
  findings.push_back(CheckPaths(probe));
  for (size_t i = 0; i < report.devices.size(); ++i) {
    findings.push_back(CheckDevice(probe, i));
  }
  return findings;
}

}  // namespace tandem::cli
