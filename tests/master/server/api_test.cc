// The API's handlers in a whole master, with scripted workers: blobs, drains, explanations, and
// each call made twice.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "common/base/error.h"
#include "common/base/reason.h"
#include "common/base/rng.h"
#include "common/data/sha256.h"
#include "common/model/locator.h"
#include "common/rpc/channel.h"
#include "common/rpc/owner.h"
#include "common/rpc/status.h"
#include "common/rpc/version.h"
#include "common/wire/job_spec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "master/server/server.h"
#include "tandem/v1/cluster.grpc.pb.h"
#include "tandem/v1/data.grpc.pb.h"
#include "tandem/v1/jobs.grpc.pb.h"
#include "tests/master/server/fake_worker.h"
#include "tests/master/server/master_fixture.h"

namespace tandem::master {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ApiTest : public MasterTest {
 protected:
  void SetUp() override {
    MasterTest::SetUp();
    ConnectTheRest();
  }
  void Start() {
    MasterTest::Start();
    ConnectTheRest();
  }
  void Restart() {
    MasterTest::Restart();
    ConnectTheRest();
  }
  void ConnectTheRest() {
    cluster_ = v1::Cluster::NewStub(channel_);
    data_ = v1::Data::NewStub(channel_);
  }

  // One unary call as an owner, of a client of this release unless `api` says otherwise.
  template <class Stub, class Request, class Response>
  absl::Status Call(const std::unique_ptr<Stub>& stub,
                    grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                    const Request& request, Response* response, const char* owner = "ada",
                    const char* api = nullptr) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    rpc::SetOwner(&context, owner);
    if (api != nullptr) {
      context.AddMetadata(rpc::kApiKey, api);
      context.AddMetadata(rpc::kVersionKey, "9.9.9");
    } else {
      rpc::SetVersion(&context);
    }
    return rpc::FromGrpc((stub.get()->*method)(&context, request, response));
  }

  absl::StatusOr<v1::Job> Submit(const v1::SubmitJobRequest& request, const char* owner = "ada") {
    v1::Job job;
    absl::Status status = Call(jobs_, &v1::Jobs::Stub::SubmitJob, request, &job, owner);
    if (!status.ok()) return status;
    return job;
  }
  absl::StatusOr<v1::Job> Cancel(uint64_t id) {
    v1::CancelJobRequest request;
    request.set_id(id);
    v1::Job job;
    absl::Status status = Call(jobs_, &v1::Jobs::Stub::CancelJob, request, &job);
    if (!status.ok()) return status;
    return job;
  }
  absl::StatusOr<v1::JobExplanation> Explain(uint64_t id, const char* owner = "ada") {
    v1::ExplainJobRequest request;
    request.set_id(id);
    v1::JobExplanation response;
    absl::Status status = Call(jobs_, &v1::Jobs::Stub::ExplainJob, request, &response, owner);
    if (!status.ok()) return status;
    return response;
  }
  std::vector<uint64_t> List(const v1::ListJobsRequest& request, const char* owner = "ada") {
    v1::ListJobsResponse response;
    const absl::Status status = Call(jobs_, &v1::Jobs::Stub::ListJobs, request, &response, owner);
    EXPECT_TRUE(status.ok()) << status;
    std::vector<uint64_t> ids;
    for (const v1::Job& job : response.jobs()) ids.push_back(job.id());
    return ids;
  }
  absl::StatusOr<v1::WorkerInfo> Drain(const std::string& worker, bool drain = true) {
    v1::WorkerInfo info;
    absl::Status status;
    if (drain) {
      v1::DrainWorkerRequest request;
      request.set_worker(worker);
      status = Call(cluster_, &v1::Cluster::Stub::DrainWorker, request, &info);
    } else {
      v1::ResumeWorkerRequest request;
      request.set_worker(worker);
      status = Call(cluster_, &v1::Cluster::Stub::ResumeWorker, request, &info);
    }
    if (!status.ok()) return status;
    return info;
  }
  absl::StatusOr<v1::WorkerExplanation> ExplainWorker(const std::string& worker) {
    v1::ExplainWorkerRequest request;
    request.set_worker(worker);
    v1::WorkerExplanation response;
    absl::Status status = Call(cluster_, &v1::Cluster::Stub::ExplainWorker, request, &response);
    if (!status.ok()) return status;
    return response;
  }

