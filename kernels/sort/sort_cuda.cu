// The CUDA form of sort: CUB's radix sort from the keys into the partial.
#include <cuda_runtime.h>

#include <cub/device/device_radix_sort.cuh>

#include "kernels/sort/sort.h"

namespace TANDEM_KERNELS {
namespace {

constexpr int kBits = 64;

cudaError_t SortKeys(void* workspace, size_t* bytes, const int64_t* key, int64_t* sorted,
                     int64_t count, cudaStream_t stream) {
  return cub::DeviceRadixSort::SortKeys(workspace, *bytes, key, sorted, count, 0, kBits, stream);
}

}  // namespace

int64_t Sort::WorkspaceBytes(const Args&, int64_t tasks) {
  size_t bytes = 0;
  if (SortKeys(nullptr, &bytes, nullptr, nullptr, tasks, nullptr) != cudaSuccess) return 0;
  return static_cast<int64_t>(bytes);
}

int32_t Sort::Launch(const Args& a, tandem::Task first, int64_t tasks, void* partial,
                     void* workspace, tandem::Stream stream) {
  if (tasks == 0) return cudaSuccess;
  size_t bytes = static_cast<size_t>(WorkspaceBytes(a, tasks));
  if (bytes == 0) return cudaErrorUnknown;
  return SortKeys(workspace, &bytes, a.key + first.row, static_cast<int64_t*>(partial), tasks,
                  static_cast<cudaStream_t>(stream.handle));
}

}  // namespace TANDEM_KERNELS
