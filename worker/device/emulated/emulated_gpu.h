// EmulatedGpu: a GpuRuntime without a GPU: for tests of the engine above it, for decisions in
// virtual time, and for timing the engine on a machine that has none. It is never called a GPU in
// any output: its model is "emulated".
//
// It has one of three clocks, fixed when it is made:
//
//   exact    kernels run in memory of the device's own; operations take no time and end in any
//            order that streams and events leave open. It has no speed: Between is refused.
//   virtual  operations take the time that the model says, in time that the caller moves. Nothing
//            is computed or copied.
//   paced    the same model against the monotonic clock, one sleeping thread; kernels run by their
//            cheap form, where they have one.
//
// Loud failures: a kernel that is given or touches the host's memory, or touches what was freed or
// lies beyond an allocation, is a sticky error; the host touching the device's memory is a
// segmentation fault; a copy from or to memory that is not pinned is refused.
//
// Thread-safety: as GpuRuntime; with the virtual clock callbacks come in AdvanceTo.
// Ownership: frees what it allocated. What still runs, or hangs, is given up by the destructor;
// its callbacks are not called.
#ifndef TANDEM_WORKER_DEVICE_EMULATED_EMULATED_GPU_H_
#define TANDEM_WORKER_DEVICE_EMULATED_EMULATED_GPU_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "worker/device/buffers.h"
#include "worker/device/emulated/emulated_memory.h"
#include "worker/device/emulated/fault_script.h"
#include "worker/device/emulated/timeline.h"
#include "worker/device/gpu_runtime.h"

namespace tandem::worker {

enum class EmulatedClock { kExact, kVirtual, kPaced };

// How long operations take on the virtual and the paced clock.
struct EmulatedSpeed {
  double cores = 4;  // a grid runs like on so many CPU cores
  double launch_seconds = 5e-6;
  double copy_fixed_seconds = 5e-6;
  double copy_bytes_per_second = 12e9;  // each way
  double unknown_task_seconds = 1e-6;   // of a launch that says nothing of its cost
};

struct EmulatedOptions {
  EmulatedClock clock = EmulatedClock::kExact;
  uint64_t memory_bytes = uint64_t{1} << 30;
  EmulatedSpeed speed;
  FaultScript faults;
  uint64_t seed = 1;  // of everything that is left open
  std::string uuid = "EMULATED-0";
  uint32_t multiprocessors = 4;
};

// What an emulated device has done.
struct EmulatedCounters {
  uint64_t copies_up = 0, copies_down = 0, bytes_up = 0, bytes_down = 0, launches = 0;
};

class EmulatedGpu final : public GpuRuntime {
 public:
  explicit EmulatedGpu(const EmulatedOptions& options);
  ~EmulatedGpu() override;

  const GpuProperties& properties() const override { return properties_; }
  absl::Status health() const override;
  absl::StatusOr<DeviceAddress> Allocate(uint64_t bytes) override;
  absl::Status Free(DeviceAddress address) override;
  uint64_t FreeBytes() const override { return memory_.FreeBytes(); }
  absl::StatusOr<void*> AllocateHost(uint64_t bytes) override;
  absl::Status FreeHost(void* memory) override;
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

  // The virtual clock alone. When something ends next (Timeline::kNever: nothing will), and the
  // end of all that ends by `seconds`.
  double next() const;
  void AdvanceTo(double seconds);

  EmulatedCounters counters() const;

 private:
  // What an operation does when it ends.
  struct Work {
    std::function<absl::Status()> act;  // may be null
    Callback callback;                  // may be null
    bool event = false;                 // an event means it
  };
  struct Launched;  // a launch's own copy of its parts and arguments

  double Now() const;
  double Seconds(double seconds) const;  // none on the exact clock
  absl::Status CheckStream(StreamId stream) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status CheckPinned(const void* memory, uint64_t bytes) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Work Move(void* to, const void* from, uint64_t bytes) const;
  absl::Status Add(StreamId stream, Line line, double seconds, Work work)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  double GridSeconds(const GridLaunch& launch) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Loop();
  bool SomethingToDo() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // What has ended by `now`, in order. Then End for each.
  std::vector<Timeline::Ended> Take(double now);
  void End(const Timeline::Ended& ended);

  const EmulatedOptions options_;
  GpuProperties properties_;
  EmulatedMemory memory_;

  mutable absl::Mutex mu_;
  Timeline timeline_ ABSL_GUARDED_BY(mu_);
  std::map<Timeline::Op, Work> works_ ABSL_GUARDED_BY(mu_);
  std::map<Timeline::Op, double> ended_ ABSL_GUARDED_BY(mu_);  // those that an event means
  std::map<uint64_t, uint64_t> pinned_ ABSL_GUARDED_BY(mu_);   // begin to bytes
  std::map<uint64_t, AlignedBuffer> host_ ABSL_GUARDED_BY(mu_);
  absl::Status health_ ABSL_GUARDED_BY(mu_);
  EmulatedCounters counters_ ABSL_GUARDED_BY(mu_);
  uint64_t allocations_ ABSL_GUARDED_BY(mu_) = 0;
  double virtual_now_ ABSL_GUARDED_BY(mu_) = 0;
  bool added_ ABSL_GUARDED_BY(mu_) = false;  // since the thread looked last
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_DEVICE_EMULATED_EMULATED_GPU_H_