  // Why it waits is known a moment after it was accepted.
  void WaitUntilItWaits(uint64_t job) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    rpc::SetOwner(&context, "ada");
    v1::WatchJobRequest request;
    request.set_id(job);
    const auto reader = jobs_->WatchJob(&context, request);
    v1::Job state;
    while (reader->Read(&state)) {
      if (state.wait_reason() == v1::WAIT_REASON_UNSPECIFIED) continue;
      context.TryCancel();
    }
    (void)reader->Finish();
    EXPECT_NE(state.wait_reason(), v1::WAIT_REASON_UNSPECIFIED);
  }

  static v1::BlobRef Ref(const std::string& bytes) {
    v1::BlobRef ref;
    wire::Encode(BlobLocator{Sha256Of(bytes), bytes.size()}, &ref);
    return ref;
  }
  absl::Status Put(const std::string& bytes, const v1::BlobRef& as, uint64_t most = ~uint64_t{0}) {
    grpc::ClientContext context;
    rpc::SetOwner(&context, "ada");
    v1::BlobStat stat;
    const auto writer = data_->PutBlob(&context, &stat);
    v1::PutBlobRequest request;
    *request.mutable_header()->mutable_blob() = as;
    writer->Write(request);
    request.set_data(bytes.substr(0, most));
    writer->Write(request);
    writer->WritesDone();
    return rpc::FromGrpc(writer->Finish());
  }
  absl::Status Put(const std::string& bytes) { return Put(bytes, Ref(bytes)); }
  std::vector<v1::BlobEntry> Blobs(uint32_t page_size = 0) {
    std::vector<v1::BlobEntry> blobs;
    v1::ListBlobsRequest request;
    request.set_page_size(page_size);
    do {
      v1::ListBlobsResponse response;
      const absl::Status status = Call(data_, &v1::Data::Stub::ListBlobs, request, &response);
      EXPECT_TRUE(status.ok()) << status;
      blobs.insert(blobs.end(), response.blobs().begin(), response.blobs().end());
      request.set_page_token(response.next_page_token());
    } while (!request.page_token().empty());
    return blobs;
  }
  absl::StatusOr<uint64_t> Delete(const v1::BlobRef& blob, const char* owner = "ada") {
    v1::DeleteBlobRequest request;
    *request.mutable_blob() = blob;
    v1::DeleteBlobResponse response;
    absl::Status status = Call(data_, &v1::Data::Stub::DeleteBlob, request, &response, owner);
    if (!status.ok()) return status;
    return response.bytes();
  }
  static v1::SubmitJobRequest Histogram(const v1::BlobRef& values, const std::string& request_id) {
    v1::SubmitJobRequest request;
    request.set_request_id(request_id);
    request.mutable_spec()->set_kernel("histogram");
    v1::Operand* operand = request.mutable_spec()->add_operands();
    operand->set_name("value");
    operand->mutable_tensor()->set_dtype(v1::U8);
    operand->mutable_tensor()->add_shape(values.size());
    *operand->mutable_locator()->mutable_blob() = values;
    return request;
  }

  std::unique_ptr<v1::Cluster::Stub> cluster_;
  std::unique_ptr<v1::Data::Stub> data_;
};

