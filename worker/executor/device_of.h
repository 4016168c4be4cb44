// The device that an executor is told to drive.
//
// Thread-safety: one thread. Ownership: `log` outlives the device.
#ifndef TANDEM_WORKER_EXECUTOR_DEVICE_OF_H_
#define TANDEM_WORKER_EXECUTOR_DEVICE_OF_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "worker/device/device.h"
#include "worker/ring/launch.h"

namespace tandem::worker {

// `slots`: of the start log. Errors: INVALID_ARGUMENT (BAD_ARGUMENT) for a device that this program
// cannot drive, or too few slots; those of the device.
absl::StatusOr<std::unique_ptr<Device>> DeviceOf(const ExecutorLaunch& launch, uint32_t slots,
                                                 StartLog* log);

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_EXECUTOR_DEVICE_OF_H_
