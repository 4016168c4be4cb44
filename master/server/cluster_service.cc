#include "master/server/cluster_service.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "common/base/error.h"
#include "common/base/reason.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/base/utf8.h"
#include "common/rpc/status.h"
#include "common/rpc/version.h"
#include "common/wire/kernel.h"
#include "common/wire/lease_messages.h"
#include "common/wire/usage.h"
#include "master/server/explain_notes.h"
#include "master/server/explain_worker.h"
#include "master/server/timestamps.h"

namespace tandem::master {
namespace {

constexpr size_t kJobsExplained = 100;
constexpr size_t kRatesListed = 8;  // Of each worker of a list.

absl::Status BadToken() {
  return WithField(InvalidError(reason::kBadPageToken,
                                "the page token is not one that this call gave out: begin again "
                                "without one"),
                   "page_token");
}

absl::Status CheckKernelName(const std::string& kernel) {
  constexpr size_t kBytesMax = 256;
  if (kernel.size() <= kBytesMax && IsUtf8(kernel)) return absl::OkStatus();
  return WithField(InvalidError(reason::kBadArgument, "no kernel has such a name"), "kernel");
}

absl::StatusOr<size_t> WorkersAPage(uint32_t asked) {
  if (asked == 0) return ClusterService::kPageSizeMax;
  if (asked <= ClusterService::kPageSizeMax) return asked;
  return WithField(InvalidError(reason::kLimitExceeded, StrCat("page_size is ", asked, "; at most ",
                                                               ClusterService::kPageSizeMax)),
                   "page_size");
}

// A token is the last id of the page before.
absl::StatusOr<WorkerId> ParseWorkerToken(const std::string& token) {
  uint64_t id = 0;
  if (token.empty()) return WorkerId();
  const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), id);
  if (error != std::errc() || end != token.data() + token.size()) return BadToken();
  return WorkerId(id);
}

v1::WorkerState StateOf(const WorkerView& view) {
  switch (view.phase) {
    case WorkerView::Phase::kAttached:
      if (!view.draining) return v1::ATTACHED;
      return view.leases == 0 && view.merges == 0 ? v1::WORKER_DRAINED : v1::DRAINING;
    case WorkerView::Phase::kExpected:
    case WorkerView::Phase::kDetached:
    case WorkerView::Phase::kLost:
      break;
  }
  return v1::LOST;
}

// At most the latest `rates_max` rates.
void EncodeWorker(const WorkerView& view, const WorkerProfile* profile, absl::Time now,
                  size_t rates_max, v1::WorkerInfo* to) {
  to->set_id(view.id.value());
  to->set_name(view.name);
  to->set_state(StateOf(view));
  to->set_leases(view.leases);
  to->set_drain(view.draining);
  to->set_queued_seconds(view.queued_seconds);
  to->set_latency_seconds(view.latency_seconds);
  for (const JobId job : view.jobs) to->add_jobs(job.value());
  if (profile == nullptr) return;
  to->set_address(profile->address);
  to->set_version(profile->version);
  to->set_leaves_done(profile->leaves_done);
  to->set_tasks_done(profile->usage.tasks());
  to->set_busy_ns(wire::BusyNanos(profile->usage));
  to->set_fetched_bytes(profile->usage.fetched_bytes());
  to->set_pushed_bytes(profile->usage.pushed_output_bytes());
  to->set_executors_lost(profile->executors_lost);
  *to->mutable_notes() = profile->notes.findings();
  EncodeTime(profile->last_heard, to->mutable_last_heard());
  for (const DeviceInfo& device : profile->devices) {
    wire::Encode(device, to->add_devices());
    to->set_groups(to->groups() + std::max<uint32_t>(1, device.groups));
  }
  const size_t first = profile->rates.size() - std::min(profile->rates.size(), rates_max);
  for (size_t i = first; i < profile->rates.size(); ++i) {
    KernelRate rate = profile->rates[i].first;
    rate.age += std::max(now - profile->rates[i].second, absl::ZeroDuration());
    wire::Encode(rate, to->add_rates());
  }
  EncodeTime(profile->attached, to->mutable_attached());
}

