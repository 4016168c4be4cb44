// GpuEngine: drives a GpuRuntime: which batch goes to the device when, in which memory, on which
// stream.
//
//   queued → admitted (its memory is there) → packed (host) → on a stream → landed → unpacked
//   (host)
//
// Batches are admitted and launched in the order submitted, on the stream that has least to do, so
// that the copies of some overlap the grids of others; a batch that does not fit waits for those
// before it to end. One that fits nowhere ends at once, RESOURCE_EXHAUSTED, with the need and the
// budget. What is small is packed and unpacked on the engine's thread, and so starts without a
// change of threads.
//
// What one batch leaves for others (an operand that stays, a large partial) has an event that the
// others' streams wait for.
//
// An error of the runtime is the end: every batch that is there or still comes has it as its
// status, the start log keeps naming what ran, and health() says so, that the process be replaced.
//
// Thread-safety: one thread (that of `post`) calls everything, but for health() and counters().
// Ownership: the runtime, the log and what `post` and `on_host` need outlive the engine; batches
// belong to the caller until `done`.
// Invariants: 1. A block is freed when the stream has passed its last copy. 2. Slots of the start
// log name exactly what is on the device.
#ifndef TANDEM_WORKER_DEVICE_GPU_GPU_ENGINE_H_
#define TANDEM_WORKER_DEVICE_GPU_GPU_ENGINE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "worker/device/cpu/crew.h"
#include "worker/device/device.h"
#include "worker/device/gpu/arena.h"
#include "worker/device/gpu/device_memory.h"
#include "worker/device/gpu/gpu_accumulator.h"
#include "worker/device/gpu_runtime.h"

namespace tandem::worker {

struct GpuEngineOptions {
  uint64_t memory_bytes = 0;  // the budget on the device; 0: 90 % of what is free
  uint64_t pinned_bytes = uint64_t{1} << 30;
  uint64_t extent_bytes = uint64_t{64} << 20;  // memory is got in steps of this
  uint64_t resident_bytes_min = 64 << 10;      // smaller operands travel with each batch
  uint64_t pack_here_bytes_max = 64 << 10;     // larger blocks are packed by the crew
  // Blocks up to here, of so few parts, are not copied: grids reach them in pinned memory. Each
  // thread looks for its part there, so many of them cost more than the copies. 0: none.
  uint64_t mapped_bytes_max = 64 << 10;
  size_t mapped_parts_max = 8;
  // Enough that one that waits for its copy down holds no copy up back.
  uint32_t streams = 8;
  // Slots of the start log that are the grids': parts on the device at a time.
  uint32_t first_slot = 0;
  uint32_t slots = 8192;
};

struct GpuCounters {
  uint64_t batches = 0, launches = 0;
  uint64_t copies_up = 0, copies_down = 0, bytes_up = 0, bytes_down = 0;
  uint64_t resident_uploads = 0, resident_hits = 0, evictions = 0;
  uint64_t mapped = 0;  // batches whose block was not copied
};

class GpuEngine {
 public:
  // Runs f on the engine's thread, in order; never at once.
  using Post = std::function<void(std::function<void()> f)>;
  // Runs f on a thread of the host's crew.
  using OnHost = std::function<void(std::function<void(Crew&)> f)>;
  using Collected = std::function<void(absl::Status, int64_t busy_ns)>;

  GpuEngine(GpuRuntime* runtime, const GpuEngineOptions& options, StartLog* log, Post post,
            OnHost on_host);
  ~GpuEngine();

  // Before anything else. Errors: those of the runtime.
  absl::Status Start();

  void Submit(Batch* batch);
  // As Device::Collect.
  void Collect(std::shared_ptr<GatheredPartial> partial, void* into, Collected done);
  // Its accumulator is gone.
  void Forget(const std::shared_ptr<GatheredPartial>& partial);

  absl::Status health() const;
  GpuCounters counters() const;
  uint64_t memory_budget() const { return memory_.budget(); }

 private:
  struct Flight;
  struct Collection;

  // From queue to stream.
  void Planned(Flight* flight);
  void AdmitQueued();
  absl::Status Admit(Flight* flight);
  absl::Status AdmitSlots(Flight* flight);
  absl::Status AdmitResidents(Flight* flight);
  absl::Status AdmitBlocks(Flight* flight);
  absl::Status AdmitDeclared(Flight* flight);
  bool MayBeMapped(const Flight& flight) const;
  void Release(Flight* flight, bool all);
  // What the engine allocates for it on the device, residents included.
  static uint64_t OwnBytes(const Flight& flight);
  absl::Status CheckFits(const Flight& flight) const;
  void Pack(Flight* flight);
  void LaunchPacked();
  absl::Status Launch(Flight* flight);
  absl::Status CopyUpAll(Flight* flight);
  absl::Status LaunchStep(Flight* flight);
  absl::Status CopyUp(Flight* flight, DeviceAddress to, const void* from, uint64_t bytes);
  StreamId LeastBusy() const;
  // And back.
  void Landed(Flight* flight, const absl::Status& status);
  void TakeTimes(Flight* flight);
  void Unpack(Flight* flight);
  void Complete(Flight* flight);
  void Fail(Flight* flight, absl::Status status);
  void Break(const absl::Status& status);
  void CollectQueued();
  absl::Status StartCollection(Collection* collection);
  void EndCollection(Collection* collection, absl::Status status);

  // The log.
  void LogStep(Flight* flight);
  void EndLog(Flight* flight);

  absl::StatusOr<EventId> NewEvent();
  void PushHost(bool finish, std::function<void(Crew&)> work);
  void PumpHost();
  template <class F>
  void Count(F f) {
    absl::MutexLock lock(&mu_);
    f(counters_);
  }

  GpuRuntime* const runtime_;
  const GpuEngineOptions options_;
  StartLog* const log_;
  const Post post_;
  const OnHost on_host_;
  SoloCrew here_;
  BufferPool pool_;
  DeviceMemory memory_;
  Arena pinned_;

  std::vector<StreamId> streams_;
  std::vector<uint32_t> on_stream_;  // batches, beside streams_
  std::vector<EventId> events_;      // unused
  EventId base_ = 0;                 // times count from here
  bool timed_ = true;
  double up_until_ = 0, grid_until_ = 0, down_until_ = 0;  // seconds from the base
  int64_t landed_ns_ = 0;
  std::vector<uint32_t> free_slots_;
  std::set<const TandemKernelV1*> launched_;

  absl::flat_hash_map<Flight*, std::unique_ptr<Flight>> flights_;
  std::deque<Flight*> queue_;     // planned, in order
  std::deque<Flight*> admitted_;  // to be packed and launched, in order
  uint32_t holding_ = 0;          // flights and collections that have memory
  std::deque<std::unique_ptr<Collection>> collections_;
  std::deque<std::function<void(Crew&)>> finish_, prepare_;  // for the host, the first ones first
  uint32_t on_host_running_ = 0;

  mutable absl::Mutex mu_;
  absl::Status health_ ABSL_GUARDED_BY(mu_);
  GpuCounters counters_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_DEVICE_GPU_GPU_ENGINE_H_
