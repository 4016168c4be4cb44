// CpuAccumulator: exact partials of one job, a private one a slot, merged when they are collected.
//
// Thread-safety: ForSlot is called by the thread that has the slot; MergeInto by one thread while
// no other uses the accumulator.
// Ownership: holds a copy of the arguments and the slots' partials, which go back to the pool.
#ifndef TANDEM_WORKER_DEVICE_CPU_CPU_ACCUMULATOR_H_
#define TANDEM_WORKER_DEVICE_CPU_CPU_ACCUMULATOR_H_

#include <cstdint>
#include <vector>

#include "worker/device/buffers.h"
#include "worker/device/cpu/crew.h"
#include "worker/device/device.h"

namespace tandem::worker {

class CpuAccumulator final : public Accumulator {
 public:
  CpuAccumulator(const TandemKernelV1* kernel, const void* args, uint32_t slots, BufferPool* pool);
  ~CpuAccumulator() override;

  // The slot's partial, made on first use; null when there is no memory.
  void* ForSlot(uint32_t slot);
  // Counts tasks into what the slot's partial holds (own merges are told how many).
  void Count(uint32_t slot, int64_t tasks) { slots_[slot].tasks += tasks; }

  // `into` becomes the merge of all slots, or the identity. Pairs merge side by side.
  absl::Status MergeInto(HostCrew& crew, void* into);
  // Bytes that MergeInto has to read.
  uint64_t bytes_held() const;

 private:
  struct alignas(64) Slot {
    AlignedBuffer partial;
    int64_t tasks = 0;
    bool used = false;
  };

  const TandemKernelV1* const kernel_;
  const std::vector<uint64_t> args_;  // 8-byte aligned copy
  const int64_t partial_bytes_;
  BufferPool* const pool_;
  std::vector<Slot> slots_;
};

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_DEVICE_CPU_CPU_ACCUMULATOR_H_
