#include "client/lib/convert.h"

#include <utility>

#include "common/base/status_macros.h"
#include "common/wire/job_spec.h"
#include "common/wire/lease_messages.h"

namespace tandem::client {
namespace {

JobState FromWire(v1::JobState state) {
  switch (state) {
    case v1::PENDING:
      return JobState::kPending;
    case v1::RUNNING:
      return JobState::kRunning;
    case v1::MERGING:
      return JobState::kMerging;
    case v1::SUCCEEDED:
      return JobState::kSucceeded;
    case v1::FAILED:
      return JobState::kFailed;
    case v1::CANCELLED:
      return JobState::kCancelled;
    default:
      return JobState::kUnspecified;
  }
}

absl::StatusOr<std::vector<OutputInfo>> FromWire(
    const google::protobuf::RepeatedPtrField<v1::OutputInfo>& outputs) {
  std::vector<OutputInfo> infos;
  for (const v1::OutputInfo& output : outputs) {
    OutputInfo info;
    info.name = output.name();
    RETURN_IF_ERROR(wire::Decode(output.tensor(), &info.tensor));
    info.reduced = output.reduced();
    info.split_dim = output.split_dim();
    infos.push_back(std::move(info));
  }
  return infos;
}

std::optional<absl::Time> FromWire(bool there, const google::protobuf::Timestamp& time) {
  if (!there) return std::nullopt;
  return absl::FromUnixSeconds(time.seconds()) + absl::Nanoseconds(time.nanos());
}

}  // namespace

absl::StatusOr<JobInfo> FromWire(v1::Job* job) {
  JobInfo info;
  info.id = JobId(job->id());
  RETURN_IF_ERROR(wire::Decode(job->mutable_spec(), &info.spec));
  info.state = FromWire(job->state());
  if (job->wait_reason() != v1::WAIT_REASON_UNSPECIFIED) {
    info.wait_reason = v1::WaitReason_Name(job->wait_reason());
  }
  info.reason = job->reason();
  info.task_count = job->task_count();
  info.tasks_done = job->tasks_done();
  info.tasks_failed = job->tasks_failed();
  info.leaf_count = job->leaf_count();
  info.leases = job->leases();
  info.retried_tasks = job->retried_tasks();
  info.busy = absl::Nanoseconds(job->busy_ns());
  ASSIGN_OR_RETURN(info.outputs, FromWire(job->outputs()));
  info.sequence = job->sequence();
  info.submitted = FromWire(job->has_submitted(), job->submitted());
  info.started = FromWire(job->has_started(), job->started());
  info.ended = FromWire(job->has_ended(), job->ended());
  return info;
}

absl::StatusOr<JobPlan> FromWire(v1::JobPlan* plan) {
  JobPlan out;
  RETURN_IF_ERROR(wire::Decode(plan->mutable_spec(), &out.spec));
  out.task_count = plan->task_count();
  out.leaf_count = plan->leaf_count();
  for (const v1::OperandPlan& operand : plan->operands()) {
    out.operands.push_back({operand.name(), operand.how(), operand.total_bytes()});
  }
  ASSIGN_OR_RETURN(out.outputs, FromWire(plan->outputs()));
  return out;
}

absl::StatusOr<WorkerSummary> FromWire(v1::WorkerInfo* worker) {
  WorkerSummary out;
  out.id = WorkerId(worker->id());
  out.name = worker->name();
  out.state = v1::WorkerState_Name(worker->state());
  out.address = worker->address();
  out.version = worker->version();
  for (v1::Device& device : *worker->mutable_devices()) {
    RETURN_IF_ERROR(wire::Decode(&device, &out.devices.emplace_back()));
  }
  for (v1::KernelRate& rate : *worker->mutable_rates()) {
    RETURN_IF_ERROR(wire::Decode(&rate, &out.rates.emplace_back()));
  }
  out.leases = worker->leases();
  out.leaves_done = worker->leaves_done();
  return out;
}

MasterSummary FromWire(const v1::MasterInfo& master) {
  MasterSummary out;
  out.version = master.version();
  out.cluster_id = master.cluster_id();
  out.epoch = master.epoch();
  out.workers = master.workers();
  out.jobs_running = master.jobs_running();
  out.counters.insert(master.counters().begin(), master.counters().end());
  out.now = FromWire(master.has_now(), master.now());
  return out;
}

v1::JobState ToWire(JobState state) {
  switch (state) {
    case JobState::kPending:
      return v1::PENDING;
    case JobState::kRunning:
      return v1::RUNNING;
    case JobState::kMerging:
      return v1::MERGING;
    case JobState::kSucceeded:
      return v1::SUCCEEDED;
    case JobState::kFailed:
      return v1::FAILED;
    case JobState::kCancelled:
      return v1::CANCELLED;
    case JobState::kUnspecified:
      break;
  }
  return v1::JOB_STATE_UNSPECIFIED;
}

}  // namespace tandem::client
