#include "common/model/bound_job.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_join.h"
#include "common/base/checked_math.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/model/job_order.h"
#include "common/model/job_spec_check.h"
#include "common/model/operand_check.h"

namespace tandem {
namespace {

// Binds one job, step by step; each step relies on those before it.
class Binder {
 public:
  Binder(JobSpec spec, const KernelInfo& kernel, const Capabilities& capabilities,
         const JobLimits& limits)
      : spec_(std::move(spec)),
        kernel_(kernel),
        signature_(kernel.signature),
        can_(capabilities),
        limits_(limits) {}

  absl::StatusOr<BoundJob> Bind() {
    RETURN_IF_ERROR(CheckJobPolicy(spec_, can_, limits_));
    RETURN_IF_ERROR(CheckKernel());
    RETURN_IF_ERROR(CheckNames());
    RETURN_IF_ERROR(BindScalars());
    RETURN_IF_ERROR(BindOperands());
    RETURN_IF_ERROR(BindAxes());
    RETURN_IF_ERROR(BindTasks());
    for (size_t i = 0; i < job_.operands.size(); ++i) RETURN_IF_ERROR(CutOperand(i));
    for (size_t i = 0; i < signature_.outputs().size(); ++i) RETURN_IF_ERROR(BindOutput(i));
    if (spec_.name.empty()) spec_.name = kernel_.name;
    spec_.kernel = job_.kernel_identity;
    spec_.split_axis = job_.split_axis;
    job_.spec = std::move(spec_);
    job_.kernel = kernel_;
    RETURN_IF_ERROR(Pin());
    return std::move(job_);
  }

 private:
  absl::Status CheckKernel();
  absl::Status CheckNames() const;
  absl::Status BindScalars();
  absl::StatusOr<Scalar> BindScalar(const ScalarSig& sig) const;
  absl::Status BindOperands();
  absl::Status UnknownAxis(std::string_view name) const;
  absl::Status BindAxes();
  absl::StatusOr<int> ChooseAxis() const;
  absl::Status BindTasks();
  absl::Status CutOperand(size_t index);
  absl::Status BindOutput(size_t index);
  absl::Status CheckOutputSize(const BoundOutput& output) const;
  absl::Status Pin();
  absl::StatusOr<LinearForm> FormOf(const Extent& extent, std::string_view whose) const;
  ExtentValues values() const { return {job_.axes, scalar_values_}; }

