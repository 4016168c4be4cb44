// GpuDevice: one GPU, or an emulated one, as a device for an executor.
//
//   ASSIGN_OR_RETURN(auto device, GpuDevice::Make(std::move(runtime), options, &start_log));
//   device->Submit(0, &batch);
//
// A thread of its own drives the engine (GpuEngine); work on the host is done by the threads of one
// core group. The device has one lane, whose batches flow through several streams.
//
// Thread-safety: as Device. Ownership: owns the runtime; `log` must outlive the device.
#ifndef TANDEM_WORKER_DEVICE_GPU_GPU_DEVICE_H_
#define TANDEM_WORKER_DEVICE_GPU_GPU_DEVICE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "worker/device/cpu/lane.h"
#include "worker/device/cpu/topology.h"
#include "worker/device/device.h"
#include "worker/device/gpu/gpu_engine.h"
#include "worker/device/gpu_runtime.h"

namespace tandem::worker {

struct GpuDeviceOptions {
  DeviceKind kind = DeviceKind::kGpu;
  CoreGroup cores;          // for work on the host
  GpuEngineOptions engine;  // but for first_slot, which follows from the cores
};

class GpuDevice final : public Device {
 public:
  // Slots that a device with these options has: for sizing a start log before there is a device.
  static uint32_t SlotsOf(const GpuDeviceOptions& options);

  // Errors: those of the runtime.
  static absl::StatusOr<std::unique_ptr<GpuDevice>> Make(std::unique_ptr<GpuRuntime> runtime,
                                                         const GpuDeviceOptions& options,
                                                         StartLog* log);
  // Waits, but not for what can no longer come.
  ~GpuDevice() override;

  const DeviceProperties& properties() const override { return properties_; }
  absl::Status health() const override;
  GpuCounters counters() const { return engine_->counters(); }

  void Submit(uint32_t lane, Batch* batch) override;
  void SubmitWork(uint32_t lane, HostWork* work) override;
  std::unique_ptr<Accumulator> NewAccumulator(const TandemKernelV1* kernel,
                                              const void* args) override;
  void Collect(uint32_t lane, Accumulator* accumulator, void* into,
               std::function<void(absl::Status, int64_t)> done) override;

 private:
  GpuDevice(std::unique_ptr<GpuRuntime> runtime, const GpuDeviceOptions& options, StartLog* log);
  void Post(std::function<void()> f);
  void Loop();
  bool SomethingToDo() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return !inbox_.empty() || stopping_;
  }
  bool Quiet() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return under_way_ == 0 || broken_; }
  void Begun();
  void Ended();

  DeviceProperties properties_;
  std::unique_ptr<GpuRuntime> runtime_;
  std::unique_ptr<Lane> host_;
  std::unique_ptr<GpuEngine> engine_;

  mutable absl::Mutex mu_;
  std::vector<std::function<void()>> inbox_ ABSL_GUARDED_BY(mu_);
  uint64_t under_way_ ABSL_GUARDED_BY(mu_) = 0;  // batches, collections, host work
  bool broken_ ABSL_GUARDED_BY(mu_) = false;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_DEVICE_GPU_GPU_DEVICE_H_
