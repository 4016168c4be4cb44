// GpuAccumulator: exact partials of one job, gathered by a device over many batches.
//
// A small partial travels with each batch (an own one, fresh) and is added here, on the host: a
// thousand jobs of a task each cost no copy more. A large one stays on the device, where batches
// add to it one after the other, until it is collected.
//
// Thread-safety: Add and MergeInto from any thread, one at a time by a mutex; what is on the device
// belongs to the engine's thread.
// Ownership: holds a copy of the arguments; memory on the device is the engine's to free.
#ifndef TANDEM_WORKER_DEVICE_GPU_GPU_ACCUMULATOR_H_
#define TANDEM_WORKER_DEVICE_GPU_GPU_ACCUMULATOR_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "worker/device/buffers.h"
#include "worker/device/device.h"
#include "worker/device/gpu_runtime.h"

namespace tandem::worker {

// Larger partials stay on the device.
inline constexpr uint64_t kTravellingPartialBytesMax = 64 << 10;

class GatheredPartial {
 public:
  GatheredPartial(const TandemKernelV1* kernel, const void* args);

  const TandemKernelV1* kernel() const { return kernel_; }
  const void* args() const { return args_.data(); }
  uint64_t bytes() const { return bytes_; }
  bool on_device() const { return bytes_ > kTravellingPartialBytesMax; }

  // Errors: RESOURCE_EXHAUSTED, INTERNAL (DEVICE_FAULT) when the merge failed.
  absl::Status Add(const void* partial, int64_t tasks);
  // What was added, or the identity.
  void CopyTo(void* into);

  // On the device, once something was gathered there.
  DeviceAddress address;
  EventId last = 0;  // the last grid that added to it has passed

 private:
  const TandemKernelV1* const kernel_;
  std::vector<uint64_t> args_;  // 8-byte aligned copy
  const uint64_t bytes_;
  absl::Mutex mu_;
  AlignedBuffer value_ ABSL_GUARDED_BY(mu_);
  int64_t tasks_ ABSL_GUARDED_BY(mu_) = 0;
  bool used_ ABSL_GUARDED_BY(mu_) = false;
};

class GpuAccumulator final : public Accumulator {
 public:
  using Forget = std::function<void(std::shared_ptr<GatheredPartial>)>;
  // `forget` is given the partial in the end.
  GpuAccumulator(std::shared_ptr<GatheredPartial> partial, Forget forget)
      : partial_(std::move(partial)), forget_(std::move(forget)) {}
  ~GpuAccumulator() override { forget_(std::move(partial_)); }
  const std::shared_ptr<GatheredPartial>& partial() const { return partial_; }

 private:
  std::shared_ptr<GatheredPartial> partial_;
  const Forget forget_;
};

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_DEVICE_GPU_GPU_ACCUMULATOR_H_
