// JobsService: the API for jobs (tandem.v1.Jobs): submit, plan, get, list, watch, cancel, failures.
//
// Every call is made for the owner in its metadata; another owner's job is not found. Requests are
// checked on the IoPool (they read files), answered by the event loop once durable.
//
// Thread-safety: safe from any thread. Ownership: the parts outlive the server.
#ifndef TANDEM_MASTER_SERVER_JOBS_SERVICE_H_
#define TANDEM_MASTER_SERVER_JOBS_SERVICE_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "common/base/clock.h"
#include "common/data/io_pool.h"
#include "master/server/event_loop.h"
#include "master/server/job_board.h"
#include "master/server/job_checker.h"
#include "master/server/job_finder.h"
#include "master/server/job_watch.h"
#include "master/store/store.h"
#include "tandem/v1/jobs.grpc.pb.h"

namespace tandem::master {

struct JobsServiceParts {
  EventLoop* loop = nullptr;
  JobBoard* board = nullptr;
  const JobFinder* finder = nullptr;
  Store* store = nullptr;
  const JobChecker* checker = nullptr;
  IoPool* pool = nullptr;
  const Clock* clock = Clock::Real();
  WatchLimits watch;
};

class JobsService final : public v1::Jobs::CallbackService {
 public:
  static constexpr uint32_t kPageSizeDefault = 100;
  static constexpr uint32_t kPageSizeMax = 1000;
  // A request without operands up to this size is checked on the thread that brought it.
  static constexpr size_t kCheckedAtOnceBytes = 4096;

  explicit JobsService(JobsServiceParts parts) : parts_(parts) {}

  grpc::ServerUnaryReactor* SubmitJob(grpc::CallbackServerContext* context,
                                      const v1::SubmitJobRequest* request,
                                      v1::Job* response) override;
  grpc::ServerUnaryReactor* PlanJob(grpc::CallbackServerContext* context,
                                    const v1::SubmitJobRequest* request,
                                    v1::JobPlan* response) override;
  grpc::ServerUnaryReactor* GetJob(grpc::CallbackServerContext* context,
                                   const v1::GetJobRequest* request, v1::Job* response) override;
  grpc::ServerUnaryReactor* ListJobs(grpc::CallbackServerContext* context,
                                     const v1::ListJobsRequest* request,
                                     v1::ListJobsResponse* response) override;
  grpc::ServerWriteReactor<v1::Job>* WatchJob(grpc::CallbackServerContext* context,
                                              const v1::WatchJobRequest* request) override;
  grpc::ServerUnaryReactor* CancelJob(grpc::CallbackServerContext* context,
                                      const v1::CancelJobRequest* request,
                                      v1::Job* response) override;
  grpc::ServerUnaryReactor* DeleteJob(grpc::CallbackServerContext* context,
                                      const v1::DeleteJobRequest* request,
                                      v1::Job* response) override;
  grpc::ServerUnaryReactor* ListFailures(grpc::CallbackServerContext* context,
                                         const v1::ListFailuresRequest* request,
                                         v1::ListFailuresResponse* response) override;
  grpc::ServerUnaryReactor* ExplainJob(grpc::CallbackServerContext* context,
                                       const v1::ExplainJobRequest* request,
                                       v1::JobExplanation* response) override;

 private:
  using Answer = std::function<absl::Status(const std::string& owner)>;
  // Runs `answer` on the pool and finishes with what it returns.
  grpc::ServerUnaryReactor* OnPool(grpc::CallbackServerContext* context, Answer answer);
  absl::Status QueueSubmit(const std::string& owner, const v1::SubmitJobRequest& request,
                           EventLoop::Done done);
  // Calls `done` unless it returns an error.
  absl::Status QueueDelete(const std::string& owner, JobId job, v1::Job* response,
                           std::function<void(absl::Status)> done);
  // Finishes a call that the loop answered with a job.
  EventLoop::Done FinishWithJob(grpc::ServerUnaryReactor* reactor, v1::Job* response) const;
  void AddWhyDiskWaits(v1::Job* job) const;
  absl::Status List(const std::string& owner, const v1::ListJobsRequest& request,
                    v1::ListJobsResponse* response) const;

  const JobsServiceParts parts_;
};

}  // namespace tandem::master

#endif  // TANDEM_MASTER_SERVER_JOBS_SERVICE_H_
