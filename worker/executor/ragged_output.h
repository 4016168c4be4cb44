// RaggedOutput: what the tasks of one piece write into a `bytes` output, gathered a task at a time
// and then laid out as [u64 offsets[tasks + 1]][bytes].
//
// Thread-safety: each sink belongs to the thread that runs its task; Store and Bytes come after.
// Ownership: owns what was written. The sinks point into this object, which does not move.
#ifndef TANDEM_WORKER_EXECUTOR_RAGGED_OUTPUT_H_
#define TANDEM_WORKER_EXECUTOR_RAGGED_OUTPUT_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "kernels/sdk/include/tandem/abi.h"
#include "worker/device/device.h"

namespace tandem::worker {

class RaggedOutput {
 public:
  explicit RaggedOutput(uint64_t tasks);
  ~RaggedOutput();
  RaggedOutput(const RaggedOutput&) = delete;
  RaggedOutput& operator=(const RaggedOutput&) = delete;

  const TandemSink* sinks() const { return sinks_.data(); }
  // Drops what a task that failed had written.
  void Clear(uint64_t task) { rows_[task].size = 0; }
  // Only the first `tasks` are the piece's.
  void Trim(uint64_t tasks);
  // The table of offsets and all bytes.
  uint64_t Bytes() const;
  // Writes them. REQUIRES: room for Bytes().
  void Store(HostCrew& crew, char* to) const;

 private:
  struct Row {
    uint8_t* data = nullptr;
    uint64_t size = 0;
    uint64_t capacity = 0;
  };
  static int32_t Write(void* context, const void* bytes, int64_t size);

  std::vector<Row> rows_;
  std::vector<TandemSink> sinks_;
};

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_EXECUTOR_RAGGED_OUTPUT_H_
