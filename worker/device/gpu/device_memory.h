// DeviceMemory: the memory of one device within its budget: blocks of batches, and resident
// operands, which stay until their room is needed (the least recently used goes first).
//
//   if (Resident* r = memory.Use(content, bytes)) …          // it lies there already
//   else ASSIGN_OR_RETURN(Resident * r, memory.Keep(content, bytes));   // to be copied up once
//   memory.Leave(r);
//
// Thread-safety: one thread. Ownership: owns residents; a pointer is good while one uses it.
// Invariants: 1. used() and what is reserved are within the budget. 2. What somebody uses is never
// evicted.
#ifndef TANDEM_WORKER_DEVICE_GPU_DEVICE_MEMORY_H_
#define TANDEM_WORKER_DEVICE_GPU_DEVICE_MEMORY_H_

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/device/gpu/arena.h"
#include "worker/device/gpu_runtime.h"

namespace tandem::worker {

// An operand that is kept.
struct Resident {
  uint64_t content = 0;
  uint64_t bytes = 0;
  DeviceAddress address;
  EventId uploaded = 0;  // who uses it waits for this
  uint32_t users = 0;
  uint64_t last_use = 0;
};

class DeviceMemory {
 public:
  DeviceMemory(uint64_t budget, uint64_t extent_bytes, Arena::Get get, Arena::Give give)
      : arena_(budget, extent_bytes, std::move(get), std::move(give)) {}

  // Evicts as far as needed. Errors: as Arena::Take.
  absl::StatusOr<DeviceAddress> Take(uint64_t bytes);
  void Free(DeviceAddress address) { arena_.Free(address.value); }
  // Sets memory apart for what is allocated beside this; evicts as far as needed. Errors: as
  // Arena::Reserve.
  absl::Status Reserve(uint64_t bytes);
  void Unreserve(uint64_t bytes) { arena_.Unreserve(bytes); }

  // A user more; null when it is not there.
  Resident* Use(uint64_t content, uint64_t bytes);
  // Room for one more, with a user; `uploaded` is its event from now on. REQUIRES: it is not there.
  absl::StatusOr<Resident*> Keep(uint64_t content, uint64_t bytes, EventId uploaded);
  // A user less.
  void Leave(Resident* resident);
  // Forgets one that was never copied up; its event is the caller's. REQUIRES: one user.
  void Drop(Resident* resident);

  // Events of what was evicted, for others.
  std::vector<EventId> TakeSpareEvents() { return std::exchange(spare_events_, {}); }
  uint64_t budget() const { return arena_.budget(); }
  uint64_t used() const { return arena_.used(); }
  uint64_t evictions() const { return evictions_; }

 private:
  using Key = std::pair<uint64_t, uint64_t>;  // content, bytes
  bool EvictOne();

  Arena arena_;
  std::map<Key, std::unique_ptr<Resident>> residents_;
  std::map<uint64_t, Resident*> idle_;  // by last use
  std::vector<EventId> spare_events_;
  uint64_t clock_ = 0;
  uint64_t evictions_ = 0;
};

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_DEVICE_GPU_DEVICE_MEMORY_H_
