// MasterTest: a master in this process, on a directory of its own, and the calls that tests make.
//
// Thread-safety: a fixture; calls may come from several threads.
#ifndef TANDEM_TESTS_MASTER_SERVER_MASTER_FIXTURE_H_
#define TANDEM_TESTS_MASTER_SERVER_MASTER_FIXTURE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/rng.h"
#include "common/data/data_client.h"
#include "common/rpc/channel.h"
#include "common/rpc/owner.h"
#include "common/rpc/status.h"
#include "master/server/server.h"
#include "tandem/v1/jobs.grpc.pb.h"
#include "tests/master/server/fake_worker.h"

namespace tandem::master {

// What noop computes: the finaliser of SplitMix64 over the task's state.
inline uint64_t NoopValue(uint64_t seed, uint64_t task) {
  return Mix64(seed + (task + 1) * 0x9e3779b97f4a7c15u);
}

inline std::string NoopBytes(uint64_t first, uint64_t count) {
  std::string bytes;
  for (uint64_t task = first; task < first + count; ++task) {
    const uint64_t value = NoopValue(0, task);
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  return bytes;
}

inline OutputsHandle Inline(std::string bytes) {
  return std::make_shared<const CommitOutputs>(CommitOutputs{{0, std::move(bytes)}});
}

class MasterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = std::filesystem::temp_directory_path() / "tandem_master_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    options_.directory = name;
    options_.listen.address = "127.0.0.1:0";
    options_.loop.core.reconnect_grace = absl::Milliseconds(50);
    Start();
  }
  void TearDown() override {
    master_.reset();
    std::filesystem::remove_all(options_.directory);
  }

  void Start() {
    absl::StatusOr<std::unique_ptr<Master>> master =
        Master::Start(options_, [](const absl::Status& status) { FAIL() << status; });
    ASSERT_TRUE(master.ok()) << master.status();
    master_ = *std::move(master);
    channel_ = rpc::Connect(master_->address(), rpc::Traffic::kControl);
    jobs_ = v1::Jobs::NewStub(channel_);
  }
  // The process is gone and another one begins, on the same directory.
  void Restart() {
    master_.reset();
    Start();
  }

  static v1::SubmitJobRequest Noop(uint64_t tasks, const std::string& request_id,
                                   uint64_t grain = 1) {
    v1::SubmitJobRequest request;
    request.set_request_id(request_id);
    request.mutable_spec()->set_kernel("noop");
    (*request.mutable_spec()->mutable_axis_extents())["n"] = tasks;
    request.mutable_spec()->set_grain(grain);
    return request;
  }
  template <class Request, class Response, class Method>
  absl::StatusOr<Response> Call(Method method, const Request& request, const char* owner) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    rpc::SetOwner(&context, owner);
    Response response;
    absl::Status status = rpc::FromGrpc((jobs_.get()->*method)(&context, request, &response));
    if (!status.ok()) return status;
    return response;
  }
  absl::StatusOr<v1::Job> Submit(const v1::SubmitJobRequest& request, const char* owner = "ada") {
    return Call<v1::SubmitJobRequest, v1::Job>(&v1::Jobs::Stub::SubmitJob, request, owner);
  }
  absl::StatusOr<v1::Job> Get(uint64_t id, const char* owner = "ada") {
    v1::GetJobRequest request;
    request.set_id(id);
    return Call<v1::GetJobRequest, v1::Job>(&v1::Jobs::Stub::GetJob, request, owner);
  }
  absl::StatusOr<v1::Job> Cancel(uint64_t id, const char* owner = "ada") {
    v1::CancelJobRequest request;
    request.set_id(id);
    return Call<v1::CancelJobRequest, v1::Job>(&v1::Jobs::Stub::CancelJob, request, owner);
  }
  absl::StatusOr<v1::Job> Delete(uint64_t id, const char* owner = "ada") {
    v1::DeleteJobRequest request;
    request.set_id(id);
    return Call<v1::DeleteJobRequest, v1::Job>(&v1::Jobs::Stub::DeleteJob, request, owner);
  }
  absl::StatusOr<v1::ListJobsResponse> List(const v1::ListJobsRequest& request,
                                            const char* owner = "ada") {
    return Call<v1::ListJobsRequest, v1::ListJobsResponse>(&v1::Jobs::Stub::ListJobs, request,
                                                           owner);
  }
  // All states until the job has ended.
  absl::StatusOr<std::vector<v1::Job>> Watch(uint64_t id, uint64_t after = 0) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    rpc::SetOwner(&context, "ada");
    v1::WatchJobRequest request;
    request.set_id(id);
    request.set_after_sequence(after);
    const auto reader = jobs_->WatchJob(&context, request);
    std::vector<v1::Job> states;
    v1::Job job;
    while (reader->Read(&job)) states.push_back(job);
    absl::Status status = rpc::FromGrpc(reader->Finish());
    if (!status.ok()) return status;
    return states;
  }
  absl::StatusOr<std::string> ReadOutput(uint64_t job, const std::string& output,
                                         uint64_t first = 0, uint64_t count = 0,
                                         bool failed_as_zero = false, const char* owner = "ada") {
    v1::ReadOutputRequest request;
    request.set_job(job);
    request.set_output(output);
    request.set_first_task(first);
    request.set_task_count(count);
    request.set_failed_as_zero(failed_as_zero);
    DataClient data(rpc::Connect(master_->address(), rpc::Traffic::kBulk), owner);
    std::string all;
    absl::Status status = data.ReadOutput(request, [&all](std::string_view bytes) {
      all += bytes;
      return absl::OkStatus();
    });
    if (!status.ok()) return status;
    return all;
  }
  // Runs what it is granted until `tasks` are committed and acknowledged.
  static void RunNoop(FakeWorker* worker, uint64_t tasks) {
    uint64_t number = 0;
    while (tasks > 0) {
      const Grant grant = worker->NextGrant();
      ASSERT_TRUE(grant.job.valid());
      const uint64_t count = std::min(tasks, grant.count << grant.level);
      number = worker->Commit(grant, Inline(NoopBytes(grant.first_leaf, count)), {}, count);
      tasks -= count;
    }
    ASSERT_TRUE(worker->WaitForAck(number));
  }

  MasterOptions options_;
  std::unique_ptr<Master> master_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Jobs::Stub> jobs_;
};

}  // namespace tandem::master

#endif  // TANDEM_TESTS_MASTER_SERVER_MASTER_FIXTURE_H_
