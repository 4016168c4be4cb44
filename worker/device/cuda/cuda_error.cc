#include "worker/device/cuda/cuda_error.h"

#include <cuda_runtime_api.h>

#include <string>

#include "common/base/error.h"
#include "common/base/strings.h"

namespace tandem::worker {
namespace {

using absl::StatusCode;

std::string TextOf(int error) {
  const auto code = static_cast<cudaError_t>(error);
  return StrCat(cudaGetErrorString(code), " (", cudaGetErrorName(code), ", ", error, ")");
}

// "12.4" of 12040.
std::string VersionText(int version) { return StrCat(version / 1000, ".", version % 1000 / 10); }

}  // namespace

CudaErrorKind CudaErrorKindOf(int error) {
  switch (error) {
    case cudaSuccess:
      return CudaErrorKind::kNone;
    case cudaErrorMemoryAllocation:
      return CudaErrorKind::kOutOfMemory;
    case cudaErrorInsufficientDriver:
    case cudaErrorCallRequiresNewerDriver:
    case cudaErrorInvalidKernelImage:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorInvalidPtx:
    case cudaErrorJitCompilerNotFound:
    case cudaErrorUnsupportedPtxVersion:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorCompatNotSupportedOnDevice:
      return CudaErrorKind::kVersions;
    case cudaErrorCudartUnloading:
    case cudaErrorContained:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorContextIsDestroyed:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorTensorMemoryLeak:
    case cudaErrorExternalDevice:
      return CudaErrorKind::kSticky;
    case cudaErrorInitializationError:
    case cudaErrorDevicesUnavailable:
    case cudaErrorNoDevice:
    case cudaErrorInvalidDevice:
    case cudaErrorStartupFailure:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorOperatingSystem:
    case cudaErrorSystemNotReady:
    case cudaErrorMpsConnectionFailed:
    case cudaErrorMpsRpcFailure:
    case cudaErrorMpsServerNotReady:
    case cudaErrorMpsMaxClientsReached:
    case cudaErrorMpsMaxConnectionsReached:
    case cudaErrorMpsClientTerminated:
    case cudaErrorUnknown:
      return CudaErrorKind::kDeviceGone;
    default:
      return CudaErrorKind::kCall;
  }
}

absl::Status CudaStatus(int error, std::string_view call, std::string_view device) {
  const std::string what = StrCat("device ", device, ": ", call, ": ", TextOf(error));
  switch (CudaErrorKindOf(error)) {
    case CudaErrorKind::kNone:
      return absl::OkStatus();
    case CudaErrorKind::kOutOfMemory:
      return Error(StatusCode::kResourceExhausted, reason::kOutOfMemory, what);
    case CudaErrorKind::kCall:
      return Error(StatusCode::kFailedPrecondition, reason::kBadArgument, what);
    case CudaErrorKind::kVersions:
      return Error(StatusCode::kFailedPrecondition, reason::kVersionSkew,
                   StrCat(what,
                          "; the kernels are built for compute capability 8.0, 9.0 and, by "
                          "their PTX, for what is newer"));
    case CudaErrorKind::kSticky:
      return Error(StatusCode::kInternal, reason::kDeviceFault,
                   StrCat(what, "; the process that drives it is replaced"));
    case CudaErrorKind::kDeviceGone:
      return Error(StatusCode::kUnavailable, reason::kDeviceFault,
                   StrCat(what, "; the device takes no more work: see nvidia-smi and dmesg (Xid)"));
  }
  return absl::OkStatus();
}

bool IsSticky(const absl::Status& status) {
  return status.code() == StatusCode::kInternal || status.code() == StatusCode::kUnavailable;
}

absl::Status CudaStartStatus(int error, std::string_view visible) {
  int driver = 0, runtime = 0;
  (void)cudaDriverGetVersion(&driver);  // 0 where there is none
  (void)cudaRuntimeGetVersion(&runtime);
  switch (error) {
    case cudaSuccess:
      return absl::OkStatus();
    case cudaErrorInsufficientDriver:
    case cudaErrorStubLibrary:
      if (driver == 0 || error == cudaErrorStubLibrary) {
        return Error(StatusCode::kUnavailable, reason::kUnsatisfiable,
                     "NVIDIA's driver is not there: no libcuda.so.1 can be loaded; install the "
                     "driver, or, in a container, start it with --gpus all");
      }
      return Error(StatusCode::kFailedPrecondition, reason::kVersionSkew,
                   StrCat("NVIDIA's driver is too old: it supports CUDA ", VersionText(driver),
                          ", this program needs ", VersionText(runtime),
                          "; install a newer driver, or build with an older toolkit"));
    case cudaErrorSystemDriverMismatch:
      return Error(StatusCode::kFailedPrecondition, reason::kVersionSkew,
                   "the driver's library and its kernel module are of different versions; reboot, "
                   "or reload the nvidia module");
    case cudaErrorNoDevice:
      return Error(StatusCode::kNotFound, reason::kUnsatisfiable,
                   StrCat("the driver is there, but CUDA sees no device: ", visible));
    case cudaErrorDevicesUnavailable:
      return Error(
          StatusCode::kUnavailable, reason::kDeviceFault,
          "the device is busy or in exclusive mode: nvidia-smi -q -d COMPUTE,PIDS says who "
          "has it; nvidia-smi -c DEFAULT shares it");
    case cudaErrorSystemNotReady:
      return Error(StatusCode::kUnavailable, reason::kDeviceFault,
                   "the system is not ready for CUDA: start nvidia-fabricmanager");
    default:
      return Error(StatusCode::kUnavailable, reason::kDeviceFault,
                   StrCat("CUDA does not start: ", TextOf(error),
                          "; nvidia-smi and dmesg say more of driver and device"));
  }
}

}  // namespace tandem::worker