TEST_F(ApiTest, ASubmitMadeTwiceIsOneJobAndWithAnotherBodyRefused) {
  const absl::StatusOr<v1::Job> first = Submit(Noop(10, "once"));
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(Submit(Noop(10, "once"))->id(), first->id());
  const absl::Status reused = Submit(Noop(11, "once")).status();
  EXPECT_EQ(reused.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(ReasonOf(reused), reason::kRequestIdReused);
  EXPECT_THAT(std::string(reused.message()), HasSubstr(std::to_string(first->id())));
  // Another owner's ids are its own.
  EXPECT_NE(Submit(Noop(11, "once"), "bob")->id(), first->id());
  Restart();
  EXPECT_EQ(Submit(Noop(10, "once"))->id(), first->id());
  EXPECT_EQ(ReasonOf(Submit(Noop(11, "once")).status()), reason::kRequestIdReused);
}

TEST_F(ApiTest, ACancelMadeTwiceSaysTheSame) {
  const uint64_t job = Submit(Noop(10, "r"))->id();
  const absl::StatusOr<v1::Job> first = Cancel(job);
  ASSERT_TRUE(first.ok()) << first.status();
  const absl::StatusOr<v1::Job> second = Cancel(job);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->SerializeAsString(), first->SerializeAsString());
  EXPECT_EQ(second->state(), v1::CANCELLED);
}

TEST_F(ApiTest, ReadsMadeTwiceSayTheSame) {
  const uint64_t id = Submit(Noop(10, "r"))->id();
  ASSERT_TRUE(Put("some bytes").ok());
  const auto twice = [this](auto& stub, auto method, const auto& request, auto response) {
    auto again = response;
    EXPECT_TRUE(Call(stub, method, request, &response).ok());
    EXPECT_TRUE(Call(stub, method, request, &again).ok());
    EXPECT_EQ(again.SerializeAsString(), response.SerializeAsString());
  };
  v1::GetJobRequest get;
  get.set_id(id);
  twice(jobs_, &v1::Jobs::Stub::GetJob, get, v1::Job());
  twice(jobs_, &v1::Jobs::Stub::ListJobs, v1::ListJobsRequest(), v1::ListJobsResponse());
  v1::SubmitJobRequest plan = Noop(10, "");
  twice(jobs_, &v1::Jobs::Stub::PlanJob, plan, v1::JobPlan());
  v1::ListFailuresRequest failures;
  failures.set_id(id);
  twice(jobs_, &v1::Jobs::Stub::ListFailures, failures, v1::ListFailuresResponse());
  twice(cluster_, &v1::Cluster::Stub::ListWorkers, v1::ListWorkersRequest(),
        v1::ListWorkersResponse());
  twice(cluster_, &v1::Cluster::Stub::ListKernels, v1::ListKernelsRequest(),
        v1::ListKernelsResponse());
  twice(data_, &v1::Data::Stub::ListBlobs, v1::ListBlobsRequest(), v1::ListBlobsResponse());
  v1::StatBlobsRequest stat;
  *stat.add_blobs() = Ref("some bytes");
  twice(data_, &v1::Data::Stub::StatBlobs, stat, v1::StatBlobsResponse());
  v1::LocateBlobRequest locate;
  *locate.mutable_blob() = Ref("some bytes");
  twice(data_, &v1::Data::Stub::LocateBlob, locate, v1::LocateBlobResponse());
  v1::GetBlobSumsRequest sums;
  *sums.mutable_blob() = Ref("some bytes");
  twice(data_, &v1::Data::Stub::GetBlobSums, sums, v1::GetBlobSumsResponse());
  v1::ListOutputRequest outputs;
  outputs.set_job(id);
  outputs.set_output("value");
  twice(data_, &v1::Data::Stub::ListOutput, outputs, v1::ListOutputResponse());
}

