// The CUDA form of gemm: one cuBLAS product.
#include <cuda_runtime.h>

#include "kernels/cublas/cublas_handle.cuh"
#include "kernels/gemm/gemm.h"

namespace TANDEM_KERNELS {

int64_t Gemm::WorkspaceBytes(const Args&, int64_t) {
  return tandem::kernels::kCublasWorkspaceBytes;
}

int32_t Gemm::Launch(const Args& args, tandem::Task first, int64_t tasks, void* workspace,
                     tandem::Stream stream) {
  const tandem::kernels::Product p = ProductOf(args, first, tasks);
  if (!p.Fits()) return cudaErrorInvalidValue;
  if (p.rows == 0 || p.columns == 0) return cudaSuccess;
  const auto s = static_cast<cudaStream_t>(stream.handle);
  const auto rows = static_cast<int>(p.rows), columns = static_cast<int>(p.columns),
             k = static_cast<int>(p.k), pitch = static_cast<int>(p.pitch);
  if (k == 0) {
    return cudaMemset2DAsync(p.c, sizeof(float) * p.pitch, 0, sizeof(float) * p.columns, p.rows, s);
  }
  cublasHandle_t handle = tandem::kernels::CublasHandle(s, workspace);
  if (handle == nullptr) return cudaErrorInitializationError;
  const float one = 1, zero = 0;
  // cuBLAS counts columns first: c^T = b^T a^T.
  return cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, columns, rows, k, &one, p.b, pitch, p.a, k,
                     &zero, p.c, pitch) == CUBLAS_STATUS_SUCCESS
             ? cudaSuccess
             : cudaErrorUnknown;
}

}  // namespace TANDEM_KERNELS
