// ClusterService: what the cluster consists of (tandem.v1.Cluster): the master, workers, kernels.
//
// Thread-safety: safe from any thread. Ownership: the parts outlive the server.
#ifndef TANDEM_MASTER_SERVER_CLUSTER_SERVICE_H_
#define TANDEM_MASTER_SERVER_CLUSTER_SERVICE_H_

#include <string>

#include "absl/time/time.h"
#include "common/base/clock.h"
#include "master/server/event_loop.h"
#include "master/server/job_board.h"
#include "master/server/kernel_book.h"
#include "tandem/v1/cluster.grpc.pb.h"

namespace tandem::master {

struct ClusterServiceParts {
  EventLoop* loop = nullptr;
  const JobBoard* board = nullptr;
  const KernelBook* kernels = nullptr;
  const Clock* clock = nullptr;
  std::string version;
  std::string cluster_id;
  std::string host_id;
  absl::Time started;
};

class ClusterService final : public v1::Cluster::CallbackService {
 public:
  static constexpr uint32_t kPageSizeMax = 1000;

  explicit ClusterService(ClusterServiceParts parts) : parts_(std::move(parts)) {}

  grpc::ServerUnaryReactor* GetMaster(grpc::CallbackServerContext* context,
                                      const v1::GetMasterRequest* request,
                                      v1::MasterInfo* response) override;
  grpc::ServerUnaryReactor* ListWorkers(grpc::CallbackServerContext* context,
                                        const v1::ListWorkersRequest* request,
                                        v1::ListWorkersResponse* response) override;
  grpc::ServerUnaryReactor* ListKernels(grpc::CallbackServerContext* context,
                                        const v1::ListKernelsRequest* request,
                                        v1::ListKernelsResponse* response) override;

 private:
  void DescribeMaster(const LoopView& view, v1::MasterInfo* to) const;

  const ClusterServiceParts parts_;
};

}  // namespace tandem::master

#endif  // TANDEM_MASTER_SERVER_CLUSTER_SERVICE_H_
