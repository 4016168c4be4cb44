// Flight: what the engine of a GPU keeps of one batch while it is under way.
//
// Thread-safety: the engine's thread, and the host's while it packs or unpacks.
#ifndef TANDEM_WORKER_DEVICE_GPU_FLIGHT_H_
#define TANDEM_WORKER_DEVICE_GPU_FLIGHT_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "worker/device/gpu/gpu_batch.h"
#include "worker/device/gpu/gpu_engine.h"

namespace tandem::worker {

struct GpuEngine::Flight {
  Flight(Batch* batch, uint64_t resident_bytes_min, BufferPool* pool)
      : work(batch, resident_bytes_min, pool) {}

  GpuBatch work;
  absl::Status status;
  bool packed = false;
  GpuBatch::Place place;
  DeviceAddress taken;    // what it has of the device's memory: its block, its workspace
  uint64_t reserved = 0;  // of the device's memory, beside what is the flight's own
  // On its stream.
  uint32_t stream = 0;  // index
  size_t step = 0;
  std::vector<uint32_t> slots;  // of the start log; the flight's own
  size_t slots_begun = 0;       // the first so many say what runs
  EventId begun = 0, up = 0, grid = 0, down = 0;
  int64_t launched_ns = 0;
  uint32_t crew_threads = 1;
};

// A large partial on its way from the device.
struct GpuEngine::Collection {
  std::shared_ptr<GatheredPartial> partial;
  void* into = nullptr;
  Collected done;
  uint8_t* pinned = nullptr;
  int64_t begun_ns = 0;
};

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_DEVICE_GPU_FLIGHT_H_
