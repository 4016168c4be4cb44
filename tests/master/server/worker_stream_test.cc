// A worker's stream when one side is slow: what waits is bounded, merged, and in the end cut off.
#include "master/server/worker_stream.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "common/base/error.h"
#include "common/base/reason.h"
#include "common/rpc/server.h"
#include "gtest/gtest.h"
#include "master/server/control_service.h"
#include "tests/master/server/fake_worker.h"

namespace tandem::master {
namespace {

// The event loop's place: it hears and, until it is told to, handles nothing.
class SlowInbox final : public WorkerInbox {
 public:
  void OnHello(std::shared_ptr<WorkerStream> stream, wire::WorkerHello) override {
    worker::v1::MasterMessage welcome;
    wire::Encode(wire::WorkerWelcome{.worker = WorkerId(1),
                                     .epoch = Epoch(1),
                                     .lease_ttl = absl::Seconds(5),
                                     .heartbeat = absl::Seconds(1),
                                     .cluster_id = "c",
                                     .host_id = "h"},
                 welcome.mutable_welcome());
    stream->Send(std::move(welcome));
    stream->Welcome(WorkerId(1));
    absl::MutexLock lock(&mu_);
    stream_ = std::move(stream);
  }
  void OnMessage(std::shared_ptr<WorkerStream>, FromWorker message) override {
    absl::MutexLock lock(&mu_);
    heard_.push_back(message.counters["n"]);
    waiting_most_ = std::max(waiting_most_, heard_.size() - handled_);
  }
  void OnGone(std::shared_ptr<WorkerStream>) override {
    absl::MutexLock lock(&mu_);
    stream_ = nullptr;
  }

  std::shared_ptr<WorkerStream> stream() {
    absl::MutexLock lock(&mu_);
    mu_.Await(absl::Condition(
        +[](SlowInbox* in) { return in->stream_ != nullptr; }, this));
    return stream_;
  }
  // The number in message `at`, once it is there.
  uint64_t Heard(size_t at) {
    absl::MutexLock lock(&mu_);
    const auto there = [this, at] { return heard_.size() > at; };
    mu_.Await(absl::Condition(&there));
    return heard_[at];
  }
  void HandleOne() {
    std::shared_ptr<WorkerStream> stream;
    {
      absl::MutexLock lock(&mu_);
      ++handled_;
      stream = stream_;
    }
    stream->Handled();
  }
  size_t waiting_most() {
    absl::MutexLock lock(&mu_);
    return waiting_most_;
  }

 private:
  absl::Mutex mu_;
  std::shared_ptr<WorkerStream> stream_ ABSL_GUARDED_BY(mu_);
  std::vector<uint64_t> heard_ ABSL_GUARDED_BY(mu_);
  size_t handled_ ABSL_GUARDED_BY(mu_) = 0;
  size_t waiting_most_ ABSL_GUARDED_BY(mu_) = 0;
};

class WorkerStreamTest : public ::testing::Test {
 protected:
  void SetUp() override {
    grpc::Service* const services[] = {&service_};
    auto server = rpc::Server::Start({.address = "127.0.0.1:0"}, services);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    worker_ = std::make_unique<FakeWorker>(server_->address(), "w");
    ASSERT_TRUE(worker_->Attach().ok());
  }
  void TearDown() override {
    worker_ = nullptr;
    server_->Shutdown(absl::ZeroDuration());
  }

  // A message of so many bytes, more or less, that a worker makes nothing of.
  static worker::v1::MasterMessage Bulky(size_t bytes) {
    worker::v1::MasterMessage message;
    for (size_t i = 0; i < bytes / 10; ++i) message.add_drop_jobs(~uint64_t{0} - i);
    return message;
  }

