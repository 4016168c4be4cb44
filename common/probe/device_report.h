// What `tandem-executor-cuda --probe` and `--check` say on stdout, as data and as JSON: the one
// form that the program writes and worker and `tandem doctor` read.
//
//   auto report = ParseDeviceReport(text);
//   if (!report->error.ok()) …                 // why CUDA does not start, and what mends it
//
// The JSON is versioned; fields are added, never renamed. What is not known is left out.
// Thread-safety: value types.
#ifndef TANDEM_COMMON_PROBE_DEVICE_REPORT_H_
#define TANDEM_COMMON_PROBE_DEVICE_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tandem {

struct ReportedDevice {
  std::string uuid;        // "GPU-…", "MIG-…"
  std::string model;       // "NVIDIA H200"
  std::string pci;         // "0000:18:00.0"
  std::string capability;  // "9.0"
  uint64_t memory_bytes = 0;
  uint32_t multiprocessors = 0;
  bool slice = false;                // of a GPU in MIG mode
  std::optional<int32_t> numa_node;  // where it is attached
  // As NVML says; of a slice, nothing.
  std::optional<uint64_t> memory_used_bytes, ecc_uncorrected;
  std::optional<bool> ecc, mig, persistence, remapping_failed;
  std::optional<double> temperature_celsius, power_watts;
};

struct DeviceReport {
  std::string driver;       // NVIDIA's driver: "580.65.06"; "" where NVML does not say
  std::string driver_cuda;  // the newest CUDA that it supports: "13.0"; "" without a driver
  std::string runtime;      // the CUDA runtime's own version
  std::string toolkit;      // what the program was built with
  std::optional<std::string> visible;   // CUDA_VISIBLE_DEVICES
  std::optional<uint32_t> installed;    // GPUs of the machine, hidden ones too; NVML counts them
  std::string nvml;                     // "", or why NVML says nothing
  absl::Status error;                   // why CUDA does not start; OK else
  std::vector<ReportedDevice> devices;  // those that CUDA sees, in its order
};

// One device that ran a grid, and what came of it.
struct GridReport {
  std::string uuid, kernel;
  uint64_t tasks = 0;
  double start_seconds = 0;  // until CUDA had started
  double grid_seconds = 0;   // copies and grid, by the device's clock
  absl::Status error;        // it failed, or its results differ from the CPU's
};

// What the start of an executor took, to the end of a first grid.
struct StartReport {
  std::string device;                                 // "cuda:GPU-…", "emulated:…", "cpu"
  double seconds = 0;                                 // all of it
  std::vector<std::pair<std::string, double>> parts;  // seconds of each, one after the other
  absl::Status error;
};

// A line of JSON with its newline.
std::string ToJson(const DeviceReport& report);
std::string ToJson(const GridReport& report);
std::string ToJson(const StartReport& report);
// INVALID_ARGUMENT (PROTOCOL_ERROR) for what is no such report.
absl::StatusOr<DeviceReport> ParseDeviceReport(std::string_view text);
absl::StatusOr<GridReport> ParseGridReport(std::string_view text);
absl::StatusOr<StartReport> ParseStartReport(std::string_view text);

}  // namespace tandem

#endif  // TANDEM_COMMON_PROBE_DEVICE_REPORT_H_
