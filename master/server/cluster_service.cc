#include "master/server/cluster_service.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "common/base/error.h"
#include "common/base/reason.h"
#include "common/base/strings.h"
#include "common/rpc/status.h"
#include "common/wire/kernel.h"
#include "common/wire/lease_messages.h"
#include "master/server/timestamps.h"

namespace tandem::master {
namespace {

absl::Status BadToken() {
  return WithField(InvalidError(reason::kBadPageToken,
                                "the page token is not one that this call gave out: begin again "
                                "without one"),
                   "page_token");
}

absl::StatusOr<size_t> PageSize(uint32_t asked) {
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
      return view.draining ? v1::DRAINING : v1::ATTACHED;
    case WorkerView::Phase::kExpected:
    case WorkerView::Phase::kDetached:
    case WorkerView::Phase::kLost:
      break;
  }
  return v1::LOST;
}

void EncodeWorker(const WorkerView& view, const WorkerProfile* profile, v1::WorkerInfo* to) {
  to->set_id(view.id.value());
  to->set_name(view.name);
  to->set_state(StateOf(view));
  to->set_leases(view.leases);
  if (profile == nullptr) return;
  to->set_address(profile->address);
  to->set_version(profile->version);
  to->set_leaves_done(profile->leaves_done);
  for (const DeviceInfo& device : profile->devices) wire::Encode(device, to->add_devices());
  for (const KernelRate& rate : profile->rates) wire::Encode(rate, to->add_rates());
  EncodeTime(profile->attached, to->mutable_attached());
}

void ListPage(const LoopView& loop, WorkerId after, size_t count,
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
    EncodeWorker(view, loop.hub.Profile(view.id), response->add_workers());
  }
}

}  // namespace

void ClusterService::DescribeMaster(const LoopView& view, v1::MasterInfo* to) const {
  to->set_version(parts_.version);
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
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const absl::Status status = parts_.loop->Call([this, reactor, response](const LoopView& view) {
    DescribeMaster(view, response);
    reactor->Finish(grpc::Status::OK);
  });
  if (!status.ok()) reactor->Finish(rpc::ToGrpc(status));
  return reactor;
}

grpc::ServerUnaryReactor* ClusterService::ListWorkers(grpc::CallbackServerContext* context,
                                                      const v1::ListWorkersRequest* request,
                                                      v1::ListWorkersResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const absl::StatusOr<size_t> count = PageSize(request->page_size());
  const absl::StatusOr<WorkerId> after = ParseWorkerToken(request->page_token());
  absl::Status status = count.ok() ? after.status() : count.status();
  if (status.ok()) {
    status = parts_.loop->Call(
        [reactor, response, after = *after, count = *count](const LoopView& view) {
          ListPage(view, after, count, response);
          reactor->Finish(grpc::Status::OK);
        });
  }
  if (!status.ok()) reactor->Finish(rpc::ToGrpc(status));
  return reactor;
}

grpc::ServerUnaryReactor* ClusterService::ListKernels(grpc::CallbackServerContext* context,
                                                      const v1::ListKernelsRequest* request,
                                                      v1::ListKernelsResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const absl::StatusOr<size_t> count = PageSize(request->page_size());
  if (!count.ok()) {
    reactor->Finish(rpc::ToGrpc(count.status()));
    return reactor;
  }
  const std::vector<KnownKernel> kernels = parts_.kernels->List(request->page_token(), *count + 1);
  for (size_t i = 0; i < std::min(kernels.size(), *count); ++i) {
    v1::Kernel* kernel = response->add_kernels();
    wire::Encode(*kernels[i].info, kernel);
    kernel->set_builtin(kernels[i].builtin);
  }
  if (kernels.size() > *count) {
    response->set_next_page_token(kernels[*count - 1].info->identity());
  }
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

}  // namespace tandem::master