void ListPage(const LoopView& loop, absl::Time now, WorkerId after, size_t count,
              v1::ListWorkersResponse* response) {
  std::vector<WorkerView> workers = loop.core.Workers();
  std::ranges::sort(workers, {}, &WorkerView::id);
  for (const WorkerView& view : workers) {
    if (view.id <= after) continue;
    if (static_cast<size_t>(response->workers_size()) == count) {
      response->set_next_page_token(
          std::to_string(response->workers(response->workers_size() - 1).id()));
      return;
    }
    EncodeWorker(view, loop.hub.Profile(view.id), now, kRatesListed, response->add_workers());
  }
}

// By name first: a name may look like a number.
absl::StatusOr<WorkerView> FindWorker(const LoopView& loop, const std::string& worker) {
  if (worker.empty()) {
    return WithField(InvalidError(reason::kBadArgument, "the worker's name is missing"), "worker");
  }
  const std::vector<WorkerView> workers = loop.core.Workers();
  for (const WorkerView& view : workers) {
    if (view.name == worker) return view;
  }
  std::vector<std::string_view> names;
  for (const WorkerView& view : workers) {
    if (StrCat(view.id) == worker) return view;
    names.push_back(view.name);
  }
  const std::string_view near = Nearest(worker, names);
  return Error(absl::StatusCode::kNotFound, reason::kWorkerNotFound,
               StrCat("no worker is named ", Quoted(worker),
                      near.empty() ? "" : StrCat("; did you mean ", near, "?"),
                      "; `tandem worker ls` lists them"));
}

absl::Status ShowWorker(const LoopView& loop, const std::string& worker, absl::Time now,
                        v1::WorkerInfo* to) {
  ASSIGN_OR_RETURN(const WorkerView view, FindWorker(loop, worker));
  EncodeWorker(view, loop.hub.Profile(view.id), now, WorkerHub::kRatesMax, to);
  return absl::OkStatus();
}

}  // namespace

void ClusterService::DescribeMaster(const LoopView& view, v1::MasterInfo* to) const {
  to->set_version(parts_.version);
  to->set_api(rpc::kApi);
  to->set_cluster_id(parts_.cluster_id);
  to->set_host_id(parts_.host_id);
  to->set_epoch(view.epoch.value());
  EncodeTime(parts_.started, to->mutable_started());
  EncodeTime(parts_.clock->WallNow(), to->mutable_now());
  to->set_workers(static_cast<uint32_t>(view.hub.Attached().size()));
  to->set_jobs_running(parts_.board->running());
  auto& counters = *to->mutable_counters();
  const Counters& core = view.core.counters();
  counters["grants_total"] = core.grants;
  counters["leases_total"] = core.leases;
  counters["commits_total"] = core.commits;
  counters["stale_commits_total"] = core.stale_commits;
  counters["stale_returns_total"] = core.stale_returns;
  counters["stale_crashes_total"] = core.stale_crashes;
  counters["malformed_reports_total"] = core.malformed;
  counters["voided_commits_total"] = core.voided_commits;
  counters["lost_workers_total"] = core.lost_workers;
  counters["adopted_leaves_total"] = core.adopted_leaves;
  counters["recalls_total"] = core.recalls;
  counters["merges_total"] = core.merges;
  counters["strikes_total"] = core.strikes;
  counters["events_total"] = view.events;
  counters["batches_total"] = view.batches;
  counters["journal_commits_total"] = view.committer.groups;
  counters["journal_batches_total"] = view.committer.batches;
  counters["journal_bytes_total"] = view.committer.bytes;
  counters["replay_differences_total"] = view.replay_differences;
  counters["journal_full_retries_total"] = view.committer.full_disk_retries;
  counters["journal_syncing_microseconds_total"] =
      static_cast<uint64_t>(absl::ToInt64Microseconds(view.committer.syncing));
  counters["journal_appending_microseconds_total"] =
      static_cast<uint64_t>(absl::ToInt64Microseconds(view.committer.appending));
  for (const auto& [name, value] : view.hub.counters()) {
    counters[StrCat("worker_", name, "_total")] = value;
  }
}