  JobSpec spec_;
  const KernelInfo& kernel_;
  const Signature& signature_;
  const Capabilities& can_;
  const JobLimits& limits_;
  BoundJob job_;
  std::vector<int64_t> scalar_values_;
};

// "; did you mean strike?" or "; the kernel takes spot, strike".
template <class Things>
std::string Suggestion(std::string_view typed, const Things& things) {
  std::vector<std::string_view> names;
  std::string list;
  for (const auto& thing : things) {
    names.push_back(thing.name);
    StrAppend(&list, list.empty() ? "" : ", ", thing.name);
  }
  const std::string_view nearest = Nearest(typed, names);
  if (!nearest.empty()) return StrCat("; did you mean ", nearest, "?");
  return list.empty() ? "; the kernel takes none" : StrCat("; the kernel takes ", list);
}

absl::Status Binder::CheckKernel() {
  ASSIGN_OR_RETURN(const KernelRef ref, ParseKernelRef(spec_.kernel));
  if (ref.name != kernel_.name) {
    return WithField(Error(absl::StatusCode::kNotFound, reason::kUnknownKernel,
                           StrCat("the kernel ", Quoted(ref.name), " is not known here")),
                     "kernel");
  }
  job_.kernel_identity = kernel_.identity();
  if (ref.content_hash != 0 && ref.content_hash != kernel_.content_hash) {
    return WithField(Error(absl::StatusCode::kFailedPrecondition, reason::kKernelChanged,
                           StrCat("the job asks for ", spec_.kernel, ", but the cluster has ",
                                  job_.kernel_identity, ": submit with the name alone to use it")),
                     "kernel");
  }
  return absl::OkStatus();
}

absl::Status Binder::CheckNames() const {
  for (const auto& [name, operand] : spec_.operands) {
    if (signature_.FindOperand(name) >= 0) continue;
    if (signature_.FindScalar(name) >= 0) {
      return WithField(InvalidError(reason::kUnknownOperand,
                                    StrCat(name, " is a scalar of ", kernel_.name,
                                           ", not an operand: give a value, as in ", name, "=1")),
                       StrCat("operands.", name));
    }
    return WithField(
        InvalidError(reason::kUnknownOperand, StrCat(kernel_.name, " has no operand ", Quoted(name),
                                                     Suggestion(name, signature_.operands()))),
        StrCat("operands.", name));
  }
  for (const auto& [name, value] : spec_.scalars) {
    if (signature_.FindScalar(name) >= 0) continue;
    if (signature_.FindOperand(name) >= 0) {
      return WithField(InvalidError(reason::kUnknownScalar,
                                    StrCat(name, " is an operand of ", kernel_.name,
                                           ", not a scalar: give a file or a generator")),
                       StrCat("scalars.", name));
    }
    return WithField(
        InvalidError(reason::kUnknownScalar, StrCat(kernel_.name, " has no scalar ", Quoted(name),
                                                    Suggestion(name, signature_.scalars()))),
        StrCat("scalars.", name));
  }
  return absl::OkStatus();
}

absl::StatusOr<Scalar> Binder::BindScalar(const ScalarSig& sig) const {
  const auto given = spec_.scalars.find(sig.name);
  if (given == spec_.scalars.end()) {
    if (sig.default_value.has_value()) return *sig.default_value;
    return InvalidError(
        reason::kMissingScalar,
        StrCat(kernel_.name, " needs the scalar ", sig.name, ":", DTypeName(sig.dtype),
               ", which has no default: give ", sig.name, "=…"));
  }
  const absl::StatusOr<Scalar> value = given->second.ConvertTo(sig.dtype);
  if (!value.ok()) return WithContext(value.status(), StrCat("scalar ", sig.name));
  if (sig.lo.has_value() &&
      (Scalar::Compare(*value, *sig.lo) < 0 || Scalar::Compare(*value, *sig.hi) > 0)) {
    return InvalidError(reason::kScalarOutOfRange,
                        StrCat("scalar ", sig.name, " is ", *value, ", but ", kernel_.name,
                               " takes values from ", *sig.lo, " to ", *sig.hi));
  }
  return value;
}

absl::Status Binder::BindScalars() {
  for (const ScalarSig& sig : signature_.scalars()) {
    const absl::StatusOr<Scalar> value = BindScalar(sig);
    if (!value.ok()) return WithField(value.status(), StrCat("scalars.", sig.name));
    job_.scalars.push_back(*value);
    if (IsInteger(sig.dtype) && !value->AsInt64().has_value()) {
      // Only where an extent uses it does it have to fit.
      scalar_values_.push_back(std::numeric_limits<int64_t>::max());
    } else {
      scalar_values_.push_back(value->AsInt64().value_or(0));
    }
  }
  return absl::OkStatus();
}

// Of a valid operand: its dense bytes, or those of a ragged list's items where they are known.
uint64_t BytesOf(const OperandSpec& operand) {
  if (const auto* packed = std::get_if<RaggedPacked>(&operand.source)) return packed->data_bytes;
  if (const auto* list = std::get_if<RaggedItems>(&operand.source)) {
    uint64_t bytes = 0;
    for (const Locator& item : list->items) {
      bytes = SaturatingAdd(bytes, LocatorBytes(item).value_or(0));
    }
    return bytes;
  }
  return operand.spec.ragged() ? 0 : *operand.spec.Bytes();
}

absl::Status Binder::BindOperands() {
  for (const OperandSig& sig : signature_.operands()) {
    const std::string field = StrCat("operands.", sig.name);
    const auto given = spec_.operands.find(sig.name);
    if (given == spec_.operands.end()) {
      return WithField(
          InvalidError(reason::kMissingOperand,
                       StrCat(kernel_.name, " needs the operand ", sig.name, ":",
                              DTypeName(sig.dtype), ": give ", sig.name, "=@file or a generator")),
          field);
    }
    const OperandSpec& operand = given->second;
    RETURN_IF_ERROR(WithField(CheckOperand(sig, operand, can_, limits_), field));
    BoundOperand bound;
    bound.name = sig.name;
    bound.spec = operand.spec;
    bound.bytes = BytesOf(operand);
    if (bound.bytes > limits_.tensor_bytes_max) {
      return WithField(InvalidError(reason::kTooLarge,
                                    StrCat("operand ", sig.name, " has ", HumanSize(bound.bytes),
                                           ", more than ", HumanSize(limits_.tensor_bytes_max))),
                       field);
    }
    job_.operands.push_back(std::move(bound));
  }
  return absl::OkStatus();
}

absl::Status Binder::UnknownAxis(std::string_view name) const {
  const std::vector<std::string_view> names(signature_.axes().begin(), signature_.axes().end());
  const std::string_view near = Nearest(name, names);
  return InvalidError(
      reason::kUnknownAxis,
      StrCat(kernel_.name, " has no axis ", Quoted(name),
             near.empty() ? StrCat("; it has ", absl::StrJoin(signature_.axes(), ", "))
                          : StrCat("; did you mean ", near, "?")));
}

absl::Status Binder::BindAxes() {
  std::vector<int64_t> given(signature_.axes().size(), kUnknownExtent);
  for (const auto& [name, extent] : spec_.axis_extents) {
    const std::string field = StrCat("axis_extents.", name);
    const int axis = signature_.FindAxis(name);
    if (axis < 0) {
      return WithField(UnknownAxis(name), field);
    }
    if (extent < 0) {
      return WithField(InvalidError(reason::kBadSpec, StrCat("the extent of axis ", name, " is ",
                                                             extent, ", which is negative")),
                       field);
    }
    given[axis] = extent;
  }
  std::vector<Shape> shapes;
  for (const BoundOperand& operand : job_.operands) shapes.push_back(operand.spec.shape);
  ASSIGN_OR_RETURN(job_.axes, signature_.InferAxes(shapes, scalar_values_, given));
  return absl::OkStatus();
}

absl::StatusOr<int> Binder::ChooseAxis() const {
  std::vector<int> task_axes = signature_.task_axes();
  if (!kernel_.split_axes.empty()) task_axes.clear();
  for (const std::string& name : kernel_.split_axes) {
    if (const int axis = signature_.FindAxis(name); axis >= 0) task_axes.push_back(axis);
  }
  if (task_axes.empty()) {
    return InvalidError(reason::kAxisNotSplittable,
                        StrCat(kernel_.name, " has no axis to split: its signature names none"));
  }
  int axis = task_axes.front();
  if (!spec_.split_axis.empty()) {
    axis = signature_.FindAxis(spec_.split_axis);
    if (axis < 0) {
      return UnknownAxis(spec_.split_axis);
    }
  }
  RETURN_IF_ERROR(signature_.CheckSplittable(axis, task_axes));
  return axis;
}

absl::Status Binder::BindTasks() {
  const absl::StatusOr<int> axis = ChooseAxis();
  if (!axis.ok()) return WithField(axis.status(), "split_axis");
  const auto tasks = static_cast<uint64_t>(job_.axes[*axis]);
  const uint64_t tasks_max = std::min(limits_.tasks_max, RangeTree::kTasksMax);
  job_.split_axis = signature_.axes()[*axis];
  job_.split_axis_index = *axis;
  if (tasks > tasks_max) {
    return WithField(
        InvalidError(reason::kTooLarge, StrCat("axis ", job_.split_axis, " has ", tasks,
                                               " tasks, more than ", tasks_max)),
        "split_axis");
  }
  ASSIGN_OR_RETURN(const double units,
                   UnitsPerTask(kernel_.cost, signature_, job_.axes, job_.scalars));
  job_.ns_per_task = kernel_.cost.ns_per_unit * units;
  if (spec_.grain == 0) spec_.grain = DefaultGrain(kernel_.cost, job_.ns_per_task);
  spec_.grain = std::min(spec_.grain, RangeTree::kTasksMax);
  // What a leaf is expected to take is told by its tasks: those that are there.
  job_.tree = RangeTree(tasks, std::min(spec_.grain, std::max<uint64_t>(tasks, 1)));
  return absl::OkStatus();
}

absl::StatusOr<LinearForm> Binder::FormOf(const Extent& extent, std::string_view whose) const {
  const absl::StatusOr<LinearForm> form = extent.EvaluateLinear(job_.split_axis_index, values());
  if (!form.ok()) return WithContext(form.status(), whose);
  if (form->coefficient < 1 || form->constant < 0) {
    return WithField(
        InvalidError(reason::kAxisNotSplittable,
                     StrCat("axis ", job_.split_axis, " cannot be split: ", whose, " takes ",
                            form->coefficient, " elements a task and ", form->constant, " beyond")),
        "split_axis");
  }
  return form;
}

absl::Status Binder::CutOperand(size_t index) {
  const OperandSig& sig = signature_.operands()[index];
  BoundOperand& operand = job_.operands[index];
  for (size_t dim = 0; dim < sig.dims.size(); ++dim) {
    if (!sig.dims[dim].Mentions(job_.split_axis_index)) continue;
    ASSIGN_OR_RETURN(const LinearForm form, FormOf(sig.dims[dim], StrCat("operand ", sig.name)));
    operand.sliced = true;
    operand.dim = static_cast<uint32_t>(dim);
    operand.per_task = static_cast<uint64_t>(form.coefficient);
    operand.window = static_cast<uint64_t>(form.constant);
  }
  return absl::OkStatus();
}

absl::Status Binder::BindOutput(size_t index) {
  const OutputSig& sig = signature_.outputs()[index];
  BoundOutput output;
  output.name = sig.name;
  output.reduction = sig.reduction;
  output.output_class = kernel_.ClassOf(sig);
  ASSIGN_OR_RETURN(output.spec, signature_.OutputSpec(static_cast<int>(index), values()));
  for (size_t dim = 0; dim < sig.dims.size(); ++dim) {
    if (!sig.dims[dim].Mentions(job_.split_axis_index)) continue;
    ASSIGN_OR_RETURN(const LinearForm form, FormOf(sig.dims[dim], StrCat("output ", sig.name)));
    output.sliced = true;
    output.dim = static_cast<uint32_t>(dim);
    output.per_task = static_cast<uint64_t>(form.coefficient);
  }
  if (sig.reduction == Reduction::kMerge) {
    output.kind = BoundOutput::Kind::kMerge;
  } else if (!output.sliced) {
    output.kind = BoundOutput::Kind::kReduce;
  } else {
    output.kind = sig.ragged() ? BoundOutput::Kind::kRaggedConcat : BoundOutput::Kind::kConcat;
    output.reduction = Reduction::kNone;
  }
  RETURN_IF_ERROR(CheckOutputSize(output));
  job_.outputs.push_back(std::move(output));
  return absl::OkStatus();
}

absl::Status Binder::CheckOutputSize(const BoundOutput& output) const {
  if (output.kind == BoundOutput::Kind::kRaggedConcat) return absl::OkStatus();
  const absl::StatusOr<uint64_t> bytes = output.spec.Bytes();
  if (!bytes.ok()) return WithContext(bytes.status(), StrCat("output ", output.name));
  // The last merge has the whole of it.
  const uint64_t most = output.reduced() ? limits_.partial_bytes_max : limits_.tensor_bytes_max;
  if (*bytes > most) {
    return InvalidError(reason::kTooLarge,
                        StrCat("output ", output.name, " would be ", output.spec.ToString(), ", ",
                               HumanSize(*bytes), ", more than ", HumanSize(most),
                               output.reduced() ? " that a partial may have" : ""));
  }
  return absl::OkStatus();
}

// Other devices sum such outputs in other orders.
absl::Status Binder::Pin() {
  if (!Pinned(job_)) return absl::OkStatus();
  JobSpec& spec = job_.spec;
  if (spec.device == DeviceChoice::kGpu || spec.resources.gpus_e4 != 0) {
    return WithField(
        InvalidError(reason::kBadSpec,
                     StrCat("reproducible is asked for, but outputs of ", kernel_.name,
                            " are of class tolerant: CPUs alone give them the same bytes every "
                            "time; leave the GPU or reproducible out")),
        "reproducible");
  }
  spec.device = DeviceChoice::kCpu;
  return absl::OkStatus();
}

}  // namespace

uint64_t BoundOutput::PieceBytes(uint64_t tasks) const {
  uint64_t bytes = DTypeSize(spec.dtype);
  for (size_t i = 0; i < spec.shape.size(); ++i) {
    bytes *= sliced && i == dim ? per_task * tasks : static_cast<uint64_t>(spec.shape[i]);
  }
  return bytes;
}

absl::StatusOr<BoundJob> ValidateAndBind(JobSpec spec, const KernelInfo& kernel,
                                         const Capabilities& capabilities,
                                         const JobLimits& limits) {
  return Binder(std::move(spec), kernel, capabilities, limits).Bind();
}

}  // namespace tandem
