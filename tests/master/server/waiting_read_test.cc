// Reads of a result that are answered when their job has ended.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "common/base/error.h"
#include "common/base/reason.h"
#include "common/rpc/owner.h"
#include "common/rpc/status.h"
#include "tandem/v1/data.grpc.pb.h"
#include "tests/master/server/fake_worker.h"
#include "tests/master/server/master_fixture.h"

namespace tandem::master {
namespace {

class WaitingReadTest : public MasterTest {
 protected:
  static v1::ReadOutputRequest WhenEnded(uint64_t job) {
    v1::ReadOutputRequest request;
    request.set_job(job);
    request.set_output("value");
    request.set_when_ended(true);
    return request;
  }
  std::unique_ptr<grpc::ClientReader<v1::Chunk>> StartRead(const v1::ReadOutputRequest& request,
                                                           grpc::ClientContext* context) {
    rpc::SetOwner(context, "ada");
    return v1::Data::NewStub(channel_)->ReadOutput(context, request);
  }
  absl::StatusOr<std::string> ReadWhenEnded(const v1::ReadOutputRequest& request,
                                            grpc::ClientContext* context = nullptr) {
    grpc::ClientContext own;
    own.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    const auto reader = StartRead(request, context == nullptr ? &own : context);
    std::string all;
    for (v1::Chunk chunk; reader->Read(&chunk);) all += chunk.data();
    absl::Status status = rpc::FromGrpc(reader->Finish());
    if (!status.ok()) return status;
    return all;
  }
};

TEST_F(WaitingReadTest, AReadMayWaitForTheEndOfItsJob) {
  FakeWorker worker(master_->address(), "w");
  ASSERT_TRUE(worker.Attach().ok());
  const uint64_t job = Submit(Noop(10, "r1"))->id();
  const v1::ReadOutputRequest request = WhenEnded(job);
  absl::StatusOr<std::string> bytes = absl::UnknownError("not read");
  std::thread reader([&] { bytes = ReadWhenEnded(request); });
  RunNoop(&worker, 10);
  reader.join();
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_EQ(*bytes, NoopBytes(0, 10));
  EXPECT_EQ(*ReadWhenEnded(request), NoopBytes(0, 10));  // It has ended.
  EXPECT_EQ(ReasonOf(ReadWhenEnded(WhenEnded(999)).status()), reason::kJobNotFound);
}

TEST_F(WaitingReadTest, AWaitingReadEndsWithItsReaderItsJobOrTheMaster) {
  const uint64_t job = Submit(Noop(10, "r1"))->id();
  grpc::ClientContext given_up;
  given_up.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(50));
  EXPECT_EQ(ReadWhenEnded(WhenEnded(job), &given_up).status().code(),
            absl::StatusCode::kDeadlineExceeded);

  absl::Status cancelled;
  std::thread reader([&] { cancelled = ReadWhenEnded(WhenEnded(job)).status(); });
  ASSERT_TRUE(Cancel(job).ok());
  reader.join();
  EXPECT_EQ(ReasonOf(cancelled), reason::kJobCancelled) << cancelled;

  const uint64_t second = Submit(Noop(10, "r2"))->id();
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReader<v1::Chunk>> waiting = StartRead(WhenEnded(second), &context);
  ASSERT_TRUE(Get(second).ok());  // A later call on the same connection has been answered.
  master_.reset();
  v1::Chunk chunk;
  EXPECT_FALSE(waiting->Read(&chunk));
  EXPECT_FALSE(waiting->Finish().ok());
}

}  // namespace
}  // namespace tandem::master
