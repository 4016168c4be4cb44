// Plan: which bytes of each operand a range of tasks needs, and where each output lands.
//
// Pure arithmetic on a BoundJob: constant time, whatever the size of range and job.
//
//   Plan plan = PlanRange(job, job.tree.Tasks(node));
//   for (const OperandPart& part : plan.operands) Fetch(part.slice);   // job.operands' order
//
// An executor holds the slices packed; indices inside them start at `first_index`. For
// linear(x[n,k], w[m,k]) split along m, the slice of y[n,m] is n blocks, m wide apart.
// Thread-safety: pure functions.
#ifndef TANDEM_COMMON_MODEL_PLAN_H_
#define TANDEM_COMMON_MODEL_PLAN_H_

#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "common/model/bound_job.h"
#include "common/model/range_tree.h"
#include "common/model/tensor.h"

namespace tandem {

struct OperandPart {
  enum class Kind : uint8_t {
    kBroadcast,  // The whole tensor (slice covers it), or every item of a ragged list.
    kSlice,      // `slice` of the dense tensor's bytes, window included.
    kItems,      // Items [first_index, first_index + count) of a ragged list.
  };
  Kind kind = Kind::kBroadcast;
  StridedSlice slice;        // Empty for ragged lists: their offsets say.
  uint64_t first_index = 0;  // In the sliced dimension.
  uint64_t count = 0;        // Indices in the sliced dimension, window included.
  friend bool operator==(const OperandPart&, const OperandPart&) = default;
};

struct OutputPart {
  enum class Kind : uint8_t {
    kPlaced,   // Packed bytes, to be scattered into `slice` of the whole output.
    kItems,    // One byte string for each task from first_index on.
    kPartial,  // A partial of `bytes` bytes, to be merged with its sibling's.
  };
  Kind kind = Kind::kPlaced;
  StridedSlice slice;        // kPlaced only.
  uint64_t first_index = 0;  // In the concatenated dimension.
  uint64_t count = 0;        // Indices in the concatenated dimension; tasks for a partial.
  uint64_t bytes = 0;        // Packed size; 0 for kItems, whose sizes the tasks decide.
  friend bool operator==(const OutputPart&, const OutputPart&) = default;
};

struct Plan {
  TaskRange tasks;
  absl::InlinedVector<OperandPart, 4> operands;
  absl::InlinedVector<OutputPart, 4> outputs;
};

// REQUIRES: tasks.begin ≤ tasks.end ≤ job.task_count().
Plan PlanRange(const BoundJob& job, TaskRange tasks);

}  // namespace tandem

#endif  // TANDEM_COMMON_MODEL_PLAN_H_
