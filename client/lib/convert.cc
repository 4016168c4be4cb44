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

namespace {

std::vector<Finding> FromWire(const google::protobuf::RepeatedPtrField<v1::Finding>& findings) {
  std::vector<Finding> out;
  for (const v1::Finding& finding : findings) {
    out.push_back({finding.token(), finding.share(), finding.what(), finding.advice()});
  }
  return out;
}

}  // namespace

absl::StatusOr<WorkerSummary> FromWire(v1::WorkerInfo* worker) {
  WorkerSummary out;
  out.id = WorkerId(worker->id());
  out.name = worker->name();
  out.state =
      worker->state() == v1::WORKER_DRAINED ? "DRAINED" : v1::WorkerState_Name(worker->state());
  out.drain = worker->drain();
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
  out.tasks_done = worker->tasks_done();
  out.busy = absl::Nanoseconds(worker->busy_ns());
  out.fetched_bytes = worker->fetched_bytes();
  out.pushed_bytes = worker->pushed_bytes();
  out.executors_lost = worker->executors_lost();
  out.groups = worker->groups();
  out.queued = absl::Seconds(worker->queued_seconds());
  out.latency = absl::Seconds(worker->latency_seconds());
  out.attached = FromWire(worker->has_attached(), worker->attached());
  out.last_heard = FromWire(worker->has_last_heard(), worker->last_heard());
  for (const uint64_t job : worker->jobs()) out.jobs.push_back(JobId(job));
  out.notes = FromWire(worker->notes());
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

namespace {

Usage FromWire(const v1::Usage& usage) {
  return {.pieces = usage.pieces(),
          .tasks = usage.tasks(),
          .body = absl::Nanoseconds(usage.body_ns()),
          .host = absl::Nanoseconds(usage.host_ns()),
          .stall = absl::Nanoseconds(usage.stall_ns()),
          .fetch = absl::Nanoseconds(usage.fetch_ns()),
          .push = absl::Nanoseconds(usage.push_ns()),
          .merge = absl::Nanoseconds(usage.merge_ns()),
          .fetched_bytes = usage.fetched_bytes(),
          .mapped_bytes = usage.mapped_bytes(),
          .path_bytes = usage.path_bytes(),
          .generated_bytes = usage.generated_bytes(),
          .inline_output_bytes = usage.inline_output_bytes(),
          .pushed_output_bytes = usage.pushed_output_bytes(),
          .pushes = usage.pushes(),
          .merges = usage.merges(),
          .partials = usage.partials(),
          .up = absl::Nanoseconds(usage.up_ns()),
          .grid = absl::Nanoseconds(usage.grid_ns()),
          .down = absl::Nanoseconds(usage.down_ns()),
          .bytes_up = usage.bytes_up(),
          .bytes_down = usage.bytes_down()};
}

WorkerUsage FromWire(const v1::WorkerUsage& worker) {
  return {.worker = WorkerId(worker.worker()),
          .name = worker.name(),
          .device = static_cast<DeviceKind>(worker.device()),
          .groups = worker.groups(),
          .usage = FromWire(worker.usage()),
          .leases = worker.leases(),
          .leaves = worker.leaves(),
          .returned_leaves = worker.returned_leaves(),
          .first = absl::Nanoseconds(worker.first_ns()),
          .last = absl::Nanoseconds(worker.last_ns()),
          .other = absl::Nanoseconds(worker.other_ns())};
}

JobAccount FromWire(const v1::JobAccount& account) {
  JobAccount out;
  out.pending = absl::Nanoseconds(account.pending_ns());
  out.running = absl::Nanoseconds(account.running_ns());
  out.merging = absl::Nanoseconds(account.merging_ns());
  for (const v1::WaitTime& wait : account.waits()) {
    out.waits.emplace_back(v1::WaitReason_Name(wait.reason()), absl::Nanoseconds(wait.ns()));
  }
  for (const v1::WorkerUsage& worker : account.workers()) out.workers.push_back(FromWire(worker));
  out.commits = account.commits();
  out.commit_wait = absl::Nanoseconds(account.commit_wait_ns());
  out.commit_wait_max = absl::Nanoseconds(account.commit_wait_max_ns());
  out.merge_grants = account.merge_grants();
  out.crashes = account.crashes();
  out.partial = account.partial();
  return out;
}

}  // namespace

absl::StatusOr<JobExplanation> FromWire(v1::JobExplanation* explanation) {
  JobExplanation out;
  ASSIGN_OR_RETURN(out.job, FromWire(explanation->mutable_job()));
  if (explanation->has_account()) out.account = FromWire(explanation->account());
  out.findings = FromWire(explanation->findings());
  for (v1::LeaseSplit& lease : *explanation->mutable_leases()) {
    LeaseNote& note = out.leases.emplace_back();
    note.worker = WorkerId(lease.worker());
    note.worker_name = lease.worker_name();
    note.ended = absl::Nanoseconds(lease.ended_ns());
    RETURN_IF_ERROR(wire::Decode(&lease, &note.split));
  }
  return out;
}

absl::StatusOr<WorkerExplanation> FromWire(v1::WorkerExplanation* explanation) {
  WorkerExplanation out;
  ASSIGN_OR_RETURN(out.worker, FromWire(explanation->mutable_worker()));
  out.findings = FromWire(explanation->findings());
  for (const v1::JobAtWorker& job : explanation->jobs()) {
    out.jobs.push_back(
        {JobId(job.job()), job.leases(), job.leaves(), job.free_leaves(), job.note()});
  }
  return out;
}

BlobSummary FromWire(const v1::BlobEntry& entry) {
  BlobSummary out;
  BlobLocator blob;
  if (wire::Decode(entry.blob(), &blob).ok()) {
    out.id = blob.id;
    out.size = blob.size;
  }
  out.created = FromWire(entry.has_created(), entry.created());
  for (const uint64_t job : entry.jobs()) out.jobs.push_back(JobId(job));
  out.job_count = entry.job_count();
  out.in_use = entry.in_use();
  out.unfinished = entry.unfinished();
  return out;
}

DiskUsage FromWire(const v1::DiskUsage& usage) {
  DiskUsage out;
  for (const v1::KindUsage& kind : usage.kinds()) {
    out.kinds.push_back(
        {kind.kind(), kind.bytes(), kind.files(), kind.owner_bytes(), kind.owner_files()});
  }
  out.disk_bytes = usage.disk_bytes();
  out.disk_free_bytes = usage.disk_free_bytes();
  return out;
}

void ToWire(absl::Time time, google::protobuf::Timestamp* to) {
  const timespec parts = absl::ToTimespec(time);
  to->set_seconds(parts.tv_sec);
  to->set_nanos(static_cast<int32_t>(parts.tv_nsec));
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
