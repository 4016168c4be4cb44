#include "master/server/jobs_service.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/error.h"
#include "common/base/reason.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/data/xxh3.h"
#include "common/model/job_spec_check.h"
#include "common/rpc/owner.h"
#include "common/rpc/status.h"
#include "common/wire/decode_util.h"
#include "common/wire/lease_messages.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "master/server/explain_job.h"
#include "master/server/explain_notes.h"
#include "master/server/job_view.h"
#include "master/server/timestamps.h"

namespace tandem::master {
namespace {

// Equal requests have equal hashes, whatever the order of their maps.
uint64_t HashOf(const v1::SubmitJobRequest& request) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    request.spec().SerializeToCodedStream(&coded);
  }
  return Xxh3(bytes);
}

// Whether checking the request neither takes long nor asks a disk.
bool IsCheckedAtOnce(const v1::SubmitJobRequest& request) {
  return request.spec().operands().empty() &&
         request.ByteSizeLong() <= JobsService::kCheckedAtOnceBytes;
}

absl::StatusOr<uint32_t> PageSize(uint32_t asked) {
  if (asked == 0) return JobsService::kPageSizeDefault;
  if (asked <= JobsService::kPageSizeMax) return asked;
  return WithField(InvalidError(reason::kLimitExceeded, StrCat("page_size is ", asked, "; at most ",
                                                               JobsService::kPageSizeMax)),
                   "page_size");
}

absl::StatusOr<JobFilter> FilterOf(const std::string& owner, const v1::ListJobsRequest& request) {
  JobFilter filter;
  if (!request.owner().empty()) {
    RETURN_IF_ERROR(WithField(rpc::CheckOwner(request.owner()), "owner"));
    filter.owner = request.owner();
  } else if (!request.all_owners()) {
    filter.owner = owner;
  }
  RETURN_IF_ERROR(wire::CheckText(request.kernel(), wire::WireLimits::kNameBytes, "kernel"));
  filter.kernel = request.kernel();
  if (request.has_submitted_since()) {
    filter.submitted_since = DecodeTime(request.submitted_since());
  }
  for (const int state : request.states()) {
    if (state <= v1::JOB_STATE_UNSPECIFIED || state > v1::CANCELLED) {
      return WithField(InvalidError(reason::kBadArgument, StrCat("state ", state, " is unknown")),
                       "states");
    }
    filter.states.push_back(static_cast<uint32_t>(state - v1::PENDING));
  }
  filter.name_prefix = request.name_prefix();
  filter.labels = {request.labels().begin(), request.labels().end()};
  return filter;
}

// Of a kernel, "name@hash": the builds of that name that workers have.
std::vector<std::string> BuildsThere(const LoopView& loop, const std::string& kernel) {
  std::vector<std::string> builds;
  const std::string_view name = std::string_view(kernel).substr(0, kernel.find('@'));
  for (const KernelView& known : loop.core.Kernels()) {
    if (known.name == name && known.workers > 0) builds.push_back(known.identity);
  }
  return builds;
}

// What of it its workers say runs late.
std::vector<v1::Finding> LateOf(const LoopView& loop, const v1::Job& job) {
  std::vector<v1::Finding> late;
  for (const WorkerId worker : loop.hub.Attached()) {
    const WorkerProfile* profile = loop.hub.Profile(worker);
    if (profile == nullptr) continue;
    for (const worker::v1::LateRun& run : profile->notes.late()) {
      if (run.job() != job.id()) continue;
      late.push_back(ExplainLateTasks(run, profile->name, job.spec().grain(), job.task_count()));
    }
  }
  return late;
}

