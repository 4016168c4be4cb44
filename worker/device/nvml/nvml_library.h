// NvmlLibrary: NVIDIA's management library, loaded by path at run time, so that a program that uses
// it starts where there is none.
//
//   auto nvml = NvmlLibrary::Open("libnvidia-ml.so.1");
//   for (const GpuReading& gpu : nvml->Read()) …
//
// NVML sees every GPU of the machine, whatever CUDA_VISIBLE_DEVICES says. What a device or an older
// library does not tell is nullopt.
//
// Any call may take as long as a sick driver does: call it on a thread that may hang (NvmlMonitor),
// or in a process with a time limit.
// Thread-safety: one thread. Ownership: shuts NVML down; the library itself stays loaded.
#ifndef TANDEM_WORKER_DEVICE_NVML_NVML_LIBRARY_H_
#define TANDEM_WORKER_DEVICE_NVML_NVML_LIBRARY_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace tandem::worker {

inline constexpr char kNvmlPath[] = "libnvidia-ml.so.1";

struct GpuReading {
  std::string uuid;                                       // "GPU-…"
  std::string model;                                      // "NVIDIA H200"
  std::string pci;                                        // "0000:18:00.0"
  bool lost = false;                                      // it answers no more
  std::optional<double> utilization, memory_utilization;  // of the last sample period, 0 to 1
  std::optional<uint64_t> memory_total_bytes, memory_used_bytes;
  std::optional<double> temperature_celsius, power_watts, power_limit_watts;
  std::optional<bool> mig, persistence;
  std::optional<bool> ecc;                                 // whether memory is checked
  std::optional<uint64_t> ecc_corrected, ecc_uncorrected;  // errors since the driver was loaded
  std::optional<bool> remapping_failed;                    // no spare row was left for a bad one
};

struct GpuXid {
  std::string uuid;
  uint64_t xid = 0;
};

class NvmlLibrary {
 public:
  // NOT_FOUND where there is no such library, UNAVAILABLE where NVML does not start, and why.
  static absl::StatusOr<std::unique_ptr<NvmlLibrary>> Open(const std::string& path);
  ~NvmlLibrary();
  NvmlLibrary(const NvmlLibrary&) = delete;
  NvmlLibrary& operator=(const NvmlLibrary&) = delete;

  std::string DriverVersion() const;  // "580.65.06"; "" if it does not say
  std::vector<GpuReading> Read() const;

  // Whether any device reports its Xids.
  bool reports_xids() const;
  // The next Xid of any device, within `wait`.
  absl::StatusOr<std::optional<GpuXid>> NextXid(absl::Duration wait);

 private:
  struct Entries;
  explicit NvmlLibrary(std::unique_ptr<Entries> entries);

  const std::unique_ptr<Entries> entries_;
};

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_DEVICE_NVML_NVML_LIBRARY_H_
