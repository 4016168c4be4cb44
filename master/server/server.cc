#include "master/server/server.h"

#include <utility>

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/reason.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/base/utf8.h"
#include "common/data/data_service.h"
#include "common/data/handover.h"
#include "common/data/host_id.h"
#include "common/data/io_pool.h"
#include "common/data/room_keeper.h"
#include "master/server/cluster_service.h"
#include "master/server/control_service.h"
#include "master/server/job_board.h"
#include "master/server/job_checker.h"
#include "master/server/job_finder.h"
#include "master/server/jobs_service.h"
#include "master/server/kernel_book.h"
#include "master/server/master_books.h"
#include "master/server/output_reader.h"
#include "master/server/upload_sweeper.h"
#include "master/store/sqlite_store.h"

namespace tandem::master {

// In the order in which they are made; gone in the opposite order.
struct Master::Parts {
  std::unique_ptr<SqliteStore> store;
  std::unique_ptr<RoomKeeper> room;
  std::unique_ptr<BlobStore> blobs;
  std::unique_ptr<SegmentStore> segments;
  std::unique_ptr<HandoverDesk> desk;  // Null: nothing is handed over.
  JobBoard board;
  KernelBook kernels;
  std::unique_ptr<JobChecker> checker;
  std::unique_ptr<JobFinder> finder;
  std::unique_ptr<OutputReader> outputs;
  std::unique_ptr<MasterBooks> books;
  std::unique_ptr<UploadSweeper> sweeper;
  std::unique_ptr<EventLoop> loop;
  std::unique_ptr<IoPool> pool;
  std::unique_ptr<IoPool> sync_pool;
  std::unique_ptr<JobsService> jobs;
  std::unique_ptr<ClusterService> cluster;
  std::unique_ptr<ControlService> control;
  std::unique_ptr<DataService> data;
  std::unique_ptr<rpc::Server> server;

