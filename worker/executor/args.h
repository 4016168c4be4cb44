// ArgsTemplate: a kernel's arguments as its signature lays them out (kernels/sdk abi.h), with
// everything filled in that is the same for every piece of a job.
//
//   ArgsTemplate args(job);
//   args.Fill(operands, outputs, rows, words);
//
// Thread-safety: immutable.
#ifndef TANDEM_WORKER_EXECUTOR_ARGS_H_
#define TANDEM_WORKER_EXECUTOR_ARGS_H_

#include <cstdint>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "common/model/bound_job.h"

namespace tandem::worker {

using ArgWords = absl::InlinedVector<uint64_t, 16>;  // 8-byte aligned argument bytes

class ArgsTemplate {
 public:
  ArgsTemplate() = default;
  explicit ArgsTemplate(const BoundJob& job);

  uint32_t bytes() const { return static_cast<uint32_t>(words_.size() * sizeof(uint64_t)); }
  // Scalars and extents, null pointers, no rows: enough for functions that look at no data.
  const uint64_t* bare() const { return words_.data(); }
  // Where in the arguments the pointers of an operand and of an output lie.
  uint32_t operand_offset(size_t operand) const { return operand_at_[operand]; }
  uint32_t output_offset(size_t output) const { return output_at_[output]; }
  // `operands` in the signature's order; `outputs` too, null where an output is reduced.
  void Fill(absl::Span<const void* const> operands, absl::Span<void* const> outputs, uint64_t rows,
            ArgWords* words) const;

 private:
  static constexpr uint32_t kNone = ~uint32_t{0};
  std::vector<uint64_t> words_;
  std::vector<uint32_t> operand_at_;
  std::vector<uint32_t> output_at_;
  uint32_t rows_at_ = 0;
};

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_EXECUTOR_ARGS_H_
