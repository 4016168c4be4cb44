// GpuRuntime: what the engine of a GPU asks of the device beneath it: memory, streams, events,
// copies and grids. The CUDA runtime is one form of it, the emulated device another; the engine
// above (the `Device` that an executor drives) is the same for both.
//
//   gpu->CopyUp(stream, slab, pinned, bytes);
//   gpu->LaunchGrid(stream, launch);
//   gpu->CopyDown(stream, pinned, slab, bytes);
//   gpu->Call(stream, [](const absl::Status& status) { … });   // all of the above is done
//
// Every call on a stream is asynchronous: it returns before the work is done and never waits for
// the device. Work of one stream is done in order; work of two streams in any order that Wait
// leaves open.
//
// Ownership: the caller owns host memory, and leaves what a copy reads or writes alone from the
// call until the stream has passed it, on success and on failure alike. A launch copies its parts
// and their arguments before it returns (as CUDA does with a kernel's parameters). Addresses belong
// to the caller until Free; freeing what the device still uses is an error of the program.
//
// Errors: RESOURCE_EXHAUSTED (OUT_OF_MEMORY) of Allocate harms nothing. INTERNAL (DEVICE_FAULT) is
// sticky: from then on every call fails with it, callbacks are given it, and the process that
// drives the device is to be replaced. UNAVAILABLE (DEVICE_FAULT): the device itself is gone.
//
// Thread-safety: one thread calls everything; callbacks come on the runtime's own thread, must not
// block and may not call it.
#ifndef TANDEM_WORKER_DEVICE_GPU_RUNTIME_H_
#define TANDEM_WORKER_DEVICE_GPU_RUNTIME_H_

#include <compare>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "kernels/sdk/include/tandem/abi.h"

namespace tandem::worker {

// A place in a device's memory. Not a pointer: the host cannot follow it.
struct DeviceAddress {
  uint64_t value = 0;

  bool valid() const { return value != 0; }
  DeviceAddress operator+(uint64_t bytes) const { return {value + bytes}; }
  // As a kernel's arguments hold it.
  void* ForKernel() const { return reinterpret_cast<void*>(value); }
  friend auto operator<=>(const DeviceAddress&, const DeviceAddress&) = default;
};

using StreamId = uint32_t;
using EventId = uint32_t;

struct GpuProperties {
  std::string model;
  std::string uuid;
  uint64_t memory_bytes = 0;
  uint32_t multiprocessors = 1;
  uint32_t threads_a_multiprocessor = 2048;
  // What its start took; 0: it has none.
  absl::Duration driver_start, context_start;
};

struct GridLaunch {
  const TandemKernelV1* kernel = nullptr;
  // As abi.h has them: arguments in host memory, every pointer in them, `fault` and `partial`
  // device addresses.
  absl::Span<const TandemPart> parts;
  DeviceAddress slab;       // where the packed parts lie, for a kernel that packs them
  DeviceAddress workspace;  // workspace_bytes of it
  double expected_ns = 0;   // of all tasks on one CPU core; 0: not known
};

class GpuRuntime {
 public:
  using Callback = std::function<void(const absl::Status&)>;

  virtual ~GpuRuntime() = default;
  virtual const GpuProperties& properties() const = 0;
  // OK, or the sticky error.
  virtual absl::Status health() const = 0;

  // Aligned to 256 bytes at least. REQUIRES: bytes > 0.
  virtual absl::StatusOr<DeviceAddress> Allocate(uint64_t bytes) = 0;
  virtual absl::Status Free(DeviceAddress address) = 0;
  // Bytes of the device's memory that nobody has now, in this process or another; 0 when it cannot
  // say. A hint: the next Allocate of so many may fail all the same.
  virtual uint64_t FreeBytes() const = 0;
  // Host memory that copies may use: pinned, for only that is copied without anybody waiting.
  virtual absl::StatusOr<void*> AllocateHost(uint64_t bytes) = 0;
  virtual absl::Status FreeHost(void* memory) = 0;
  // Where grids reach this place in memory of AllocateHost without a copy. Not valid: they cannot,
  // here, or it is other memory; then it has to be copied. Waits for nothing, breaks nothing.
  virtual DeviceAddress Mapped(void* memory) const {
    (void)memory;
    return {};
  }

  virtual absl::StatusOr<StreamId> NewStream() = 0;
  virtual absl::StatusOr<EventId> NewEvent() = 0;

  virtual absl::Status CopyUp(StreamId stream, DeviceAddress to, const void* from,
                              uint64_t bytes) = 0;
  virtual absl::Status CopyDown(StreamId stream, void* to, DeviceAddress from, uint64_t bytes) = 0;
  virtual absl::Status Fill(StreamId stream, DeviceAddress to, uint8_t value, uint64_t bytes) = 0;
  virtual absl::Status LaunchGrid(StreamId stream, const GridLaunch& launch) = 0;

  // The event is reached when the stream has passed this point; recording it anew forgets the old.
  virtual absl::Status Record(StreamId stream, EventId event) = 0;
  // What follows in the stream begins after the event; one never recorded holds nothing up.
  virtual absl::Status Wait(StreamId stream, EventId event) = 0;
  virtual absl::StatusOr<bool> Reached(EventId event) const = 0;
  // From one event to another, by the device's clock. REQUIRES: both are reached.
  virtual absl::StatusOr<absl::Duration> Between(EventId from, EventId to) const = 0;
  // `callback` is called once: with OK when the stream has passed this point, with the sticky error
  // when it never will. Not at all if this call fails, or the runtime is destroyed before.
  virtual absl::Status Call(StreamId stream, Callback callback) = 0;
};

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_DEVICE_GPU_RUNTIME_H_