TEST_F(ApiTest, AClientOfAnotherMajorIsToldBothVersions) {
  v1::MasterInfo master;
  ASSERT_TRUE(Call(cluster_, &v1::Cluster::Stub::GetMaster, v1::GetMasterRequest(), &master).ok());
  EXPECT_EQ(master.api(), rpc::kApi);
  EXPECT_EQ(master.version(), rpc::Version());
  const std::string mine(rpc::Version());
  const auto check = [&](const absl::Status& status) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(ReasonOf(status), reason::kVersionSkew);
    EXPECT_THAT(std::string(status.message()), HasSubstr("9.9.9 (API 7.3)"));
    EXPECT_THAT(std::string(status.message()), HasSubstr(mine));
  };
  v1::GetMasterRequest get;
  get.set_client_version("9.9.9");
  get.set_api(7003);
  check(Call(cluster_, &v1::Cluster::Stub::GetMaster, get, &master));
  v1::ListJobsResponse jobs;
  check(Call(jobs_, &v1::Jobs::Stub::ListJobs, v1::ListJobsRequest(), &jobs, "ada", "7003"));
  v1::ListWorkersResponse workers;
  check(Call(cluster_, &v1::Cluster::Stub::ListWorkers, v1::ListWorkersRequest(), &workers, "ada",
             "7003"));
  v1::ListBlobsResponse blobs;
  check(Call(data_, &v1::Data::Stub::ListBlobs, v1::ListBlobsRequest(), &blobs, "ada", "7003"));
  // Of the same major, a later minor understands us; and what is no number is no API of ours.
  EXPECT_TRUE(
      Call(jobs_, &v1::Jobs::Stub::ListJobs, v1::ListJobsRequest(), &jobs, "ada", "1999").ok());
  EXPECT_EQ(
      ReasonOf(Call(jobs_, &v1::Jobs::Stub::ListJobs, v1::ListJobsRequest(), &jobs, "ada", "x")),
      reason::kVersionSkew);
}

TEST_F(ApiTest, JobsAreFoundByKernelOwnerAndTimeInTheListAndInHistory) {
  const uint64_t noop = Submit(Noop(10, "a"))->id();
  v1::SubmitJobRequest pi;
  pi.set_request_id("b");
  pi.mutable_spec()->set_kernel("monte_carlo_pi");
  (*pi.mutable_spec()->mutable_axis_extents())["n"] = 10;
  const uint64_t estimate = Submit(pi)->id();
  const uint64_t bobs = Submit(Noop(10, "a"), "bob")->id();
  v1::ListJobsRequest request;
  request.set_kernel("noop");
  EXPECT_THAT(List(request), ElementsAre(noop));
  request.set_kernel("noo");
  EXPECT_THAT(List(request), ElementsAre());
  request.clear_kernel();
  request.set_owner("bob");
  EXPECT_THAT(List(request), ElementsAre(bobs));
  request.clear_owner();
  request.set_all_owners(true);
  EXPECT_THAT(List(request), ElementsAre(bobs, estimate, noop));
  request.mutable_submitted_since()->set_seconds(absl::ToUnixSeconds(absl::Now()) + 3600);
  EXPECT_THAT(List(request), ElementsAre());
  request.mutable_submitted_since()->set_seconds(absl::ToUnixSeconds(absl::Now()) - 3600);
  EXPECT_THAT(List(request), ElementsAre(bobs, estimate, noop));
  request.set_owner("not a name");
  v1::ListJobsResponse response;
  const absl::Status bad = Call(jobs_, &v1::Jobs::Stub::ListJobs, request, &response);
  EXPECT_EQ(FieldOf(bad), "owner");
}

