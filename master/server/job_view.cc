#include "master/server/job_view.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/wire/job_spec.h"
#include "master/server/records.h"
#include "master/server/timestamps.h"

namespace tandem::master {
namespace {

// "sliced along n with overlap 10"
std::string HowUsed(const BoundJob& job, const BoundOperand& operand) {
  if (!operand.sliced) return "broadcast";
  std::string how = StrCat("sliced along ", job.split_axis);
  if (operand.window > 0) StrAppend(&how, " with overlap ", operand.window);
  if (operand.dim > 0) StrAppend(&how, " (dimension ", operand.dim, ", strided)");
  return how;
}

void EncodeSpec(const JobSpec& spec, JobDetail detail, v1::JobSpec* to) {
  wire::Encode(spec, to);
  if (detail == JobDetail::kBrief) to->clear_operands();
}

}  // namespace

void EncodeOutputs(const BoundJob& job, google::protobuf::RepeatedPtrField<v1::OutputInfo>* to) {
  for (const BoundOutput& output : job.outputs) {
    v1::OutputInfo* info = to->Add();
    info->set_name(output.name);
    wire::Encode(output.spec, info->mutable_tensor());
    info->set_reduced(output.reduced());
    info->set_split_dim(output.reduced() ? -1 : static_cast<int32_t>(output.dim));
  }
}

void EncodeJob(const JobView& view, JobDetail detail, v1::Job* to) {
  const JobStatus& status = view.status;
  const BoundJob& bound = view.bound();
  to->set_id(status.job.value());
  EncodeSpec(bound.spec, detail, to->mutable_spec());
  to->set_state(EncodeState(status.state));
  to->set_wait_reason(EncodeWaitReason(status.wait_reason));
  to->set_reason(status.reason);
  to->set_task_count(bound.task_count());
  to->set_tasks_done(status.tasks_done);
  to->set_tasks_failed(status.tasks_failed);
  EncodeOutputs(bound, to->mutable_outputs());
  to->set_sequence(status.sequence);
  EncodeTime(view.accepted->submitted, to->mutable_submitted());
  if (view.started() != absl::InfiniteFuture()) EncodeTime(view.started(), to->mutable_started());
  if (view.ended != absl::InfiniteFuture()) EncodeTime(view.ended, to->mutable_ended());
  to->set_leaf_count(bound.tree.leaf_count());
  to->set_leases(status.leases);
  to->set_retried_tasks(status.retried_tasks);
  to->set_busy_ns(status.busy_ns);
}

void EncodePlan(const BoundJob& job, v1::JobPlan* to) {
  wire::Encode(job.spec, to->mutable_spec());
  to->set_task_count(job.task_count());
  to->set_leaf_count(job.tree.leaf_count());
  for (const BoundOperand& operand : job.operands) {
    v1::OperandPlan* plan = to->add_operands();
    plan->set_name(operand.name);
    plan->set_how(HowUsed(job, operand));
    plan->set_total_bytes(operand.bytes);
  }
  EncodeOutputs(job, to->mutable_outputs());
}

JobRow RowOf(const JobView& view, bool with_spec) {
  const JobSpec& spec = view.bound().spec;
  JobRow row{.id = view.status.job,
             .owner = spec.owner,
             .name = spec.name,
             .kernel = spec.kernel,
             .state = static_cast<uint32_t>(view.status.state),
             .priority = spec.priority,
             .task_count = view.bound().task_count(),
             .done = view.status.tasks_done,
             .failed = view.status.tasks_failed,
             .reason = view.status.reason,
             .submitted = view.accepted->submitted,
             .started = view.started(),
             .ended = view.ended,
             .labels = spec.labels,
             .spec = std::nullopt};
  if (with_spec) row.spec = EncodeJobSpec(*view.accepted);
  return row;
}

absl::StatusOr<JobView> ViewOf(const JobRow& row) {
  auto accepted = std::make_shared<JobAccepted>();
  RETURN_IF_ERROR(DecodeJobSpec(row.spec.value_or(""), accepted.get()));
  JobView view;
  view.status.job = row.id;
  view.status.state = static_cast<JobState>(row.state);
  view.status.reason = row.reason;
  view.status.task_count = row.task_count;
  view.status.tasks_done = row.done;
  view.status.tasks_failed = row.failed;
  if (row.started != absl::InfiniteFuture()) {
    view.status.started_after = row.started - accepted->submitted;
  }
  view.ended = row.ended;
  view.accepted = std::move(accepted);
  return view;
}

void EncodeRow(const JobRow& row, v1::Job* to) {
  to->set_id(row.id.value());
  JobSpec spec;
  spec.owner = row.owner;
  spec.name = row.name;
  spec.kernel = row.kernel;
  spec.priority = row.priority;
  spec.labels = row.labels;
  wire::Encode(spec, to->mutable_spec());
  to->set_state(EncodeState(static_cast<JobState>(row.state)));
  to->set_reason(row.reason);
  to->set_task_count(row.task_count);
  to->set_tasks_done(row.done);
  to->set_tasks_failed(row.failed);
  EncodeTime(row.submitted, to->mutable_submitted());
  if (row.started != absl::InfiniteFuture()) EncodeTime(row.started, to->mutable_started());
  if (row.ended != absl::InfiniteFuture()) EncodeTime(row.ended, to->mutable_ended());
}

bool Matches(const JobView& view, const JobFilter& filter) {
  const JobSpec& spec = view.bound().spec;
  if (!filter.owner.empty() && spec.owner != filter.owner) return false;
  if (!filter.states.empty() &&
      std::ranges::find(filter.states, static_cast<uint32_t>(view.status.state)) ==
          filter.states.end()) {
    return false;
  }
  if (!filter.TakesKernel(spec.kernel)) return false;
  if (view.accepted->submitted < filter.submitted_since) return false;
  if (spec.name.compare(0, filter.name_prefix.size(), filter.name_prefix) != 0) return false;
  return std::ranges::all_of(filter.labels, [&spec](const auto& label) {
    const auto it = spec.labels.find(label.first);
    return it != spec.labels.end() && it->second == label.second;
  });
}

}  // namespace tandem::master
