#include "common/model/plan.h"

#include "common/base/check.h"

namespace tandem {
namespace {

OperandPart PlanOperand(const BoundOperand& operand, TaskRange tasks) {
  OperandPart part;
  if (operand.sliced && !tasks.empty()) {
    part.first_index = tasks.begin * operand.per_task;
    part.count = tasks.size() * operand.per_task + operand.window;
  } else if (operand.sliced) {
    part.first_index = tasks.begin * operand.per_task;
  }
  if (operand.spec.ragged()) {
    part.kind = operand.sliced ? OperandPart::Kind::kItems : OperandPart::Kind::kBroadcast;
    if (!operand.sliced) part.count = static_cast<uint64_t>(operand.spec.shape[0]);
    return part;
  }
  if (!operand.sliced) {
    part.slice = {0, operand.bytes, operand.bytes, operand.bytes == 0 ? 0u : 1u};
    return part;
  }
  part.kind = OperandPart::Kind::kSlice;
  if (part.count != 0) {
    part.slice =
        SliceOf(operand.spec, operand.dim, part.first_index, part.first_index + part.count);
  }
  return part;
}

OutputPart PlanOutput(const BoundOutput& output, TaskRange tasks) {
  OutputPart part;
  if (output.reduced()) {
    part.kind = OutputPart::Kind::kPartial;
    part.first_index = tasks.begin;
    part.count = tasks.size();
    part.bytes = output.PieceBytes(tasks.size());
    return part;
  }
  part.first_index = tasks.begin * output.per_task;
  part.count = tasks.size() * output.per_task;
  if (output.kind == BoundOutput::Kind::kRaggedConcat) {
    part.kind = OutputPart::Kind::kItems;
    return part;
  }
  part.slice = SliceOf(output.spec, output.dim, part.first_index, part.first_index + part.count);
  part.bytes = part.slice.bytes();
  return part;
}

}  // namespace

Plan PlanRange(const BoundJob& job, TaskRange tasks) {
  DCHECK(tasks.begin <= tasks.end && tasks.end <= job.task_count());
  Plan plan;
  plan.tasks = tasks;
  for (const BoundOperand& operand : job.operands) {
    plan.operands.push_back(PlanOperand(operand, tasks));
  }
  for (const BoundOutput& output : job.outputs) {
    plan.outputs.push_back(PlanOutput(output, tasks));
  }
  return plan;
}

}  // namespace tandem