TEST_F(ApiTest, ADrainedWorkerGetsNothingUntilItIsResumedAlsoAfterARestart) {
  {
    FakeWorker worker(master_->address(), "w");
    ASSERT_TRUE(worker.Attach().ok());
    const absl::StatusOr<v1::WorkerInfo> drained = Drain("w");
    ASSERT_TRUE(drained.ok()) << drained.status();
    EXPECT_TRUE(drained->drain());
    EXPECT_EQ(drained->state(), v1::WORKER_DRAINED);
    EXPECT_EQ(Drain("w")->state(), v1::WORKER_DRAINED);
    const uint64_t job = Submit(Noop(4, "a"))->id();
    WaitUntilItWaits(job);
    const absl::StatusOr<v1::JobExplanation> waits = Explain(job);
    ASSERT_TRUE(waits.ok()) << waits.status();
    EXPECT_EQ(waits->job().wait_reason(), v1::DRAINED);
    EXPECT_EQ(waits->findings(0).token(), "DRAINED");
    const absl::StatusOr<v1::WorkerExplanation> why = ExplainWorker("w");
    ASSERT_TRUE(why.ok()) << why.status();
    EXPECT_EQ(why->findings(0).token(), "DRAINED");
    ASSERT_EQ(why->jobs_size(), 1);
    EXPECT_EQ(why->jobs(0).free_leaves(), 4u);
  }
  Restart();
  FakeWorker worker(master_->address(), "w");
  ASSERT_TRUE(worker.Attach().ok());
  EXPECT_TRUE(Drain("w")->drain());
  const absl::StatusOr<v1::WorkerInfo> resumed = Drain("w", false);
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  EXPECT_FALSE(resumed->drain());
  EXPECT_FALSE(Drain("w", false)->drain());
  EXPECT_TRUE(worker.NextGrant().job.valid());
  // By its number, too; and what it holds shows.
  const absl::StatusOr<v1::WorkerInfo> again = Drain(std::to_string(resumed->id()));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->state(), v1::DRAINING);
  EXPECT_GT(again->leases(), 0u);
}