  // More than a transport takes while nobody reads: a write is under way from now on.
  void Fill() {
    for (int i = 0; i < kFilling; ++i) inbox_.stream()->Send(Bulky(3 << 20));
  }
  void ReadWhatFilled() {
    for (int i = 0; i < kFilling; ++i) {
      const worker::v1::MasterMessage bulky = worker_->Read();
      EXPECT_GT(bulky.drop_jobs_size(), 100'000);
      EXPECT_EQ(bulky.acked_report(), 0u);
    }
  }

  static constexpr int kFilling = 4;
  SlowInbox inbox_;
  JobBoard board_;
  ControlService service_{{.inbox = &inbox_, .board = &board_, .clock = Clock::Real()}};
  std::unique_ptr<rpc::Server> server_;
  std::unique_ptr<FakeWorker> worker_;
};

TEST_F(WorkerStreamTest, OnlySoManyMessagesWaitForTheLoopAndTheOthersComeInOrder) {
  constexpr uint64_t kMessages = 50;
  for (uint64_t i = 0; i < kMessages; ++i) {
    worker::v1::WorkerMessage message;
    (*message.mutable_counters())["n"] = i;
    worker_->Send(message);
  }
  EXPECT_EQ(inbox_.Heard(WorkerStream::kUnhandledMax - 1),
            static_cast<uint64_t>(WorkerStream::kUnhandledMax - 1));
  for (uint64_t i = 0; i < kMessages; ++i) {
    EXPECT_EQ(inbox_.Heard(i), i);
    inbox_.HandleOne();
  }
  EXPECT_EQ(inbox_.waiting_most(), static_cast<size_t>(WorkerStream::kUnhandledMax));
}

TEST_F(WorkerStreamTest, WhatIsSentWhileAWriteIsUnderWayGoesInOneMessage) {
  const auto stream = inbox_.stream();
  Fill();
  constexpr uint64_t kMessages = 1000;
  for (uint64_t i = 1; i <= kMessages; ++i) {
    worker::v1::MasterMessage message;
    message.set_acked_report(i);
    message.set_drain(i % 2 == 1);
    message.add_recalls()->set_first_leaf(i);
    stream->Send(std::move(message));
  }
  ReadWhatFilled();
  const worker::v1::MasterMessage merged = worker_->Read();
  EXPECT_EQ(merged.acked_report(), kMessages);  // The last word counts.
  EXPECT_FALSE(merged.drain());
  ASSERT_EQ(merged.recalls_size(), static_cast<int>(kMessages));
  for (uint64_t i = 1; i <= kMessages; ++i) {
    EXPECT_EQ(merged.recalls(static_cast<int>(i) - 1).first_leaf(), i);
  }
}

TEST_F(WorkerStreamTest, MergingStopsAtItsBound) {
  const auto stream = inbox_.stream();
  Fill();
  for (int i = 0; i < 4; ++i) stream->Send(Bulky(WorkerStream::kMergedBytesMax / 3));
  ReadWhatFilled();
  const size_t merged = worker_->Read().ByteSizeLong(), rest = worker_->Read().ByteSizeLong();
  EXPECT_GT(merged, WorkerStream::kMergedBytesMax / 2);
  EXPECT_LE(merged, WorkerStream::kMergedBytesMax);
  EXPECT_GT(rest, 0u);
}

TEST_F(WorkerStreamTest, AWorkerThatDoesNotReadIsCutOffWithAReason) {
  const auto stream = inbox_.stream();
  // Twice as much as may wait; what comes after the cut is not kept.
  for (size_t sent = 0; sent < 2 * WorkerStream::kWaitingBytesMax; sent += 3 << 20) {
    stream->Send(Bulky(3 << 20));
  }
  size_t read = 0;
  while (true) {
    const size_t bytes = worker_->Read().ByteSizeLong();
    if (bytes == 0) break;
    read += bytes;
  }
  const absl::Status end = worker_->End();
  EXPECT_EQ(end.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReasonOf(end), reason::kOverloaded);
  EXPECT_LT(read, WorkerStream::kWaitingBytesMax);
}

}  // namespace
}  // namespace tandem::master
