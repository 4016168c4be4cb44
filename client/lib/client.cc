#include "client/lib/client.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "client/lib/client_impl.h"
#include "client/lib/convert.h"
#include "client/lib/texts.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/model/job_spec_check.h"
#include "common/wire/job_spec.h"
#include "common/wire/kernel.h"
#include "common/wire/lease_messages.h"

namespace tandem::client {
namespace {

std::string FreshRequestId() {
  uint64_t words[2] = {};
  CHECK_MSG(::getentropy(words, sizeof words) == 0, "the system has no entropy");
  return ToHex(words, sizeof words);
}

}  // namespace

std::string UserName() { return rpc::LocalOwner(); }

std::string_view JobStateName(JobState state) {
  switch (state) {
    case JobState::kPending:
      return "PENDING";
    case JobState::kRunning:
      return "RUNNING";
    case JobState::kMerging:
      return "MERGING";
    case JobState::kSucceeded:
      return "SUCCEEDED";
    case JobState::kFailed:
      return "FAILED";
    case JobState::kCancelled:
      return "CANCELLED";
    case JobState::kUnspecified:
      break;
  }
  return "UNKNOWN";
}

std::optional<JobState> JobStateFromName(std::string_view name) {
  for (const JobState state : {JobState::kPending, JobState::kRunning, JobState::kMerging,
                               JobState::kSucceeded, JobState::kFailed, JobState::kCancelled}) {
    if (JobStateName(state) == name) return state;
  }
  return std::nullopt;
}

Client::Client(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Client::~Client() = default;

absl::StatusOr<std::unique_ptr<Client>> Client::Connect(Options options) {
  RETURN_IF_ERROR(rpc::ParseAddress(options.address).status());
  if (options.owner.empty()) options.owner = rpc::LocalOwner();
  RETURN_IF_ERROR(rpc::CheckOwner(options.owner));
  return std::unique_ptr<Client>(new Client(std::make_unique<Impl>(std::move(options))));
}

absl::Status Client::Impl::Greet() {
  if (greeted_.load(std::memory_order_acquire)) return absl::OkStatus();
  grpc::ClientContext context;
  Prepare(&context);
  context.set_deadline(absl::ToChronoTime(absl::Now() + options_.deadline));
  const rpc::Release mine{std::string(rpc::Version()), rpc::kApi};
  v1::GetMasterRequest request;
  request.set_client_version(mine.version);
  request.set_api(mine.api);
  v1::MasterInfo master;
  absl::Status status = rpc::FromGrpc(cluster->GetMaster(&context, request, &master));
  if (status.ok()) status = rpc::CheckSkew(mine, {master.version(), master.api()});
  if (status.ok()) greeted_.store(true, std::memory_order_release);
  return status;
}

absl::Status Client::Impl::Known(const absl::Status& status) const {
  if (status.code() != absl::StatusCode::kUnimplemented || !ReasonOf(status).empty()) return status;
  return Error(absl::StatusCode::kFailedPrecondition, reason::kVersionSkew,
               StrCat("the master at ", options_.address,
                      " does not have this call: it is of an older release than this client, ",
                      rpc::Version(), "; `tandem master status` shows its version"));
}

absl::StatusOr<std::vector<KernelSummary>> Client::ListKernels() {
  std::vector<KernelSummary> kernels;
  v1::ListKernelsRequest request;
  do {
    v1::ListKernelsResponse response;
    RETURN_IF_ERROR(
        impl_->Call(impl_->cluster.get(), &v1::Cluster::Stub::ListKernels, request, &response));
    for (v1::Kernel& kernel : *response.mutable_kernels()) {
      KernelSummary& summary = kernels.emplace_back();
      summary.builtin = kernel.builtin();
      summary.current = kernel.current();
      summary.workers = kernel.workers();
      RETURN_IF_ERROR(wire::Decode(&kernel, &summary.kernel));
    }
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  return kernels;
}

absl::StatusOr<KernelInfo> Client::GetKernel(std::string_view name) {
  ASSIGN_OR_RETURN(const KernelRef wanted, ParseKernelRef(name));
  ASSIGN_OR_RETURN(const std::vector<KernelSummary> kernels, ListKernels());
  std::vector<std::string_view> names;
  for (const auto& [kernel, builtin, current, workers] : kernels) {
    if (kernel.name == wanted.name &&
        (wanted.content_hash == 0 ? current : wanted.content_hash == kernel.content_hash)) {
      return kernel;
    }
    names.push_back(kernel.name);
  }
  const std::string_view near = Nearest(wanted.name, names);
  return Error(absl::StatusCode::kNotFound, reason::kUnknownKernel,
               StrCat("no kernel is named ", Quoted(name),
                      near.empty() ? "; " : StrCat("; did you mean ", near, "? "),
                      "`tandem kernel ls` lists them"));
}

absl::StatusOr<std::vector<WorkerSummary>> Client::ListWorkers() {
  std::vector<WorkerSummary> workers;
  v1::ListWorkersRequest request;
  do {
    v1::ListWorkersResponse response;
    RETURN_IF_ERROR(
        impl_->Call(impl_->cluster.get(), &v1::Cluster::Stub::ListWorkers, request, &response));
    for (v1::WorkerInfo& worker : *response.mutable_workers()) {
      ASSIGN_OR_RETURN(workers.emplace_back(), FromWire(&worker));
    }
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  return workers;
}

absl::StatusOr<MasterSummary> Client::GetMaster() {
  v1::MasterInfo response;
  RETURN_IF_ERROR(impl_->Call(impl_->cluster.get(), &v1::Cluster::Stub::GetMaster,
                              v1::GetMasterRequest(), &response));
  return FromWire(response);
}

// Texts that Protobuf would not take get an error of ours.
absl::Status EncodeChecked(const JobSpec& spec, std::string request_id,
                           v1::SubmitJobRequest* request) {
  RETURN_IF_ERROR(WithField(CheckJobTexts(spec, JobLimits()), "spec"));
  JobSpec of_call;
  of_call.request_id = std::move(request_id);
  RETURN_IF_ERROR(CheckJobTexts(of_call, JobLimits()));
  wire::Encode(spec, request->mutable_spec());
  request->set_request_id(std::move(of_call.request_id));
  return absl::OkStatus();
}

namespace {

// gRPC's own refusal would not say what to do.
absl::Status CheckFits(const v1::SubmitJobRequest& request) {
  const size_t bytes = request.ByteSizeLong();
  if (bytes <= rpc::kMessageBytesMax) return absl::OkStatus();
  return InvalidError(
      reason::kTooLarge,
      StrCat("the job takes ", HumanSize(bytes), ", more than the ",
             HumanSize(rpc::kMessageBytesMax),
             " of a message: upload its operands with @, which packs their names and bytes"));
}

}  // namespace

absl::StatusOr<JobInfo> Client::Submit(const JobSpec& spec, std::string request_id) {
  v1::SubmitJobRequest request;
  RETURN_IF_ERROR(
      EncodeChecked(spec, request_id.empty() ? FreshRequestId() : std::move(request_id), &request));
  RETURN_IF_ERROR(CheckFits(request));
  v1::Job response;
  RETURN_IF_ERROR(impl_->Call(impl_->jobs.get(), &v1::Jobs::Stub::SubmitJob, request, &response));
  return FromWire(&response);
}

absl::StatusOr<JobPlan> Client::Plan(const JobSpec& spec) {
  v1::SubmitJobRequest request;
  RETURN_IF_ERROR(EncodeChecked(spec, spec.request_id, &request));
  RETURN_IF_ERROR(CheckFits(request));
  v1::JobPlan response;
  RETURN_IF_ERROR(impl_->Call(impl_->jobs.get(), &v1::Jobs::Stub::PlanJob, request, &response));
  return FromWire(&response);
}

absl::StatusOr<JobInfo> Client::Get(JobId job) {
  v1::GetJobRequest request;
  request.set_id(job.value());
  v1::Job response;
  RETURN_IF_ERROR(impl_->Call(impl_->jobs.get(), &v1::Jobs::Stub::GetJob, request, &response));
  return FromWire(&response);
}

namespace {

absl::Status CheckFilter(const ListFilter& filter) {
  RETURN_IF_ERROR(CheckText("name", filter.name_prefix));
  RETURN_IF_ERROR(CheckText("kernel", filter.kernel));
  RETURN_IF_ERROR(CheckText("owner", filter.owner));
  RETURN_IF_ERROR(CheckText("page", filter.page_token));
  for (const auto& [key, value] : filter.labels) {
    RETURN_IF_ERROR(CheckText("label", key));
    RETURN_IF_ERROR(CheckText("label", value));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<JobInfo>> Client::List(const ListFilter& filter,
                                                  std::string* next_page_token) {
  RETURN_IF_ERROR(CheckFilter(filter));
  v1::ListJobsRequest request;
  for (const JobState state : filter.states) request.add_states(ToWire(state));
  request.set_name_prefix(filter.name_prefix);
  request.mutable_labels()->insert(filter.labels.begin(), filter.labels.end());
  request.set_all_owners(filter.all_owners);
  request.set_owner(filter.owner);
  request.set_kernel(filter.kernel);
  if (filter.submitted_since) ToWire(*filter.submitted_since, request.mutable_submitted_since());
  request.set_page_token(filter.page_token);
  std::vector<JobInfo> jobs;
  do {
    request.set_page_size(
        static_cast<uint32_t>(std::min<uint64_t>(1000, filter.limit - jobs.size())));
    v1::ListJobsResponse response;
    RETURN_IF_ERROR(impl_->Call(impl_->jobs.get(), &v1::Jobs::Stub::ListJobs, request, &response));
    for (v1::Job& job : *response.mutable_jobs()) {
      ASSIGN_OR_RETURN(jobs.emplace_back(), FromWire(&job));
    }
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty() && jobs.size() < filter.limit);
  if (next_page_token != nullptr) *next_page_token = request.page_token();
  return jobs;
}

absl::StatusOr<JobInfo> Client::Cancel(JobId job) {
  v1::CancelJobRequest request;
  request.set_id(job.value());
  v1::Job response;
  RETURN_IF_ERROR(impl_->Call(impl_->jobs.get(), &v1::Jobs::Stub::CancelJob, request, &response));
  return FromWire(&response);
}

absl::StatusOr<JobInfo> Client::Delete(JobId job) {
  v1::DeleteJobRequest request;
  request.set_id(job.value());
  v1::Job response;
  RETURN_IF_ERROR(impl_->Call(impl_->jobs.get(), &v1::Jobs::Stub::DeleteJob, request, &response));
  return FromWire(&response);
}

absl::StatusOr<std::vector<TaskFailure>> Client::Failures(JobId job, uint64_t limit) {
  v1::ListFailuresRequest request;
  request.set_id(job.value());
  std::vector<TaskFailure> failures;
  do {
    request.set_page_size(static_cast<uint32_t>(std::min<uint64_t>(1000, limit - failures.size())));
    v1::ListFailuresResponse response;
    RETURN_IF_ERROR(
        impl_->Call(impl_->jobs.get(), &v1::Jobs::Stub::ListFailures, request, &response));
    for (v1::TaskFailure& failure : *response.mutable_failures()) {
      RETURN_IF_ERROR(wire::Decode(&failure, &failures.emplace_back()));
    }
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty() && failures.size() < limit);
  return failures;
}

void Client::StopWaiting() { impl_->StopWaiting(); }

absl::StatusOr<JobInfo> Client::Wait(JobId job, absl::FunctionRef<bool(const JobInfo&)> on_change) {
  JobInfo last;
  for (;;) {
    bool stopped = false;
    absl::Status unreadable = absl::OkStatus();
    const absl::Status status = impl_->RetryWatch([&](grpc::ClientContext* context) {
      if (!impl_->BeginStream(context)) return grpc::Status::OK;
      v1::WatchJobRequest request;
      request.set_id(job.value());
      request.set_after_sequence(last.sequence);
      const auto reader = impl_->jobs->WatchJob(context, request);
      v1::Job message;
      bool any = false;
      while (!stopped && unreadable.ok() && reader->Read(&message)) {
        any = true;
        auto info = FromWire(&message);
        if (!info.ok()) {
          unreadable = info.status();
          break;
        }
        last = *std::move(info);
        stopped = !on_change(last);
      }
      if (stopped || !unreadable.ok()) context->TryCancel();
      const grpc::Status ended = reader->Finish();
      impl_->EndStream(context);
      // A watch that had begun starts over with fresh patience.
      return any ? grpc::Status::OK : ended;
    });
    RETURN_IF_ERROR(unreadable);
    if (stopped || HasEnded(last.state) || impl_->stopped()) return last;
    if (status.code() == absl::StatusCode::kAborted) continue;
    RETURN_IF_ERROR(status);
  }
}

}  // namespace tandem::client