void Explain(const LoopView& loop, JobId id, v1::JobExplanation* to) {
  std::optional<v1::JobAccount> account = loop.ledger.Find(id, loop.now);
  const v1::Job& job = to->job();
  if (!account) {
    v1::Finding* finding = to->add_findings();
    finding->set_token("FORGOTTEN");
    finding->set_what(
        "the account of this job is no longer kept; its times are in `tandem job show`");
    finding->set_advice("the master keeps as many ended jobs as --keep-jobs says");
    return;
  }
  JobFacts facts{.state = job.state(),
                 .wait_reason = job.wait_reason(),
                 .reason = job.reason(),
                 .kernel = job.spec().kernel(),
                 .other_builds = BuildsThere(loop, job.spec().kernel()),
                 .task_count = job.task_count(),
                 .leaf_count = job.leaf_count(),
                 .grain = job.spec().grain(),
                 .max_lease_leaves = job.spec().max_lease_leaves(),
                 .retried_tasks = job.retried_tasks(),
                 .tasks_failed = job.tasks_failed(),
                 .account = *std::move(account),
                 .late = LateOf(loop, job),
                 .leases = loop.ledger.Leases(id)};
  for (v1::Finding& finding : ExplainJob(facts)) *to->add_findings() = std::move(finding);
  *to->mutable_account() = std::move(facts.account);
  for (v1::LeaseSplit& lease : facts.leases) *to->add_leases() = std::move(lease);
}

}  // namespace

grpc::ServerUnaryReactor* JobsService::OnPool(grpc::CallbackServerContext* context, Answer answer) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  absl::StatusOr<std::string> owner = rpc::OwnerOf(*context);
  if (!owner.ok()) {
    reactor->Finish(rpc::ToGrpc(owner.status()));
    return reactor;
  }
  parts_.pool->Run([reactor, owner = *std::move(owner), answer = std::move(answer)] {
    reactor->Finish(rpc::ToGrpc(answer(owner)));
  });
  return reactor;
}

EventLoop::Done JobsService::FinishWithJob(grpc::ServerUnaryReactor* reactor,
                                           v1::Job* response) const {
  return [this, reactor, response](absl::StatusOr<JobId> job) {
    if (job.ok()) {
      if (const std::optional<JobView> view = parts_.board->Find(*job)) {
        EncodeJob(*view, JobDetail::kWhole, response);
      } else {
        job = NoSuchJob(*job);
      }
    }
    reactor->Finish(rpc::ToGrpc(job.status()));
  };
}

absl::Status JobsService::QueueSubmit(const std::string& owner, const v1::SubmitJobRequest& request,
                                      EventLoop::Done done) {
  if (request.request_id().empty()) {
    return WithField(InvalidError(reason::kBadSpec,
                                  "request_id is missing: a fresh UUID makes a repeated call safe"),
                     "request_id");
  }
  JobSpec texts;
  texts.request_id = request.request_id();
  RETURN_IF_ERROR(CheckJobTexts(texts, JobLimits()));
  v1::JobSpec spec = request.spec();
  ASSIGN_OR_RETURN(std::shared_ptr<const BoundJob> bound, parts_.checker->Bind(owner, &spec));
  // From the look at the blobs until the job itself is seen to use them, nobody removes one.
  const std::shared_ptr<void> pins = parts_.board->uses()->Pin(bound->spec);
  absl::Status objection = parts_.checker->CheckBlobs(bound->spec);
  if (objection.ok()) objection = parts_.checker->CheckRoom(*bound);
  return parts_.loop->Submit(
      {.token = 0,
       .bound = std::move(bound),
       .request_id = request.request_id(),
       .request_hash = HashOf(request),
       .submitted = parts_.clock->WallNow(),
       .objection = std::move(objection)},
      [done = std::move(done), pins](absl::StatusOr<JobId> job) { done(std::move(job)); });
}

grpc::ServerUnaryReactor* JobsService::SubmitJob(grpc::CallbackServerContext* context,
                                                 const v1::SubmitJobRequest* request,
                                                 v1::Job* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  absl::StatusOr<std::string> owner = rpc::OwnerOf(*context);
  if (!owner.ok()) {
    reactor->Finish(rpc::ToGrpc(owner.status()));
    return reactor;
  }
  auto submit = [this, reactor, request, response, owner = *std::move(owner)] {
    const absl::Status status = QueueSubmit(owner, *request, FinishWithJob(reactor, response));
    if (!status.ok()) reactor->Finish(rpc::ToGrpc(status));
  };
  if (IsCheckedAtOnce(*request)) {
    submit();
  } else {
    parts_.pool->Run(std::move(submit));
  }
  return reactor;
}

