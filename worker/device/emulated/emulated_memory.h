// EmulatedMemory: an emulated device's memory: an address space of its own, with a hard budget.
//
// The pages of an allocation are mapped twice. At its address, which kernels see, they can be
// touched only while a grid runs (Opened); a gibibyte of guard pages stands on either side. The
// host's pointers can therefore not be followed into the device, nor a device's address by the
// host: both end in a fault at once. The second mapping belongs to the copy engine alone.
//
// An open memory can be touched at any time: changing what may be touched costs the host more than
// a short grid, so who keeps times does without.
//
// Thread-safety: any thread. Ownership: frees what is left.
#ifndef TANDEM_WORKER_DEVICE_EMULATED_EMULATED_MEMORY_H_
#define TANDEM_WORKER_DEVICE_EMULATED_EMULATED_MEMORY_H_

#include <cstdint>
#include <map>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "worker/device/gpu_runtime.h"

namespace tandem::worker {

class EmulatedMemory {
 public:
  enum class Access { kOnlyGrids, kOpen };

  explicit EmulatedMemory(uint64_t budget, Access access = Access::kOnlyGrids)
      : budget_(budget), access_(access) {}
  ~EmulatedMemory();
  EmulatedMemory(const EmulatedMemory&) = delete;
  EmulatedMemory& operator=(const EmulatedMemory&) = delete;

  // The content is a pattern, not zeros. Errors: RESOURCE_EXHAUSTED (OUT_OF_MEMORY), with the need
  // and the budget.
  absl::StatusOr<DeviceAddress> Allocate(uint64_t bytes);
  // Errors: INVALID_ARGUMENT when it is no allocation's address.
  absl::Status Free(DeviceAddress address);
  uint64_t FreeBytes() const;

  // Within one allocation, its end included?
  bool Owns(uint64_t address) const;
  // Where the copy engine finds these bytes. Errors: INVALID_ARGUMENT when they do not all lie in
  // one allocation.
  absl::StatusOr<uint8_t*> ForCopy(DeviceAddress address, uint64_t bytes) const;

  // While one of these lives, kernels may touch the allocations that there are.
  class Opened {
   public:
    explicit Opened(EmulatedMemory* memory) : memory_(memory) { memory_->Protect(true); }
    ~Opened() { memory_->Protect(false); }
    Opened(const Opened&) = delete;
    Opened& operator=(const Opened&) = delete;

   private:
    EmulatedMemory* const memory_;
  };

  // INTERNAL when somebody wrote between the end of an allocation and its guard page.
  absl::Status CheckSlack() const;

 private:
  struct Allocation {
    uint64_t bytes = 0;
    uint64_t mapped = 0;       // in whole pages
    uint8_t* alias = nullptr;  // the copy engine's mapping
  };
  void Protect(bool open);
  void Unmap(uint64_t address, const Allocation& allocation);
  // Null when there is none.
  const Allocation* Find(uint64_t address, uint64_t* begin) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const uint64_t budget_;
  const Access access_;
  mutable absl::Mutex mu_;
  std::map<uint64_t, Allocation> allocations_ ABSL_GUARDED_BY(mu_);  // by address
  uint64_t used_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_DEVICE_EMULATED_EMULATED_MEMORY_H_
