// WatchJob for readers that are slow: states are merged, then the reader is cut off.
#include "master/server/job_watch.h"

#include <string>

#include "common/base/error.h"
#include "common/base/reason.h"
#include "common/rpc/channel.h"
#include "common/rpc/server.h"
#include "common/rpc/status.h"
#include "gtest/gtest.h"
#include "tandem/v1/jobs.grpc.pb.h"
#include "tests/master/server/bind.h"

namespace tandem::master {
namespace {

// Watches job 1 of the board for whoever calls.
class WatchOnly final : public v1::Jobs::CallbackService {
 public:
  WatchOnly(JobBoard* board, const Clock* clock, WatchLimits limits)
      : board_(board), clock_(clock), limits_(limits) {}
  grpc::ServerWriteReactor<v1::Job>* WatchJob(grpc::CallbackServerContext*,
                                              const v1::WatchJobRequest* request) override {
    const auto watch = JobWatch::Start(board_, clock_, limits_, request->after_sequence());
    JobWatch* reactor = watch.get();
    watch->Watch(JobId(request->id()), "ada");
    return reactor;
  }

 private:
  JobBoard* const board_;
  const Clock* const clock_;
  const WatchLimits limits_;
};

class JobWatchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    // A job with a large name, so that few states fill a connection's buffers.
    auto accepted =
        std::make_shared<JobAccepted>(*AcceptedJob(1, "axis n -> v[n]:u64", {{"n", 100}}, 1));
    auto bound = std::make_shared<BoundJob>(*accepted->bound);
    bound->spec.name = std::string(1 << 20, 'n');
    accepted->bound = bound;
    board_.Accept(accepted);
    Publish(JobState::kPending);
    rpc::ServerOptions options;
    options.address = "127.0.0.1:0";
    grpc::Service* const services[] = {&service_};
    server_ = *rpc::Server::Start(options, services);
    stub_ = v1::Jobs::NewStub(rpc::Connect(server_->address(), rpc::Traffic::kControl));
    v1::WatchJobRequest request;
    request.set_id(1);
    reader_ = stub_->WatchJob(&context_, request);
    EXPECT_TRUE(reader_->Read(&job_));
    EXPECT_EQ(job_.spec().name().size(), size_t{1} << 20);
  }
  void Publish(JobState state) {
    JobStatus status;
    status.job = JobId(1);
    status.sequence = ++sequence_;
    status.state = state;
    status.tasks_done = sequence_;
    board_.Publish(status, absl::Now());
  }

  FakeClock clock_;
  JobBoard board_;
  WatchOnly service_{&board_, &clock_, {.waiting_max = 4, .stall_max = absl::Seconds(10)}};
  std::unique_ptr<rpc::Server> server_;
  std::unique_ptr<v1::Jobs::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::Job>> reader_;
  v1::Job job_;
  uint64_t sequence_ = 0;
};

TEST_F(JobWatchTest, ProgressIsMergedForASlowReaderWhoStillSeesTheEnd) {
  // Far more than any buffer holds; the reader reads nothing meanwhile.
  for (int i = 0; i < 2000; ++i) Publish(JobState::kRunning);
  Publish(JobState::kSucceeded);
  int states = 0;
  uint64_t last = job_.sequence();
  while (reader_->Read(&job_)) {
    EXPECT_GT(job_.sequence(), last);
    last = job_.sequence();
    ++states;
  }
  EXPECT_TRUE(reader_->Finish().ok());
  EXPECT_EQ(job_.state(), v1::SUCCEEDED);
  EXPECT_EQ(job_.tasks_done(), sequence_);
  EXPECT_LT(states, 2000);
}

TEST_F(JobWatchTest, AReaderThatStopsReadingIsCutOff) {
  for (int i = 0; i < 100; ++i) Publish(JobState::kRunning);
  clock_.Advance(absl::Seconds(11));
  Publish(JobState::kRunning);
  uint64_t last = job_.sequence();  // What was under way when it was cut off may be lost.
  while (reader_->Read(&job_)) last = job_.sequence();
  const absl::Status status = rpc::FromGrpc(reader_->Finish());
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << status;
  EXPECT_EQ(ReasonOf(status), reason::kSlowConsumer);
  EXPECT_GT(last, 0u);
  EXPECT_LT(last, sequence_);
}

TEST_F(JobWatchTest, AWatcherOfNoJobIsToldSo) {
  grpc::ClientContext context;
  v1::WatchJobRequest request;
  request.set_id(2);
  const auto reader = stub_->WatchJob(&context, request);
  v1::Job job;
  EXPECT_FALSE(reader->Read(&job));
  EXPECT_EQ(ReasonOf(rpc::FromGrpc(reader->Finish())), reason::kJobNotFound);
}

}  // namespace
}  // namespace tandem::master