  absl::Status Open(const MasterOptions& options);
  void MakeServices(const MasterOptions& options, const std::string& host_id,
                    const std::function<void(const absl::Status&)>& on_failed);
};

absl::Status Master::Parts::Open(const MasterOptions& options) {
  if (const absl::Status made = CreateDirectories(*RealFileSystem(), options.directory);
      !made.ok()) {
    return Error(absl::StatusCode::kFailedPrecondition, reason::kPathUnwritable,
                 StrCat("cannot make the data directory ", options.directory, ": ",
                        ToStd(made.message()), "; choose another with --dir"));
  }
  SqliteStoreOptions store_options;
  store_options.directory = options.directory;
  ASSIGN_OR_RETURN(store, SqliteStore::Open(store_options));
  room = std::make_unique<RoomKeeper>(
      RealFileSystem(), options.disk_reserve_bytes,
      [directory = options.directory] { return FreeBytesAt(directory); });
  ASSIGN_OR_RETURN(blobs, BlobStore::Open(room.get(), options.directory, options.blobs));
  ASSIGN_OR_RETURN(segments, SegmentStore::Open(room.get(), options.directory, options.segments));
  pool = std::make_unique<IoPool>(options.io_threads);
  if (options.offer_local_data) {
    absl::StatusOr<std::unique_ptr<HandoverDesk>> opened = HandoverDesk::Open(options.directory);
    // Its path travels as text.
    if (opened.ok() && !IsUtf8((*opened)->path())) {
      opened =
          absl::InvalidArgumentError(StrCat("the path of ", options.directory, " is not UTF-8"));
    }
    if (opened.ok()) {
      desk = *std::move(opened);
    } else {
      TLOG(Warning, "no_handover", "why", ToStd(opened.status().message()), "then",
           "workers on this host send their outputs");
    }
  }
  return absl::OkStatus();
}

void Master::Parts::MakeServices(const MasterOptions& options, const std::string& host_id,
                                 const std::function<void(const absl::Status&)>& on_failed) {
  sync_pool = std::make_unique<IoPool>(options.io_threads);
  JobsServiceParts jobs_parts;
  jobs_parts.loop = loop.get();
  jobs_parts.board = &board;
  jobs_parts.finder = finder.get();
  jobs_parts.store = store.get();
  jobs_parts.checker = checker.get();
  jobs_parts.pool = pool.get();
  jobs_parts.clock = options.clock;
  jobs_parts.watch = options.watch;
  jobs = std::make_unique<JobsService>(jobs_parts);
  ClusterServiceParts cluster_parts;
  cluster_parts.loop = loop.get();
  cluster_parts.board = &board;
  cluster_parts.kernels = &kernels;
  cluster_parts.clock = options.clock;
  cluster_parts.version = TANDEM_VERSION;
  cluster_parts.cluster_id = store->cluster_id();
  cluster_parts.host_id = host_id;
  cluster_parts.started = options.clock->WallNow();
  cluster = std::make_unique<ClusterService>(std::move(cluster_parts));
  control = std::make_unique<ControlService>(WorkerStream::Parts{
      .inbox = loop.get(), .board = &board, .segments = segments.get(), .clock = options.clock});
  DataServiceOptions data_options;
  data_options.blobs = blobs.get();
  data_options.segments = segments.get();
  data_options.outputs = outputs.get();
  data_options.books = books.get();
  data_options.pool = pool.get();
  data_options.sync_pool = sync_pool.get();
  data_options.on_sync_failed = on_failed;
  if (options.offer_local_data) data_options.local_host_id = host_id;
  data_options.desk = desk.get();
  data = std::make_unique<DataService>(std::move(data_options));
}

Master::Master(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

Master::~Master() { Shutdown(absl::ZeroDuration()); }

absl::StatusOr<std::unique_ptr<Master>> Master::Start(
    MasterOptions options, std::function<void(const absl::Status&)> on_failed) {
  // Before anything is made or changed: a master that cannot listen leaves no trace.
  RETURN_IF_ERROR(rpc::Server::CheckAddress(options.listen));
  auto parts = std::make_unique<Parts>();
  RETURN_IF_ERROR(parts->Open(options));
  const std::string host_id = HostId();
  LoopParts loop_parts;
  loop_parts.store = parts->store.get();
  loop_parts.segments = parts->segments.get();
  loop_parts.board = &parts->board;
  loop_parts.kernels = &parts->kernels;
  loop_parts.pool = parts->pool.get();
  loop_parts.low_on_room = [room = parts->room.get()] { return room->Low(); };
  loop_parts.clock = options.clock;
  loop_parts.cluster_id = parts->store->cluster_id();
  loop_parts.host_id = host_id;
  if (parts->desk != nullptr) loop_parts.handover = parts->desk->path();
  parts->loop = std::make_unique<EventLoop>(std::move(loop_parts), options.loop, on_failed);
  parts->checker = std::make_unique<JobChecker>(
      &parts->kernels, parts->blobs.get(), [room = parts->room.get()] { return room->Room(); },
      options.capabilities);
  parts->finder = std::make_unique<JobFinder>(&parts->board, parts->store.get());
  parts->outputs = std::make_unique<OutputReader>(parts->finder.get(), &parts->board,
                                                  parts->store.get(), parts->segments.get());
  parts->books = std::make_unique<MasterBooks>(options.directory, parts->blobs.get(),
                                               parts->segments.get(), parts->board.uses());
  parts->sweeper =
      std::make_unique<UploadSweeper>(parts->blobs.get(), options.keep_uploads, options.clock);
  RETURN_IF_ERROR(parts->loop->Recover());
  parts->MakeServices(options, host_id, on_failed);
  parts->loop->Start();
  grpc::Service* const services[] = {parts->jobs.get(), parts->cluster.get(), parts->control.get(),
                                     parts->data.get()};
  absl::StatusOr<std::unique_ptr<rpc::Server>> server =
      rpc::Server::Start(options.listen, services);
  if (!server.ok()) {
    parts->loop->Stop();
    return server.status();
  }
  parts->server = *std::move(server);
  TLOG(Info, "master_listens", "address", parts->server->address(), "epoch", parts->loop->epoch(),
       "cluster", parts->store->cluster_id(), "directory", options.directory);
  return std::unique_ptr<Master>(new Master(std::move(parts)));
}

const std::string& Master::address() const { return parts_->server->address(); }
int Master::port() const { return parts_->server->port(); }
const std::string& Master::cluster_id() const { return parts_->store->cluster_id(); }
Epoch Master::epoch() const { return parts_->loop->epoch(); }

void Master::Shutdown(absl::Duration grace) {
  // The loop first: it answers what waits, so that the server's calls can end.
  if (parts_->loop != nullptr) parts_->loop->Stop();
  if (parts_->server != nullptr) parts_->server->Shutdown(grace);
}

}  // namespace tandem::master