grpc::ServerUnaryReactor* ClusterService::GetMaster(grpc::CallbackServerContext* context,
                                                    const v1::GetMasterRequest* request,
                                                    v1::MasterInfo* response) {
  if (request->api() != 0) {
    const absl::Status skew =
        rpc::CheckSkew({request->client_version(), request->api()}, {parts_.version, rpc::kApi});
    if (!skew.ok()) {
      grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
      reactor->Finish(rpc::ToGrpc(skew));
      return reactor;
    }
  }
  return OnLoop(context, [this, response](const LoopView& view) {
    DescribeMaster(view, response);
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* ClusterService::OnLoop(grpc::CallbackServerContext* context,
                                                 LoopCall call) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  absl::Status status = rpc::CheckVersion(*context);
  if (status.ok()) {
    status = parts_.loop->Call([reactor, call = std::move(call)](const LoopView& view) {
      reactor->Finish(rpc::ToGrpc(call(view)));
    });
  }
  if (!status.ok()) reactor->Finish(rpc::ToGrpc(status));
  return reactor;
}

grpc::ServerUnaryReactor* ClusterService::GetWorker(grpc::CallbackServerContext* context,
                                                    const v1::GetWorkerRequest* request,
                                                    v1::WorkerInfo* response) {
  return OnLoop(context, [this, request, response](const LoopView& view) {
    return ShowWorker(view, request->worker(), parts_.clock->WallNow(), response);
  });
}

// A name that the core still knows as drained, though the worker has left, can be resumed; there is
// no more to show of it then.
grpc::ServerUnaryReactor* ClusterService::SetDrain(grpc::CallbackServerContext* context,
                                                   const std::string& worker, bool drain,
                                                   v1::WorkerInfo* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const auto show = [this, reactor, worker, drain, response](const LoopView& view) {
    if (!ShowWorker(view, worker, parts_.clock->WallNow(), response).ok()) {
      response->set_name(worker);
      response->set_state(v1::LOST);
      response->set_drain(drain);
    }
    reactor->Finish(grpc::Status::OK);
  };
  const auto ask = [this, reactor, worker, drain, show](const LoopView& view) {
    const absl::StatusOr<WorkerView> known = FindWorker(view, worker);
    const absl::Status not_found = known.status();
    if (absl::IsInvalidArgument(not_found)) return reactor->Finish(rpc::ToGrpc(not_found));
    const absl::Status asked = parts_.loop->Drain(
        {.token = 0, .worker = known.ok() ? known->id : WorkerId(), .drain = drain, .name = worker},
        [this, reactor, not_found, show](const absl::StatusOr<JobId>& done) {
          // What the look said is the better message: it names the nearest.
          absl::Status status = absl::IsNotFound(done.status()) ? not_found : done.status();
          if (status.ok()) status = parts_.loop->Call(show);
          if (!status.ok()) reactor->Finish(rpc::ToGrpc(status));
        });
    if (!asked.ok()) reactor->Finish(rpc::ToGrpc(asked));
  };
  absl::Status status = rpc::CheckVersion(*context);
  if (status.ok()) status = parts_.loop->Call(ask);
  if (!status.ok()) reactor->Finish(rpc::ToGrpc(status));
  return reactor;
}

grpc::ServerUnaryReactor* ClusterService::DrainWorker(grpc::CallbackServerContext* context,
                                                      const v1::DrainWorkerRequest* request,
                                                      v1::WorkerInfo* response) {
  return SetDrain(context, request->worker(), true, response);
}

grpc::ServerUnaryReactor* ClusterService::ResumeWorker(grpc::CallbackServerContext* context,
                                                       const v1::ResumeWorkerRequest* request,
                                                       v1::WorkerInfo* response) {
  return SetDrain(context, request->worker(), false, response);
}

// Answered when the worker has said that it has.
grpc::ServerUnaryReactor* ClusterService::ForgetRates(grpc::CallbackServerContext* context,
                                                      const v1::ForgetRatesRequest* request,
                                                      v1::WorkerInfo* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const auto finish = [reactor](const absl::Status& status) {
    reactor->Finish(rpc::ToGrpc(status));
  };
  const auto show = [this, request, response, finish](const LoopView& view) {
    finish(ShowWorker(view, request->worker(), parts_.clock->WallNow(), response));
  };
  const auto ask = [this, request, show, finish](const LoopView& view) {
    const absl::StatusOr<WorkerView> worker = FindWorker(view, request->worker());
    absl::Status status = worker.status();
    if (status.ok()) {
      status = parts_.loop->ForgetRates(
          worker->id, request->kernel(), [this, show, finish](const absl::Status& done) {
            const absl::Status shown = done.ok() ? parts_.loop->Call(show) : done;
            if (!shown.ok()) finish(shown);
          });
    }
    if (!status.ok()) finish(status);
  };
  absl::Status status = CheckKernelName(request->kernel());
  if (status.ok()) status = rpc::CheckVersion(*context);
  if (status.ok()) status = parts_.loop->Call(ask);
  if (!status.ok()) finish(status);
  return reactor;
}

grpc::ServerUnaryReactor* ClusterService::ExplainWorker(grpc::CallbackServerContext* context,
                                                        const v1::ExplainWorkerRequest* request,
                                                        v1::WorkerExplanation* response) {
  return OnLoop(context, [this, request, response](const LoopView& view) -> absl::Status {
    ASSIGN_OR_RETURN(const WorkerView worker, FindWorker(view, request->worker()));
    EncodeWorker(worker, view.hub.Profile(worker.id), parts_.clock->WallNow(), WorkerHub::kRatesMax,
                 response->mutable_worker());
    const std::vector<JobAtWorkerView> jobs = view.core.JobsAt(worker.id, kJobsExplained);
    for (const JobAtWorkerView& job : jobs) {
      v1::JobAtWorker* to = response->add_jobs();
      to->set_job(job.job.value());
      to->set_leases(job.leases);
      to->set_leaves(job.leaves);
      to->set_free_leaves(job.free_leaves);
      to->set_note(job.note);
    }
    if (const WorkerProfile* profile = view.hub.Profile(worker.id)) {
      *response->mutable_findings() = profile->notes.findings();
      for (const worker::v1::LateRun& late : profile->notes.late()) {
        *response->add_findings() = ExplainLateLeaves(late);
      }
    }
    for (v1::Finding& finding : ExplainWorkerState(worker, jobs)) {
      *response->add_findings() = std::move(finding);
    }
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* ClusterService::ListWorkers(grpc::CallbackServerContext* context,
                                                      const v1::ListWorkersRequest* request,
                                                      v1::ListWorkersResponse* response) {
  return OnLoop(context, [this, request, response](const LoopView& view) -> absl::Status {
    ASSIGN_OR_RETURN(const size_t count, WorkersAPage(request->page_size()));
    ASSIGN_OR_RETURN(const WorkerId after, ParseWorkerToken(request->page_token()));
    ListPage(view, parts_.clock->WallNow(), after, count, response);
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* ClusterService::ListKernels(grpc::CallbackServerContext* context,
                                                      const v1::ListKernelsRequest* request,
                                                      v1::ListKernelsResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const absl::StatusOr<size_t> count = WorkersAPage(request->page_size());
  if (!count.ok()) {
    reactor->Finish(rpc::ToGrpc(count.status()));
    return reactor;
  }
  const std::vector<KnownKernel> kernels = parts_.kernels->List(request->page_token(), *count + 1);
  for (size_t i = 0; i < std::min(kernels.size(), *count); ++i) {
    v1::Kernel* kernel = response->add_kernels();
    wire::Encode(*kernels[i].info, kernel);
    kernel->set_builtin(kernels[i].builtin);
    kernel->set_current(kernels[i].current);
    kernel->set_workers(kernels[i].workers);
  }
  if (kernels.size() > *count) {
    response->set_next_page_token(kernels[*count - 1].info->identity());
  }
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

}  // namespace tandem::master
