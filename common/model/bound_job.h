// BoundJob: a JobSpec checked against its kernel: extents, tree, and how each operand and output
// is cut. ValidateAndBind finds everything that can be found without bytes.
//
//   ASSIGN_OR_RETURN(BoundJob job, ValidateAndBind(spec, kernel, capabilities));
//   Plan plan = PlanRange(job, job.tree.Tasks(node));      // plan.h
//
// Binding is a pure function of spec and kernel: master, worker and client get the same BoundJob.
// Thread-safety: a value type. Ownership: holds copies of spec and kernel.
#ifndef TANDEM_COMMON_MODEL_BOUND_JOB_H_
#define TANDEM_COMMON_MODEL_BOUND_JOB_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/model/job_spec.h"
#include "common/model/kernel_info.h"
#include "common/model/range_tree.h"
#include "common/model/signature.h"

namespace tandem {

// What this build honours. A field of a JobSpec asked for while its flag is false is refused with
// UNIMPLEMENTED NOT_YET_HONOURED and the field's name.
struct Capabilities {
  bool cpus = false;        // resources.cpus
  bool memory = false;      // resources.memory
  bool gpus = false;        // resources.gpus
  bool gpu_memory = false;  // resources.gpu_memory
  bool time_limit = false;
  bool after = false;
  bool job_outputs = false;  // Operands that are outputs of another job.
  bool commands = false;
  bool retries = true;
  bool crash_limit = true;  // Another crash limit than the default.
  bool priority = true;
  bool reproducible = true;
  bool paths = true;  // path: operands.
};

// A bound on everything a spec can hold.
struct JobLimits {
  uint64_t tasks_max = RangeTree::kTasksMax;
  uint64_t name_bytes_max = 256;    // Names, owner, request id, label keys.
  uint64_t label_bytes_max = 1024;  // A label's value.
  uint64_t labels_max = 64;
  uint64_t rank_max = 8;
  uint64_t inline_bytes_max = 64 << 10;  // Of one operand.
  uint64_t ragged_items_max = 1 << 20;   // RaggedItems: more must be packed.
  uint64_t after_max = 1024;
  uint64_t retries_max = 1000;
  uint64_t crash_limit_max = 1000;
  uint64_t tensor_bytes_max = uint64_t{1} << 62;   // Of one dense operand or output.
  uint64_t partial_bytes_max = uint64_t{1} << 32;  // Of one reduced output.
};

struct BoundOperand {
  std::string name;
  TensorSpec spec;
  bool sliced = false;  // Else broadcast.
  // Where sliced: task t needs indices [per_task × t, per_task × (t + 1) + window) of dimension
  // dim. A ragged list: dim = 0, per_task = 1, window = 0, the indices are items.
  uint32_t dim = 0;
  uint64_t per_task = 1;
  uint64_t window = 0;
  uint64_t bytes = 0;  // Of the whole; for a ragged list its data, 0 when not known.
  friend bool operator==(const BoundOperand&, const BoundOperand&) = default;
};

struct BoundOutput {
  enum class Kind : uint8_t {
    kConcat,        // Task t yields indices [per_task × t, per_task × (t + 1)) of dimension dim.
    kRaggedConcat,  // Task t yields item t.
    kReduce,        // A partial of the whole shape; merged elementwise by `reduction`.
    kMerge,         // A partial that the kernel merges; its dimension dim, if sliced, grows with
                    // the tasks in it.
  };
  std::string name;
  TensorSpec spec;  // Of the whole job.
  Kind kind = Kind::kConcat;
  Reduction reduction = Reduction::kNone;
  OutputClass output_class = OutputClass::kUnspecified;
  bool sliced = false;
  uint32_t dim = 0;
  uint64_t per_task = 1;

  // A partial that stands for no single task: merged, not placed.
  bool reduced() const { return kind == Kind::kReduce || kind == Kind::kMerge; }
  // May be summed up in any order in one accumulator (docs/ARCHITECTURE.md).
  bool accumulates() const { return reduced() && output_class == OutputClass::kExact; }
  // What a range of `tasks` tasks yields, packed. REQUIRES: not kRaggedConcat.
  uint64_t PieceBytes(uint64_t tasks) const;
  friend bool operator==(const BoundOutput&, const BoundOutput&) = default;
};

struct BoundJob {
  JobSpec spec;       // With defaults filled in: name, kernel@hash, split axis, grain.
  KernelInfo kernel;  // What it is bound against.
  std::string kernel_identity;
  double ns_per_task = 0;  // The kernel's cost hint for these extents and scalars; 0: unknown.
  std::string split_axis;
  int split_axis_index = -1;
  RangeTree tree;                      // Task count and grain.
  std::vector<int64_t> axes;           // Extents, by the signature's axis index.
  std::vector<Scalar> scalars;         // By the signature's scalar index, in its dtypes.
  std::vector<BoundOperand> operands;  // In the signature's order.
  std::vector<BoundOutput> outputs;    // In the signature's order.

  uint64_t task_count() const { return tree.task_count(); }
  uint64_t grain() const { return tree.grain(); }
  bool has_reduction() const {
    for (const BoundOutput& output : outputs) {
      if (output.reduced()) return true;
    }
    return false;
  }
  friend bool operator==(const BoundJob&, const BoundJob&) = default;
};

// Errors: INVALID_ARGUMENT, with reason, field path and what to do; UNIMPLEMENTED for what is not
// honoured yet; FAILED_PRECONDITION KERNEL_CHANGED when the spec insists on another content.
absl::StatusOr<BoundJob> ValidateAndBind(JobSpec spec, const KernelInfo& kernel,
                                         const Capabilities& capabilities = {},
                                         const JobLimits& limits = {});

}  // namespace tandem

#endif  // TANDEM_COMMON_MODEL_BOUND_JOB_H_