TEST_F(ApiTest, AWorkerThatIsNotThereIsNamedWithTheNearest) {
  FakeWorker worker(master_->address(), "worker-one");
  ASSERT_TRUE(worker.Attach().ok());
  for (const absl::Status& status :
       {Drain("worker-two").status(), Drain("worker-two", false).status(),
        ExplainWorker("worker-two").status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
    EXPECT_EQ(ReasonOf(status), reason::kWorkerNotFound);
    EXPECT_THAT(std::string(status.message()), HasSubstr("did you mean worker-one?"));
  }
  EXPECT_EQ(Drain("").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FieldOf(ExplainWorker("").status()), "worker");
}

TEST_F(ApiTest, AJobsAccountIsCountedAndOutlivesTheMaster) {
  uint64_t id = 0;
  std::string account;
  {
    FakeWorker worker(master_->address(), "w");
    ASSERT_TRUE(worker.Attach().ok());
    id = Submit(Noop(3, "a"))->id();
    uint64_t done = 0, number = 0;
    while (done < 3) {
      const Grant grant = worker.NextGrant();
      ASSERT_TRUE(grant.job.valid());
      const uint64_t count = std::min<uint64_t>(3 - done, grant.count << grant.level);
      worker::v1::WorkerMessage used;
      v1::JobUsage* usage = used.add_usages();
      usage->set_job(id);
      usage->set_device(v1::DEVICE_CPU);
      usage->mutable_usage()->set_tasks(count);
      usage->mutable_usage()->set_body_ns(1'000'000 * count);
      usage->mutable_usage()->set_fetched_bytes(100);
      worker.Send(used);
      std::string bytes;
      for (uint64_t task = grant.first_leaf; task < grant.first_leaf + count; ++task) {
        const uint64_t value = Mix64((task + 1) * 0x9e3779b97f4a7c15u);
        bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
      }
      number = worker.Commit(
          grant, std::make_shared<const CommitOutputs>(CommitOutputs{{0, std::move(bytes)}}), {},
          count);
      done += count;
    }
    ASSERT_TRUE(worker.WaitForAck(number));
    const absl::StatusOr<v1::JobExplanation> why = Explain(id);
    ASSERT_TRUE(why.ok()) << why.status();
    EXPECT_EQ(why->job().state(), v1::SUCCEEDED);
    ASSERT_EQ(why->account().workers_size(), 1);
    const v1::WorkerUsage& line = why->account().workers(0);
    EXPECT_EQ(line.name(), "w");
    EXPECT_EQ(line.device(), v1::DEVICE_CPU);
    EXPECT_EQ(line.usage().tasks(), 3u);
    EXPECT_EQ(line.usage().body_ns(), 3'000'000u);
    EXPECT_GE(line.usage().fetched_bytes(), 100u);
    EXPECT_EQ(line.leaves(), 3u);
    EXPECT_EQ(line.leases(), why->job().leases());
    EXPECT_GE(why->findings_size(), 1);
    EXPECT_FALSE(why->account().partial());
    account = why->account().SerializeAsString();
    // Knowing an id grants nothing.
    EXPECT_EQ(ReasonOf(Explain(id, "bob").status()), reason::kJobNotFound);
    v1::GetWorkerRequest get;
    get.set_worker("w");
    v1::WorkerInfo info;
    ASSERT_TRUE(Call(cluster_, &v1::Cluster::Stub::GetWorker, get, &info).ok());
    EXPECT_EQ(info.tasks_done(), 3u);
    EXPECT_EQ(info.busy_ns(), 3'000'000u);
    EXPECT_EQ(info.groups(), 1u);
  }
  Restart();
  const absl::StatusOr<v1::JobExplanation> after = Explain(id);
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_EQ(after->account().SerializeAsString(), account);
}

TEST_F(ApiTest, AnAccountSurvivesASnapshotToo) {
  master_.reset();
  options_.loop.snapshot_every = 1;
  Start();
  const uint64_t id = Submit(Noop(3, "a"))->id();
  ASSERT_TRUE(Cancel(id).ok());
  const std::string account = Explain(id)->account().SerializeAsString();
  ASSERT_FALSE(account.empty());
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(Submit(Noop(1, "s" + std::to_string(i))).ok());
  Restart();
  EXPECT_EQ(Explain(id)->account().SerializeAsString(), account);
}

TEST_F(ApiTest, BlobsAreListedInPagesWithTheJobsThatNameThem) {
  ASSERT_TRUE(Put("aaaa").ok());
  ASSERT_TRUE(Put("bbbb").ok());
  EXPECT_FALSE(Put("cccc-cut off", Ref("cccc-cut off"), 4).ok());
  const uint64_t job = Submit(Histogram(Ref("aaaa"), "h"))->id();
  const std::vector<v1::BlobEntry> all = Blobs();
  ASSERT_EQ(all.size(), 3u);
  const std::vector<v1::BlobEntry> paged = Blobs(1);
  ASSERT_EQ(paged.size(), 3u);
  int used = 0, unfinished = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(paged[i].SerializeAsString(), all[i].SerializeAsString());
    EXPECT_TRUE(all[i].has_created());
    unfinished += all[i].unfinished() ? 1 : 0;
    if (all[i].blob().sha256() != Ref("aaaa").sha256()) continue;
    ++used;
    EXPECT_TRUE(all[i].in_use());
    EXPECT_THAT(all[i].jobs(), ElementsAre(job));
  }
  EXPECT_EQ(used, 1);
  EXPECT_EQ(unfinished, 1);
  EXPECT_EQ(all.back().blob().size(), 4u);
  v1::ListBlobsRequest bad;
  bad.set_page_token("x");
  v1::ListBlobsResponse response;
  EXPECT_EQ(ReasonOf(Call(data_, &v1::Data::Stub::ListBlobs, bad, &response)),
            reason::kBadPageToken);
  bad.clear_page_token();
  bad.set_page_size(1001);
  EXPECT_EQ(ReasonOf(Call(data_, &v1::Data::Stub::ListBlobs, bad, &response)),
            reason::kLimitExceeded);
}

