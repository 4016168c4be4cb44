#include "worker/device/cuda/probe.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string_view>
#include <utility>

#include "common/base/strings.h"
#include "common/probe/visible_devices.h"
#include "worker/device/cuda/device_list.h"
#include "worker/device/nvml/nvml_library.h"

namespace tandem::worker {
namespace {

// A probe that nobody waits for any more ends itself.
constexpr unsigned kSecondsMax = 120;

// "12.4" of 12040; "" of none.
std::string VersionText(int version) {
  return version == 0 ? "" : StrCat(version / 1000, ".", version % 1000 / 10);
}

std::optional<std::string> Environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

// The kernel says -1 where a machine has one node.
std::optional<int32_t> NumaNodeOf(const std::string& pci) {
  std::ifstream file(StrCat("/sys/bus/pci/devices/", pci, "/numa_node"));
  int32_t node = -1;
  return file >> node && node >= 0 ? std::optional<int32_t>(node) : std::nullopt;
}

ReportedDevice Described(const CudaDevice& device) {
  ReportedDevice described;
  described.uuid = device.uuid;
  described.model = device.model;
  described.pci = device.pci;
  described.capability = StrCat(device.capability_major, ".", device.capability_minor);
  described.memory_bytes = device.memory_bytes;
  described.multiprocessors = device.multiprocessors;
  described.slice = device.slice;
  described.numa_node = NumaNodeOf(device.pci);
  return described;
}

// Where a slice sits, NVML tells of the whole GPU.
void AddReading(const GpuReading& reading, ReportedDevice* device) {
  device->ecc = reading.ecc;
  device->ecc_uncorrected = reading.ecc_uncorrected;
  device->mig = reading.mig;
  device->persistence = reading.persistence;
  device->remapping_failed = reading.remapping_failed;
  device->temperature_celsius = reading.temperature_celsius;
  device->power_watts = reading.power_watts;
  if (!device->slice) device->memory_used_bytes = reading.memory_used_bytes;
}

void AskNvml(const std::string& path, DeviceReport* report) {
  const auto nvml = NvmlLibrary::Open(path);
  if (!nvml.ok()) {
    report->nvml = std::string(nvml.status().message());
    return;
  }
  report->driver = (*nvml)->DriverVersion();
  const std::vector<GpuReading> readings = (*nvml)->Read();
  report->installed = static_cast<uint32_t>(readings.size());
  for (ReportedDevice& device : report->devices) {
    for (const GpuReading& reading : readings) {
      const bool it = device.slice ? reading.pci == device.pci : reading.uuid == device.uuid;
      if (it) AddReading(reading, &device);
    }
  }
}

}  // namespace

DeviceReport ProbeDevices(const std::string& nvml_path) {
  DeviceReport report;
  report.visible = Environment("CUDA_VISIBLE_DEVICES");
  setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1);
  const VisibleDevices visible = DescribeVisible(report.visible);
  const auto devices = ListCudaDevices(
      visible.mend.empty() ? visible.text : StrCat(visible.text, "; ", visible.mend));
  const CudaVersions versions = GetCudaVersions();
  report.driver_cuda = VersionText(versions.driver);
  report.runtime = VersionText(versions.runtime);
  report.toolkit = VersionText(versions.toolkit);
  report.error = devices.status();
  if (devices.ok()) {
    for (const CudaDevice& device : *devices) report.devices.push_back(Described(device));
  }
  AskNvml(nvml_path, &report);
  return report;
}

bool AnswerProbe(const std::vector<std::string>& arguments) {
  constexpr std::string_view kNvml = "--nvml=", kCheck = "--check=";
  std::string answer, nvml_path = kNvmlPath;
  for (const std::string& argument : arguments) {
    if (argument.starts_with(kNvml)) nvml_path = argument.substr(kNvml.size());
  }
  alarm(kSecondsMax);
  for (const std::string& argument : arguments) {
    if (argument == "--probe") answer = ToJson(ProbeDevices(nvml_path));
    if (argument.starts_with(kCheck)) answer = ToJson(CheckGrid(argument.substr(kCheck.size())));
  }
  alarm(0);
  std::fputs(answer.c_str(), stdout);
  std::fflush(stdout);
  return !answer.empty();
}

}  // namespace tandem::worker
