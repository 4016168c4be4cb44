// The CUDA form of linear: the bias by a grid of its own, then one cuBLAS product that adds to it.
#include <cublas_v2.h>
#include <cuda_runtime.h>

#include "kernels/linear/linear.h"

namespace TANDEM_KERNELS {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMaxBlocks = 65536;
constexpr int64_t kWorkspace =
    32 << 20;  // what cuBLAS recommends for Hopper; with less it is slower, not wrong

// y[rows, columns] = b[columns], y being m wide.
__global__ void FillBias(float* y, const float* b, int64_t rows, int64_t columns, int64_t m) {
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < rows * columns;
       i += int64_t{gridDim.x} * blockDim.x) {
    y[i / columns * m + i % columns] = b[i % columns];
  }
}

// One handle a thread and device, made at first use: making one allocates and synchronises.
class Handles {
 public:
  ~Handles() {
    for (cublasHandle_t handle : handle_) {
      if (handle != nullptr) cublasDestroy(handle);
    }
  }
  cublasHandle_t Get() {
    int device = 0;
    if (cudaGetDevice(&device) != cudaSuccess || device >= kDevices) return nullptr;
    if (handle_[device] == nullptr && cublasCreate(&handle_[device]) != CUBLAS_STATUS_SUCCESS) {
      handle_[device] = nullptr;
    }
    return handle_[device];
  }

 private:
  static constexpr int kDevices = 64;
  cublasHandle_t handle_[kDevices] = {};
};
thread_local Handles handles;

}  // namespace

int64_t Linear::WorkspaceBytes(const Args&, int64_t) { return kWorkspace; }

int32_t Linear::Launch(const Args& a, tandem::Task first, int64_t tasks, void* workspace,
                       tandem::Stream stream) {
  const bool rows_split = a.split == 0;
  const int64_t rows = rows_split ? tasks : a.n, columns = rows_split ? a.m : tasks;
  if (rows == 0 || columns == 0) return cudaSuccess;
  const float* x = a.x + (rows_split ? first.row * a.k : 0);
  const float* w = a.w + (rows_split ? 0 : first.row * a.k);
  const float* b = a.b + (rows_split ? 0 : first.row);
  float* y = a.y + (rows_split ? first.row * a.m : first.row);
  const auto s = static_cast<cudaStream_t>(stream.handle);
  const int64_t blocks = (rows * columns + kThreads - 1) / kThreads;
  FillBias<<<static_cast<unsigned>(blocks < kMaxBlocks ? blocks : kMaxBlocks), kThreads, 0, s>>>(
      y, b, rows, columns, a.m);
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess || a.k == 0) return error;
  cublasHandle_t handle = handles.Get();
  if (handle == nullptr) return cudaErrorInitializationError;
  const float one = 1;
  const int m = static_cast<int>(columns), n = static_cast<int>(rows), k = static_cast<int>(a.k),
            pitch = static_cast<int>(a.m);
  if (m != columns || n != rows || k != a.k || pitch != a.m) return cudaErrorInvalidValue;
  // cuBLAS counts columns first: y^T = w x^T.
  const bool ok = cublasSetStream(handle, s) == CUBLAS_STATUS_SUCCESS &&
                  cublasSetWorkspace(handle, workspace, kWorkspace) == CUBLAS_STATUS_SUCCESS &&
                  cublasSetMathMode(handle, CUBLAS_PEDANTIC_MATH) == CUBLAS_STATUS_SUCCESS &&
                  cublasSgemm(handle, CUBLAS_OP_T, CUBLAS_OP_N, m, n, k, &one, w, k, x, k, &one, y,
                              pitch) == CUBLAS_STATUS_SUCCESS;
  return ok ? cudaSuccess : cudaErrorUnknown;
}

}  // namespace TANDEM_KERNELS
