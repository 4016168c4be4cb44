// Run: the pieces that go to the device in one batch.
//
// Thread-safety: as Piece. Ownership: points to its pieces.
#ifndef TANDEM_WORKER_EXECUTOR_RUN_H_
#define TANDEM_WORKER_EXECUTOR_RUN_H_

#include <chrono>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "worker/device/device.h"
#include "worker/executor/executor.h"
#include "worker/executor/piece.h"

namespace tandem::worker {

struct Executor::Run {
  Batch batch;
  BatchGate gate;
  uint32_t lane = 0;
  std::vector<Piece*> pieces;       // beside batch.parts
  std::vector<absl::Status> after;  // what laying out each piece's outputs came to
  double device_ns = 0;             // expected
  int64_t tasks = 0;
  int64_t host_ns = 0;  // the lane's time around the kernel
};

// Adds what outputs weigh, by how they travel.
void CountOutputs(const google::protobuf::RepeatedPtrField<tandem::v1::OutputPiece>& outputs,
                  Usage* usage);

// The loop's clock.
inline int64_t LoopNanos() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_EXECUTOR_RUN_H_
