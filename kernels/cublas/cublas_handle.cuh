// One cuBLAS handle a thread and device, made at first use: making one allocates and synchronises.
//
//   cublasHandle_t handle = CublasHandle(stream, workspace);    // null: it cannot be had
//
// Thread-safety: a handle belongs to its thread. Ownership: the thread's; the workspace, of
// kCublasWorkspaceBytes, is the caller's until the stream has passed what is launched with it.
#ifndef TANDEM_KERNELS_CUBLAS_CUBLAS_HANDLE_CUH_
#define TANDEM_KERNELS_CUBLAS_CUBLAS_HANDLE_CUH_

#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace tandem::kernels {

// What cuBLAS recommends for Hopper; with less it is slower, not wrong.
inline constexpr int64_t kCublasWorkspaceBytes = 32 << 20;

class CublasHandles {
 public:
  ~CublasHandles() {
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

inline cublasHandle_t CublasHandle(cudaStream_t stream, void* workspace) {
  thread_local CublasHandles handles;
  cublasHandle_t handle = handles.Get();
  const bool ok =
      handle != nullptr && cublasSetStream(handle, stream) == CUBLAS_STATUS_SUCCESS &&
      cublasSetWorkspace(handle, workspace, kCublasWorkspaceBytes) == CUBLAS_STATUS_SUCCESS &&
      cublasSetMathMode(handle, CUBLAS_PEDANTIC_MATH) == CUBLAS_STATUS_SUCCESS;
  return ok ? handle : nullptr;
}

}  // namespace tandem::kernels

#endif  // TANDEM_KERNELS_CUBLAS_CUBLAS_HANDLE_CUH_
