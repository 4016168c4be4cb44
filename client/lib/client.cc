#include "client/lib/client.h"

#include <unistd.h>

#include <algorithm>
#include <set>
#include <utility>

#include "client/lib/client_impl.h"
#include "client/lib/convert.h"
#include "client/lib/hash_cache.h"
#include "client/lib/read_items.h"
#include "client/lib/texts.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/model/job_spec_check.h"
#include "common/wire/job_spec.h"
#include "common/wire/kernel.h"
#include "common/wire/lease_messages.h"

namespace tandem::client {
namespace {

constexpr int kBlobsAStat = 1000;

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

// ---- the cluster ----

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

// ---- bytes up ----

namespace {

absl::Status Left(const client::Upload& upload) {
  return Error(absl::StatusCode::kCancelled, reason::kInterrupted,
               StrCat("left the upload of ", upload.what,
                      "; give the same command again, and it goes on where this one ended"));
}

}  // namespace

absl::StatusOr<uint64_t> Client::Impl::UploadOne(const client::Upload& upload, uint64_t from,
                                                 absl::FunctionRef<void(uint64_t)> sent) {
  grpc::ClientContext context;
  Prepare(&context);
  if (!BeginStream(&context)) return Left(upload);
  v1::BlobStat stat;
  const auto writer = data->PutBlob(&context, &stat);
  v1::PutBlobRequest request;
  wire::Encode(BlobLocator{upload.id, upload.source.size()},
               request.mutable_header()->mutable_blob());
  request.mutable_header()->set_offset(from);
  uint64_t bytes = 0;
  absl::Status read = absl::OkStatus();
  if (writer->Write(request)) {
    read = upload.source.Read(from, [&](std::string_view chunk) {
      request.set_data(chunk.data(), chunk.size());
      if (!writer->Write(request)) return absl::CancelledError("the stream ended");
      bytes += chunk.size();
      sent(bytes);
      return absl::OkStatus();
    });
  }
  if (!read.ok() && !absl::IsCancelled(read)) {  // the file, not the stream
    context.TryCancel();
    (void)writer->Finish();
    EndStream(&context);
    return read;
  }
  writer->WritesDone();
  const absl::Status status = rpc::FromGrpc(writer->Finish());
  EndStream(&context);
  if (!status.ok() && stopped()) return Left(upload);
  if (!status.ok()) return WithContext(status, upload.what);
  return bytes;
}

absl::StatusOr<std::vector<Client::Impl::Missing>> Client::Impl::FindMissing(
    const std::vector<client::Upload>& uploads) {
  // The same bytes may be given twice; they are sent once.
  std::vector<const client::Upload*> wanted;
  std::set<BlobId> seen;
  for (const client::Upload& upload : uploads) {
    if (seen.insert(upload.id).second) wanted.push_back(&upload);
  }
  std::vector<Missing> missing;
  for (size_t at = 0; at < wanted.size(); at += kBlobsAStat) {
    v1::StatBlobsRequest request;
    v1::StatBlobsResponse response;
    const size_t end = std::min(wanted.size(), at + kBlobsAStat);
    for (size_t i = at; i < end; ++i) {
      wire::Encode(BlobLocator{wanted[i]->id, wanted[i]->source.size()}, request.add_blobs());
    }
    RETURN_IF_ERROR(Call(lists.get(), &v1::Data::Stub::StatBlobs, request, &response));
    for (size_t i = at; i < end && i - at < static_cast<size_t>(response.blobs_size()); ++i) {
      const v1::BlobStat& stat = response.blobs(static_cast<int>(i - at));
      if (stat.present()) continue;
      missing.push_back({wanted[i], std::min(stat.uploaded(), wanted[i]->source.size())});
    }
  }
  return missing;
}

absl::StatusOr<uint64_t> Client::Impl::UploadWhole(const client::Upload& upload, uint64_t from,
                                                   absl::FunctionRef<void(uint64_t)> sent) {
  uint64_t bytes = 0;
  absl::Time give_up = absl::Now() + options_.patience;
  for (absl::Duration backoff = kBackoffFirst;; backoff = std::min(backoff * 2, kBackoffMax)) {
    uint64_t now = 0;
    const absl::StatusOr<uint64_t> done = UploadOne(upload, from, [&](uint64_t so_far) {
      now = so_far;
      sent(bytes + so_far);
    });
    if (done.ok()) return bytes + *done;
    const absl::Status& failed = done.status();
    if (ReasonOf(failed) == reason::kChecksumMismatch) HashCache::OfUser()->Forget(upload.id);
    if (!absl::IsUnavailable(failed) && !absl::IsAborted(failed)) return failed;
    bytes += now;
    ASSIGN_OR_RETURN(const std::vector<Missing> missing, FindMissing({upload}));
    if (missing.empty()) return bytes;
    if (missing[0].from > from) give_up = absl::Now() + options_.patience;
    const absl::Duration left = give_up - absl::Now();
    if (left <= absl::ZeroDuration()) {
      return absl::IsUnavailable(failed) ? Unavailable(failed) : failed;
    }
    from = missing[0].from;
    if (!Pause(std::min(backoff, left))) return Left(upload);
  }
}

absl::StatusOr<uint64_t> Client::BytesToUpload(const std::vector<client::Upload>& uploads) {
  ASSIGN_OR_RETURN(const auto missing, impl_->FindMissing(uploads));
  uint64_t bytes = 0;
  for (const auto& [upload, from] : missing) bytes += upload->source.size() - from;
  return bytes;
}

absl::StatusOr<uint64_t> Client::Upload(const std::vector<client::Upload>& uploads,
                                        UploadProgress progress) {
  ASSIGN_OR_RETURN(const auto missing, impl_->FindMissing(uploads));
  uint64_t total = 0, sent = 0;
  for (const auto& [upload, from] : missing) total += upload->source.size() - from;
  for (const auto& [upload, from] : missing) {
    const uint64_t before = sent;
    ASSIGN_OR_RETURN(const uint64_t bytes, impl_->UploadWhole(*upload, from, [&](uint64_t done) {
      progress(std::min(total, before + done), total);
    }));
    sent = before + bytes;
  }
  return sent;
}

// ---- jobs ----

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
  RETURN_IF_ERROR(EncodeChecked(spec, "", &request));
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

// ---- bytes down ----

absl::Status Client::ReadOutput(JobId job, const std::string& output,
                                const TaskSelection& selection, Sink sink) {
  RETURN_IF_ERROR(CheckText("output", output));
  v1::ReadOutputRequest request;
  request.set_job(job.value());
  request.set_output(output);
  request.set_first_task(selection.first_task);
  request.set_task_count(selection.task_count);
  request.set_failed_as_zero(selection.failed_as_zero);
  request.set_when_ended(selection.when_ended);
  RETURN_IF_ERROR(impl_->AwaitGreeting());
  grpc::ClientContext context;
  impl_->Prepare(&context);
  const auto reader = impl_->data->ReadOutput(&context, request);
  v1::Chunk chunk;
  absl::Status taken = absl::OkStatus();
  while (reader->Read(&chunk)) {
    taken = sink(chunk.data());
    if (!taken.ok()) {
      context.TryCancel();
      break;
    }
  }
  const absl::Status status = rpc::FromGrpc(reader->Finish());
  RETURN_IF_ERROR(taken);
  if (absl::IsUnavailable(status)) return impl_->Unavailable(status);
  return status;
}

absl::StatusOr<uint64_t> Client::DoneUntil(JobId job, const std::string& output, uint64_t from) {
  RETURN_IF_ERROR(CheckText("output", output));
  v1::ListOutputRequest request;
  request.set_job(job.value());
  request.set_output(output);
  request.set_first_task(from);
  do {
    v1::ListOutputResponse response;
    RETURN_IF_ERROR(
        impl_->Call(impl_->lists.get(), &v1::Data::Stub::ListOutput, request, &response));
    for (const v1::OutputRun& run : response.runs()) {
      if (run.first_task() > from) return from;
      from = run.first_task() + run.task_count();
    }
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  return from;
}

absl::Status Client::ReadItems(JobId job, const std::string& output, const TaskSelection& selection,
                               ItemSink sink) {
  const uint64_t end =
      selection.task_count == 0 ? ~uint64_t{0} : selection.first_task + selection.task_count;
  RETURN_IF_ERROR(CheckText("output", output));
  v1::ListOutputRequest request;
  request.set_job(job.value());
  request.set_output(output);
  request.set_first_task(selection.first_task);
  do {
    v1::ListOutputResponse response;
    RETURN_IF_ERROR(
        impl_->Call(impl_->lists.get(), &v1::Data::Stub::ListOutput, request, &response));
    for (v1::OutputRun& run : *response.mutable_runs()) {
      if (run.first_task() >= end) return absl::OkStatus();
      std::string bytes;
      if (run.piece().has_region()) {
        v1::ReadRegionRequest region;
        region.mutable_region()->Swap(run.mutable_piece()->mutable_region());
        grpc::ClientContext context;
        impl_->Prepare(&context);
        const auto reader = impl_->data->ReadRegion(&context, region);
        v1::Chunk chunk;
        while (reader->Read(&chunk)) bytes += chunk.data();
        RETURN_IF_ERROR(rpc::FromGrpc(reader->Finish()));
      } else {
        bytes = std::move(*run.mutable_piece()->mutable_inline_());
      }
      ASSIGN_OR_RETURN(const ItemTable items, ItemTable::Of(bytes, run.piece_tasks()));
      for (uint64_t i = 0; i < run.task_count() && run.first_task() + i < end; ++i) {
        RETURN_IF_ERROR(sink(run.first_task() + i, items.Item(run.skip_tasks() + i)));
      }
    }
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  return absl::OkStatus();
}

}  // namespace tandem::client