grpc::ServerUnaryReactor* JobsService::PlanJob(grpc::CallbackServerContext* context,
                                               const v1::SubmitJobRequest* request,
                                               v1::JobPlan* response) {
  return OnPool(context, [this, request, response](const std::string& owner) -> absl::Status {
    v1::JobSpec spec = request->spec();
    ASSIGN_OR_RETURN(const std::shared_ptr<const BoundJob> bound,
                     parts_.checker->Bind(owner, &spec));
    // A request that has an id may be one that SubmitJob knows: then its room is taken already.
    if (request->request_id().empty()) RETURN_IF_ERROR(parts_.checker->CheckRoom(*bound));
    EncodePlan(*bound, response);
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* JobsService::GetJob(grpc::CallbackServerContext* context,
                                              const v1::GetJobRequest* request, v1::Job* response) {
  return OnPool(context, [this, request, response](const std::string& owner) -> absl::Status {
    ASSIGN_OR_RETURN(const JobView view, parts_.finder->Find(JobId(request->id()), owner));
    EncodeJob(view, JobDetail::kWhole, response);
    AddWhyDiskWaits(response);
    return absl::OkStatus();
  });
}

// The core knows of no disk: jobs that have not ended wait for it, whatever else they wait for.
void JobsService::AddWhyDiskWaits(v1::Job* job) const {
  if (job->state() >= v1::SUCCEEDED || !parts_.loop->journal_full()) return;
  job->set_reason(
      "JOURNAL_FULL: the disk of the master is full; the job goes on when there is room again");
}

absl::Status JobsService::List(const std::string& owner, const v1::ListJobsRequest& request,
                               v1::ListJobsResponse* response) const {
  ASSIGN_OR_RETURN(const uint32_t page_size, PageSize(request.page_size()));
  ASSIGN_OR_RETURN(const JobFilter filter, FilterOf(owner, request));
  absl::StatusOr<JobFinder::Page> page =
      parts_.finder->List(filter, page_size, request.page_token());
  if (!page.ok()) return WithField(page.status(), "page_token");
  for (const JobFinder::Entry& entry : page->entries) {
    if (entry.live) {
      EncodeJob(*entry.live, JobDetail::kBrief, response->add_jobs());
      AddWhyDiskWaits(response->mutable_jobs(response->jobs_size() - 1));
    } else {
      EncodeRow(entry.row, response->add_jobs());
    }
  }
  response->set_next_page_token(page->next_page_token);
  return absl::OkStatus();
}

grpc::ServerUnaryReactor* JobsService::ListJobs(grpc::CallbackServerContext* context,
                                                const v1::ListJobsRequest* request,
                                                v1::ListJobsResponse* response) {
  return OnPool(context, [this, request, response](const std::string& owner) {
    return List(owner, *request, response);
  });
}

grpc::ServerWriteReactor<v1::Job>* JobsService::WatchJob(grpc::CallbackServerContext* context,
                                                         const v1::WatchJobRequest* request) {
  std::shared_ptr<JobWatch> watch =
      JobWatch::Start(parts_.board, parts_.clock, parts_.watch, request->after_sequence());
  JobWatch* reactor = watch.get();
  absl::StatusOr<std::string> owner = rpc::OwnerOf(*context);
  if (!owner.ok()) {
    watch->Close(owner.status());
    return reactor;
  }
  const JobId job(request->id());
  if (parts_.board->Has(job)) {
    watch->Watch(job, *owner);
    return reactor;
  }
  parts_.pool->Run([this, watch = std::move(watch), job, owner = *std::move(owner)] {
    absl::StatusOr<JobView> view = parts_.finder->Find(job, owner);
    if (view.ok()) {
      watch->ShowEnded(*view);
    } else {
      watch->Close(view.status());
    }
  });
  return reactor;
}

grpc::ServerUnaryReactor* JobsService::CancelJob(grpc::CallbackServerContext* context,
                                                 const v1::CancelJobRequest* request,
                                                 v1::Job* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  absl::StatusOr<std::string> owner = rpc::OwnerOf(*context);
  absl::Status status = owner.status();
  if (status.ok()) {
    status = parts_.loop->Cancel({.token = 0, .job = JobId(request->id()), .owner = *owner},
                                 FinishWithJob(reactor, response));
  }
  if (!status.ok()) reactor->Finish(rpc::ToGrpc(status));
  return reactor;
}

grpc::ServerUnaryReactor* JobsService::DeleteJob(grpc::CallbackServerContext* context,
                                                 const v1::DeleteJobRequest* request,
                                                 v1::Job* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  absl::StatusOr<std::string> owner = rpc::OwnerOf(*context);
  if (!owner.ok()) {
    reactor->Finish(rpc::ToGrpc(owner.status()));
    return reactor;
  }
  parts_.pool->Run([this, reactor, response, job = JobId(request->id()),
                    owner = *std::move(owner)] {
    const absl::Status status = QueueDelete(owner, job, response, [reactor](absl::Status deleted) {
      reactor->Finish(rpc::ToGrpc(deleted));
    });
    if (!status.ok()) reactor->Finish(rpc::ToGrpc(status));
  });
  return reactor;
}

// What is deleted already stays so, whoever deleted it.
absl::Status JobsService::QueueDelete(const std::string& owner, JobId job, v1::Job* response,
                                      std::function<void(absl::Status)> done) {
  ASSIGN_OR_RETURN(const JobView view, parts_.finder->Find(job, owner));
  if (!HasEnded(view.status.state)) return HasNotEnded(job);
  EncodeJob(view, JobDetail::kWhole, response);
  if (!parts_.finder->Kept(job)) {
    done(absl::OkStatus());
    return absl::OkStatus();
  }
  return parts_.loop->Delete(
      {.token = 0, .job = job, .owner = owner},
      [done = std::move(done)](const absl::StatusOr<JobId>& deleted) {
        done(absl::IsNotFound(deleted.status()) ? absl::OkStatus() : deleted.status());
      });
}

grpc::ServerUnaryReactor* JobsService::ListFailures(grpc::CallbackServerContext* context,
                                                    const v1::ListFailuresRequest* request,
                                                    v1::ListFailuresResponse* response) {
  return OnPool(context, [this, request, response](const std::string& owner) -> absl::Status {
    ASSIGN_OR_RETURN(const uint32_t page_size, PageSize(request->page_size()));
    ASSIGN_OR_RETURN(const JobView view, parts_.finder->Find(JobId(request->id()), owner));
    absl::StatusOr<FailurePage> page =
        parts_.store->FailuresOf(view.status.job, page_size, request->page_token());
    if (!page.ok()) return WithField(page.status(), "page_token");
    for (const FailureRow& row : page->rows) wire::Encode(row.failure, response->add_failures());
    response->set_next_page_token(page->next_page_token);
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* JobsService::ExplainJob(grpc::CallbackServerContext* context,
                                                  const v1::ExplainJobRequest* request,
                                                  v1::JobExplanation* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  absl::StatusOr<std::string> owner = rpc::OwnerOf(*context);
  if (!owner.ok()) {
    reactor->Finish(rpc::ToGrpc(owner.status()));
    return reactor;
  }
  // The job from the board or the store, its account from the loop.
  parts_.pool->Run([this, reactor, request, response, owner = *std::move(owner)] {
    const absl::StatusOr<JobView> view = parts_.finder->Find(JobId(request->id()), owner);
    absl::Status status = view.status();
    if (status.ok()) {
      EncodeJob(*view, JobDetail::kBrief, response->mutable_job());
      status = parts_.loop->Call([reactor, response, job = view->status.job](const LoopView& loop) {
        Explain(loop, job, response);
        reactor->Finish(grpc::Status::OK);
      });
    }
    if (!status.ok()) reactor->Finish(rpc::ToGrpc(status));
  });
  return reactor;
}

}  // namespace tandem::master
