// What an error of a CUDA call means for the process that made it, and in words.
//
//   RETURN_IF_ERROR(CudaStatus(cudaMemGetInfo(&free, &total), "cudaMemGetInfo", uuid));
//
// Codes are given as int, so that no header here includes CUDA's.
// Thread-safety: pure functions.
#ifndef TANDEM_WORKER_DEVICE_CUDA_CUDA_ERROR_H_
#define TANDEM_WORKER_DEVICE_CUDA_CUDA_ERROR_H_

#include <string_view>

#include "absl/status/status.h"

namespace tandem::worker {

enum class CudaErrorKind {
  kNone,
  kOutOfMemory,  // harms nothing
  kCall,         // of this call alone: a bad argument, more than a block can have
  kVersions,     // driver, toolkit and device do not fit together
  kSticky,       // every later call of the process fails too
  kDeviceGone,   // the device itself takes no more work
};
CudaErrorKind CudaErrorKindOf(int error);

// OK, or an error that names call and device: RESOURCE_EXHAUSTED (OUT_OF_MEMORY),
// FAILED_PRECONDITION (BAD_ARGUMENT or VERSION_SKEW), INTERNAL (DEVICE_FAULT) for what is sticky,
// UNAVAILABLE (DEVICE_FAULT) for a device that is gone.
absl::Status CudaStatus(int error, std::string_view call, std::string_view device);

// The last two kinds: what stays for good.
bool IsSticky(const absl::Status& status);

// Why CUDA does not start, and what mends it; OK for no error. A driver that is missing or older
// than the runtime, no device in sight, a device that other processes have for themselves.
// `visible`: CUDA_VISIBLE_DEVICES in words, for the error that says that there is no device.
absl::Status CudaStartStatus(int error, std::string_view visible);

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_DEVICE_CUDA_CUDA_ERROR_H_
