// What an executor counts of a job, for `tandem job explain`: small sums, told with each message
// that reports a piece of it.
//
//   job->usage.body_ns += busy;
//   job->usage.Take(usage_proto);     // the growth since the last Take
//
// How it fits: proto/tandem/v1/usage.proto says what each number means.
// Thread-safety: Usage belongs to the executor's loop; OperandUsage is counted from any thread.
#ifndef TANDEM_WORKER_EXECUTOR_USAGE_H_
#define TANDEM_WORKER_EXECUTOR_USAGE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "tandem/v1/usage.pb.h"
#include "worker/executor/byte_source.h"

namespace tandem::worker {

// Where operand bytes came from.
struct OperandUsage {
  std::atomic<uint64_t> fetched_bytes = 0;
  std::atomic<uint64_t> mapped_bytes = 0;
  std::atomic<uint64_t> path_bytes = 0;
  std::atomic<uint64_t> generated_bytes = 0;
};

struct Usage {
  uint64_t pieces = 0;
  uint64_t tasks = 0;
  uint64_t body_ns = 0;
  uint64_t host_ns = 0;
  uint64_t stall_ns = 0;
  uint64_t fetch_ns = 0;
  uint64_t inline_output_bytes = 0;
  uint64_t pushed_output_bytes = 0;
  uint64_t merges = 0;
  uint64_t merge_ns = 0;
  uint64_t partials = 0;
  uint64_t up_ns = 0;  // of a device with memory of its own, as those below
  uint64_t grid_ns = 0;
  uint64_t down_ns = 0;
  uint64_t bytes_up = 0;
  uint64_t bytes_down = 0;

  // Moves everything counted so far into `to`.
  void Take(OperandUsage* operands, tandem::v1::Usage* to);
};

// Counts what is read through a source that copies or computes its bytes.
class CountedSource final : public ByteSource {
 public:
  // `usage` keeps `counter` alive.
  CountedSource(std::shared_ptr<ByteSource> source, std::shared_ptr<OperandUsage> usage,
                std::atomic<uint64_t>* counter)
      : source_(std::move(source)), usage_(std::move(usage)), counter_(counter) {}

  uint64_t size() const override { return source_->size(); }
  bool computed() const override { return source_->computed(); }
  bool Resident(uint64_t offset, uint64_t length) const override {
    return source_->Resident(offset, length);
  }
  absl::Status Fetch(uint64_t offset, uint64_t length) override {
    return source_->Fetch(offset, length);
  }
  const char* Mapped(uint64_t offset) const override { return source_->Mapped(offset); }
  absl::Status Read(uint64_t offset, uint64_t length, char* to) override {
    counter_->fetch_add(length, std::memory_order_relaxed);
    return source_->Read(offset, length, to);
  }

 private:
  const std::shared_ptr<ByteSource> source_;
  const std::shared_ptr<OperandUsage> usage_;
  std::atomic<uint64_t>* const counter_;
};

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_EXECUTOR_USAGE_H_
