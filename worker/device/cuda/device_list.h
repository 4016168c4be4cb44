// What CUDA says of the devices that this process may see, and of the versions of its parts.
//
//   auto devices = ListCudaDevices(visible);      // in the order of CUDA's numbers
//
// It may block for as long as a sick driver does: a process with a time limit calls it.
// Thread-safety: any thread; starts CUDA, so CUDA_VISIBLE_DEVICES is settled by then.
#ifndef TANDEM_WORKER_DEVICE_CUDA_DEVICE_LIST_H_
#define TANDEM_WORKER_DEVICE_CUDA_DEVICE_LIST_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace tandem::worker {

struct CudaDevice {
  std::string uuid;   // "GPU-…", or "MIG-…" of a slice
  std::string model;  // "NVIDIA H200"
  std::string pci;    // "0000:18:00.0": where it sits, in lower case
  uint64_t memory_bytes = 0;
  uint32_t multiprocessors = 0;
  uint32_t capability_major = 0, capability_minor = 0;
  bool slice = false;  // of a GPU in MIG mode
};

// As CUDA counts: 12040 is 12.4, 0 none.
struct CudaVersions {
  int driver = 0;   // what the driver supports
  int runtime = 0;  // the runtime library's
  int toolkit = 0;  // what this program was built with
};

// Errors as CudaStartStatus; `visible` says in words what CUDA_VISIBLE_DEVICES leaves.
absl::StatusOr<std::vector<CudaDevice>> ListCudaDevices(std::string_view visible);
CudaVersions GetCudaVersions();

// A device's UUID as nvidia-smi writes it, without its kind: "1f0e…-…" of sixteen bytes.
std::string UuidDigits(const char (&bytes)[16]);

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_DEVICE_CUDA_DEVICE_LIST_H_
