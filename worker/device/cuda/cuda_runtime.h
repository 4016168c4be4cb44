// CudaRuntime: the GpuRuntime of one NVIDIA GPU or MIG slice, on CUDA's runtime library.
//
//   auto gpu = CudaRuntime::Open("GPU-1f0e…");   // before anything else of the process uses CUDA
//   gpu->CopyUp(stream, slab, pinned, bytes);
//
// A process drives one device: Open makes it the only one that CUDA sees, as number 0. Streams are
// explicit and do not wait for the default one; nothing here waits for the device but Allocate,
// Free, AllocateHost and FreeHost, which CUDA may hold up. A copy from or to host memory that is
// not pinned is refused, since CUDA would wait for it.
//
// Besides the errors of GpuRuntime: FAILED_PRECONDITION (BAD_ARGUMENT) is the call's alone, and
// FAILED_PRECONDITION (VERSION_SKEW) says that driver, kernel and device do not fit together.
//
// Thread-safety: as GpuRuntime; callbacks come on one thread, one after the other.
// Ownership: the destructor frees what was allocated, unless the device is still at work or has
// failed: then the end of the process does. Callbacks that wait are not called.
#ifndef TANDEM_WORKER_DEVICE_CUDA_CUDA_RUNTIME_H_
#define TANDEM_WORKER_DEVICE_CUDA_CUDA_RUNTIME_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "worker/device/cuda/callback_thread.h"
#include "worker/device/gpu_runtime.h"

struct CUstream_st;
struct CUevent_st;

namespace tandem::worker {

class CudaRuntime final : public GpuRuntime {
 public:
  // The device of this UUID ("GPU-…", "MIG-…"). Sets CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER.
  // NOT_FOUND (UNSATISFIABLE) where CUDA sees no such device; else as CudaStartStatus.
  static absl::StatusOr<std::unique_ptr<CudaRuntime>> Open(const std::string& uuid);
  ~CudaRuntime() override;

  const GpuProperties& properties() const override { return properties_; }
  absl::Status health() const override;
  absl::StatusOr<DeviceAddress> Allocate(uint64_t bytes) override;
  absl::Status Free(DeviceAddress address) override;
  uint64_t FreeBytes() const override;
  absl::StatusOr<void*> AllocateHost(uint64_t bytes) override;
  absl::Status FreeHost(void* memory) override;
  DeviceAddress Mapped(void* memory) const override;
  absl::StatusOr<StreamId> NewStream() override;
  absl::StatusOr<EventId> NewEvent() override;
  absl::Status CopyUp(StreamId stream, DeviceAddress to, const void* from, uint64_t bytes) override;
  absl::Status CopyDown(StreamId stream, void* to, DeviceAddress from, uint64_t bytes) override;
  absl::Status Fill(StreamId stream, DeviceAddress to, uint8_t value, uint64_t bytes) override;
  absl::Status LaunchGrid(StreamId stream, const GridLaunch& launch) override;
  absl::Status Record(StreamId stream, EventId event) override;
  absl::Status Wait(StreamId stream, EventId event) override;
  absl::StatusOr<bool> Reached(EventId event) const override;
  absl::StatusOr<absl::Duration> Between(EventId from, EventId to) const override;
  absl::Status Call(StreamId stream, Callback callback) override;

 private:
  struct Event {
    CUevent_st* handle;
    bool recorded;
  };

  explicit CudaRuntime(GpuProperties properties);

  // OK, or the error; keeps the first that stays.
  absl::Status Check(int error, std::string_view call) const;
  absl::StatusOr<CUstream_st*> StreamOf(StreamId stream) const;
  absl::Status CheckEvent(EventId event) const;
  absl::Status CheckPinned(const void* memory, uint64_t bytes) const;
  bool Idle() const;

  const GpuProperties properties_;
  std::vector<CUstream_st*> streams_;
  std::vector<Event> events_;
  std::set<DeviceAddress> allocated_;
  std::map<uint64_t, uint64_t> pinned_;  // begin to bytes

  mutable absl::Mutex mu_;
  mutable absl::Status health_ ABSL_GUARDED_BY(mu_);

  std::unique_ptr<CallbackThread> callbacks_;  // last: its thread asks for streams' state
};

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_DEVICE_CUDA_CUDA_RUNTIME_H_
