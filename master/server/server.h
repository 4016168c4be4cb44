// Master: the whole master in one object: stores, event loop, services, gRPC server.
//
//   ASSIGN_OR_RETURN(auto master, Master::Start(options, on_failed));
//   master->address();                  // "127.0.0.1:7460"
//   master->Shutdown(absl::Seconds(2));
//
// Its directory holds master.db (the journal, the output index, history), blobs/ and segments/.
//
// Thread-safety: Shutdown once, from any thread but the loop's. Ownership: owns all of it.
#ifndef TANDEM_MASTER_SERVER_SERVER_H_
#define TANDEM_MASTER_SERVER_SERVER_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/data/blob_store.h"
#include "common/data/segment_store.h"
#include "common/model/bound_job.h"
#include "common/rpc/server.h"
#include "master/server/event_loop.h"
#include "master/server/job_watch.h"

namespace tandem::master {

struct MasterOptions {
  std::string directory;
  rpc::ServerOptions listen;
  LoopOptions loop;
  WatchLimits watch;
  BlobLimits blobs;
  SegmentLimits segments;
  absl::Duration keep_uploads = absl::Hours(24);  // Unfinished ones, after their last byte.
  bool offer_local_data = true;                   // Readers on this host may map blobs.
  // So much of the disk is left to the journal: blobs and outputs do not use it, and no job is
  // accepted when nothing else is free.
  uint64_t disk_reserve_bytes = uint64_t{16} << 20;
  int io_threads = 4;
  Capabilities capabilities;
  const Clock* clock = Clock::Real();
};

class Master {
 public:
  // `on_failed`: the store failed; exit with code 74. Errors: those of the stores (STORE_LOCKED,
  // STORE_CORRUPT, …) and of rpc::Server::Start.
  static absl::StatusOr<std::unique_ptr<Master>> Start(
      MasterOptions options, std::function<void(const absl::Status&)> on_failed);
  ~Master();

  const std::string& address() const;
  int port() const;
  const std::string& cluster_id() const;
  Epoch epoch() const;

  void Shutdown(absl::Duration grace);

 private:
  struct Parts;
  explicit Master(std::unique_ptr<Parts> parts);
  const std::unique_ptr<Parts> parts_;
};

}  // namespace tandem::master

#endif  // TANDEM_MASTER_SERVER_SERVER_H_
