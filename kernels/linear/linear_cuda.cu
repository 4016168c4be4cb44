// The CUDA form of linear: the bias by a grid of its own, then one cuBLAS product that adds to it.
#include <cuda_runtime.h>

#include "kernels/cublas/cublas_handle.cuh"
#include "kernels/linear/linear.h"

namespace TANDEM_KERNELS {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMaxBlocks = 65536;

// y[rows, columns] = b[columns], y being m wide.
__global__ void FillBias(float* y, const float* b, int64_t rows, int64_t columns, int64_t m) {
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < rows * columns;
       i += int64_t{gridDim.x} * blockDim.x) {
    y[i / columns * m + i % columns] = b[i % columns];
  }
}

}  // namespace

int64_t Linear::WorkspaceBytes(const Args&, int64_t) {
  return tandem::kernels::kCublasWorkspaceBytes;
}

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
  cublasHandle_t handle = tandem::kernels::CublasHandle(s, workspace);
  if (handle == nullptr) return cudaErrorInitializationError;
  const float one = 1;
  const int m = static_cast<int>(columns), n = static_cast<int>(rows), k = static_cast<int>(a.k),
            pitch = static_cast<int>(a.m);
  if (m != columns || n != rows || k != a.k || pitch != a.m) return cudaErrorInvalidValue;
  // cuBLAS counts columns first: y^T = w x^T.
  return cublasSgemm(handle, CUBLAS_OP_T, CUBLAS_OP_N, m, n, k, &one, w, k, x, k, &one, y, pitch) ==
                 CUBLAS_STATUS_SUCCESS
             ? cudaSuccess
             : cudaErrorUnknown;
}

}  // namespace TANDEM_KERNELS
