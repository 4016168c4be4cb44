// Crew: the threads that work on one batch: those of a lane, or the submitting thread alone.
//
// Each thread has a slot: a number below the device's slot count, with memory that is kept from
// piece to piece. Two threads that work at the same time never have the same slot.
//
// Thread-safety: methods may be called from any thread of the crew while the batch runs.
#ifndef TANDEM_WORKER_DEVICE_CPU_CREW_H_
#define TANDEM_WORKER_DEVICE_CPU_CREW_H_

#include <cstdint>

#include "worker/device/device.h"

namespace tandem::worker {

class Crew : public HostCrew {
 public:
  // The calling thread's slot.
  virtual uint32_t slot() const = 0;
  virtual uint32_t threads() const = 0;
};

// The submitting thread, alone.
class SoloCrew final : public Crew {
 public:
  explicit SoloCrew(uint32_t slot) : slot_(slot) {}
  void ParallelFor(int64_t n, int64_t, Body body) override {
    if (n > 0) body(0, n);
  }
  uint32_t slot() const override { return slot_; }
  uint32_t threads() const override { return 1; }

 private:
  const uint32_t slot_;
};

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_DEVICE_CPU_CREW_H_