TEST_F(ApiTest, ABlobIsDeletedOnceNoLiveJobUsesIt) {
  ASSERT_TRUE(Put("aaaa").ok());
  const uint64_t job = Submit(Histogram(Ref("aaaa"), "h"))->id();
  const absl::Status refused = Delete(Ref("aaaa")).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(refused), reason::kBlobInUse);
  Restart();  // which forgets nothing of that
  EXPECT_EQ(ReasonOf(Delete(Ref("aaaa")).status()), reason::kBlobInUse);
  ASSERT_TRUE(Cancel(job).ok());
  EXPECT_EQ(ReasonOf(Delete(Ref("aaaa"), "bob").status()), reason::kBlobNotFound);
  const absl::StatusOr<uint64_t> bytes = Delete(Ref("aaaa"));
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_EQ(*bytes, 4u);
  EXPECT_EQ(ReasonOf(Delete(Ref("aaaa")).status()), reason::kBlobNotFound);
  EXPECT_TRUE(Blobs().empty());
  EXPECT_EQ(ReasonOf(Submit(Histogram(Ref("aaaa"), "h2")).status()), reason::kBlobNotFound);
  const absl::StatusOr<v1::Job> again = Submit(Histogram(Ref("aaaa"), "h"));
  ASSERT_TRUE(again.ok()) << "a request that has made its job is that job: " << again.status();
  EXPECT_EQ(again->id(), job);
}

TEST_F(ApiTest, AnUploadThatBrokeOffGoesOnOrIsForgotten) {
  const std::string bytes(100'000, 'q');
  EXPECT_FALSE(Put(bytes, Ref(bytes), 60'000).ok());
  v1::StatBlobsRequest stat;
  *stat.add_blobs() = Ref(bytes);
  v1::StatBlobsResponse stats;
  ASSERT_TRUE(Call(data_, &v1::Data::Stub::StatBlobs, stat, &stats).ok());
  EXPECT_EQ(stats.blobs(0).uploaded(), 60'000u);
  const absl::StatusOr<uint64_t> freed = Delete(Ref(bytes));
  ASSERT_TRUE(freed.ok()) << freed.status();
  EXPECT_EQ(*freed, 60'000u);
  ASSERT_TRUE(Call(data_, &v1::Data::Stub::StatBlobs, stat, &stats).ok());
  EXPECT_EQ(stats.blobs(0).uploaded(), 0u);
  // Bytes of another hash are refused, and nothing of them is kept.
  const absl::Status wrong = Put(bytes, Ref(std::string(100'000, 'r')));
  EXPECT_EQ(ReasonOf(wrong), reason::kChecksumMismatch);
  EXPECT_TRUE(Blobs().empty());
}

TEST_F(ApiTest, DiskUsageIsTheSumOfWhatIsThere) {
  ASSERT_TRUE(Put("aaaa").ok());
  EXPECT_FALSE(Put("bbbbbb", Ref("bbbbbb"), 3).ok());
  v1::DiskUsage usage;
  ASSERT_TRUE(Call(data_, &v1::Data::Stub::GetDiskUsage, v1::GetDiskUsageRequest(), &usage).ok());
  std::map<std::string, v1::KindUsage> kinds;
  for (const v1::KindUsage& kind : usage.kinds()) kinds[kind.kind()] = kind;
  EXPECT_EQ(kinds["blobs"].owner_bytes(), 4u);
  EXPECT_EQ(kinds["blobs"].files(), 1u);
  EXPECT_EQ(kinds["uploads"].owner_bytes(), 3u);
  EXPECT_GT(kinds["journal"].bytes(), 0u);
  EXPECT_TRUE(kinds.contains("results"));
  EXPECT_GT(usage.disk_bytes(), usage.disk_free_bytes());
  ASSERT_TRUE(
      Call(data_, &v1::Data::Stub::GetDiskUsage, v1::GetDiskUsageRequest(), &usage, "bob").ok());
  EXPECT_EQ(usage.kinds(0).owner_bytes(), 0u);
  EXPECT_EQ(usage.kinds(0).bytes(), 4u);
}

}  // namespace
}  // namespace tandem::master
