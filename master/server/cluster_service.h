// ClusterService: what the cluster consists of (tandem.v1.Cluster): the master, workers, kernels.
//
// Thread-safety: safe from any thread. Ownership: the parts outlive the server.
#ifndef TANDEM_MASTER_SERVER_CLUSTER_SERVICE_H_
#define TANDEM_MASTER_SERVER_CLUSTER_SERVICE_H_

#include <functional>
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
  grpc::ServerUnaryReactor* GetWorker(grpc::CallbackServerContext* context,
                                      const v1::GetWorkerRequest* request,
                                      v1::WorkerInfo* response) override;
  grpc::ServerUnaryReactor* DrainWorker(grpc::CallbackServerContext* context,
                                        const v1::DrainWorkerRequest* request,
                                        v1::WorkerInfo* response) override;
  grpc::ServerUnaryReactor* ResumeWorker(grpc::CallbackServerContext* context,
                                         const v1::ResumeWorkerRequest* request,
                                         v1::WorkerInfo* response) override;
  grpc::ServerUnaryReactor* ForgetRates(grpc::CallbackServerContext* context,
                                        const v1::ForgetRatesRequest* request,
                                        v1::WorkerInfo* response) override;
  grpc::ServerUnaryReactor* ExplainWorker(grpc::CallbackServerContext* context,
                                          const v1::ExplainWorkerRequest* request,
                                          v1::WorkerExplanation* response) override;

 private:
  // Runs `call` on the loop's thread and finishes with what it returns.
  using LoopCall = std::function<absl::Status(const LoopView& view)>;
  grpc::ServerUnaryReactor* OnLoop(grpc::CallbackServerContext* context, LoopCall call);
  grpc::ServerUnaryReactor* SetDrain(grpc::CallbackServerContext* context,
                                     const std::string& worker, bool drain,
                                     v1::WorkerInfo* response);

  void DescribeMaster(const LoopView& view, v1::MasterInfo* to) const;

  const ClusterServiceParts parts_;
};

}  // namespace tandem::master

#endif  // TANDEM_MASTER_SERVER_CLUSTER_SERVICE_H_
