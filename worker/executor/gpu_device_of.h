// A GpuDevice for an executor: the engine above a runtime, with one core group for its host work.
//
// Thread-safety: one thread. Ownership: `log` outlives the device.
#ifndef TANDEM_WORKER_EXECUTOR_GPU_DEVICE_OF_H_
#define TANDEM_WORKER_EXECUTOR_GPU_DEVICE_OF_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/device/device.h"
#include "worker/device/gpu_runtime.h"
#include "worker/ring/launch.h"

namespace tandem::worker {

// INVALID_ARGUMENT (BAD_ARGUMENT) where a start log has fewer slots than a device needs.
absl::Status CheckSlots(uint32_t slots, uint32_t needed);

// `launch`: the memory that it may use. `slots`: of the start log; grids have what the host's
// threads leave. Errors: INVALID_ARGUMENT (BAD_ARGUMENT) for too few slots; those of the runtime.
absl::StatusOr<std::unique_ptr<Device>> GpuDeviceOf(std::unique_ptr<GpuRuntime> runtime,
                                                    DeviceKind kind, const ExecutorLaunch& launch,
                                                    uint32_t slots, StartLog* log);

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_EXECUTOR_GPU_DEVICE_OF_H_
