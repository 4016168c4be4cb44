#include "worker/device/cuda/device_list.h"

#include <cuda_runtime_api.h>

#include <cstdio>
#include <utility>

#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "worker/device/cuda/cuda_error.h"

namespace tandem::worker {
namespace {

CudaDevice DeviceOf(const cudaDeviceProp& found) {
  CudaDevice device;
  device.model = found.name;
  // "NVIDIA H200 MIG 1g.18gb": the runtime has no other word for a slice.
  device.slice = device.model.find(" MIG ") != std::string::npos;
  device.uuid = StrCat(device.slice ? "MIG-" : "GPU-", UuidDigits(found.uuid.bytes));
  char pci[32];
  std::snprintf(pci, sizeof pci, "%04x:%02x:%02x.0", static_cast<unsigned>(found.pciDomainID),
                static_cast<unsigned>(found.pciBusID), static_cast<unsigned>(found.pciDeviceID));
  device.pci = pci;
  device.memory_bytes = found.totalGlobalMem;
  device.multiprocessors = static_cast<uint32_t>(found.multiProcessorCount);
  device.capability_major = static_cast<uint32_t>(found.major);
  device.capability_minor = static_cast<uint32_t>(found.minor);
  return device;
}

}  // namespace

std::string UuidDigits(const char (&bytes)[16]) {
  std::string text;
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    const auto byte = static_cast<unsigned char>(bytes[i]);
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

absl::StatusOr<std::vector<CudaDevice>> ListCudaDevices(std::string_view visible) {
  int count = 0;
  RETURN_IF_ERROR(CudaStartStatus(cudaGetDeviceCount(&count), visible));
  std::vector<CudaDevice> devices;
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp found{};
    RETURN_IF_ERROR(CudaStartStatus(cudaGetDeviceProperties(&found, i), visible));
    devices.push_back(DeviceOf(found));
  }
  return devices;
}

CudaVersions GetCudaVersions() {
  CudaVersions versions;
  (void)cudaDriverGetVersion(&versions.driver);
  (void)cudaRuntimeGetVersion(&versions.runtime);
  versions.toolkit = CUDART_VERSION;
  return versions;
}

}  // namespace tandem::worker
