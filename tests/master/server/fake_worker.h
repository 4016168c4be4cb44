// FakeWorker: a worker as a test's script: it says what it is told to and shows what it hears.
//
//   FakeWorker worker(address, "w1");
//   ASSERT_TRUE(worker.Attach({}).ok());
//   const Grant grant = worker.NextGrant();
//   worker.Commit(grant, outputs);
//   worker.WaitForAck();
//
// Thread-safety: one thread. Every wait has a deadline, after which the test fails.
#ifndef TANDEM_TESTS_MASTER_SERVER_FAKE_WORKER_H_
#define TANDEM_TESTS_MASTER_SERVER_FAKE_WORKER_H_

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/model/lease_messages.h"
#include "common/rpc/channel.h"
#include "common/rpc/status.h"
#include "common/wire/kernel.h"
#include "common/wire/lease_messages.h"
#include "common/wire/session.h"
#include "master/server/kernel_book.h"
#include "tandem/worker/v1/worker.grpc.pb.h"

namespace tandem::master {

class FakeWorker {
 public:
  FakeWorker(const std::string& address, std::string name)
      : name_(std::move(name)),
        stub_(worker::v1::WorkerControl::NewStub(
            rpc::ConnectForCallbacks(address, rpc::Traffic::kControl))) {
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    stream_ = stub_->Attach(&context_);
  }
  ~FakeWorker() { Vanish(); }

  // As after a crash of the process or the network: nothing is said any more.
  void Vanish() {
    if (stream_ == nullptr) return;
    context_.TryCancel();
    (void)stream_->Finish();
    stream_ = nullptr;
  }

  wire::WorkerHello MakeHello() const {
    wire::WorkerHello hello;
    hello.name = name_;
    hello.incarnation = 1;
    hello.version = "test";
    hello.devices = {{DeviceKind::kCpu, "fake", "", 2, 0, 1}};
    for (const kernels::CatalogEntry& entry : kernels::Catalog()) {
      hello.kernels.push_back(*KernelOfEntry(entry));
    }
    hello.host_id = "fake host";
    hello.max_leases = 2048;
    return hello;
  }

  absl::StatusOr<wire::WorkerWelcome> Attach(std::vector<HeldLeaves> held = {},
                                             uint64_t max_epoch = 0) {
    wire::WorkerHello hello = MakeHello();
    hello.held = std::move(held);
    hello.max_epoch = max_epoch;
    return AttachAs(hello);
  }
  absl::StatusOr<wire::WorkerWelcome> AttachAs(const wire::WorkerHello& hello) {
    worker::v1::WorkerMessage message;
    wire::Encode(hello, message.mutable_hello());
    Send(message);
    worker::v1::MasterMessage answer;
    if (!stream_->Read(&answer)) return End();
    wire::WorkerWelcome welcome;
    absl::Status status = wire::Decode(answer.mutable_welcome(), &welcome);
    if (!status.ok()) return status;
    return welcome;
  }

  // How the stream ended.
  absl::Status End() {
    const absl::Status status = rpc::FromGrpc(stream_->Finish());
    stream_ = nullptr;
    return status;
  }

  void Send(const worker::v1::WorkerMessage& message) { (void)stream_->Write(message); }

  // The next message as it is; an empty one when the stream ended.
  worker::v1::MasterMessage Read() {
    worker::v1::MasterMessage message;
    if (!stream_->Read(&message)) message.Clear();
    return message;
  }
  // Reads until `done` is true of what has come so far; false when the stream ended before.
  bool ReadUntil(const std::function<bool()>& done) {
    while (!done()) {
      worker::v1::MasterMessage message;
      if (!stream_->Read(&message)) return false;
      for (worker::v1::Grant& from : *message.mutable_grants()) {
        Grant grant;
        if (wire::Decode(from, &grant).ok()) grants_.push_back(grant);
      }
      for (const worker::v1::JobDescription& job : message.jobs()) described_.insert(job.job());
      for (const uint64_t job : message.drop_jobs()) dropped_.insert(job);
      acked_ = std::max(acked_, message.acked_report());
    }
    return true;
  }

  // Of job 0 when none came.
  Grant NextGrant() {
    if (!ReadUntil([this] { return !grants_.empty(); })) return {};
    const Grant grant = grants_.front();
    grants_.pop_front();
    return grant;
  }
  // Sends the grant's first leaves (0: all of them) as done and returns the report's number.
  uint64_t Commit(const Grant& grant, OutputsHandle outputs, std::vector<TaskFailure> failures = {},
                  uint64_t leaves = 0) {
    tandem::Commit commit;
    commit.job = grant.job;
    commit.runs = {
        {grant.first_n, {grant.first_leaf, leaves == 0 ? grant.count << grant.level : leaves}}};
    commit.outputs = std::move(outputs);
    commit.failures = std::move(failures);
    commit.busy_ns = 1000;
    return Report({std::move(commit)});
  }
  uint64_t Report(std::vector<tandem::Commit> commits) {
    tandem::Report report;
    report.commits = std::move(commits);
    return Say(std::move(report));
  }
  // Numbers it, sends it, and returns its number.
  uint64_t Say(tandem::Report report) {
    report.number = ++last_report_;
    worker::v1::WorkerMessage message;
    wire::Encode(report, message.add_reports());
    Send(message);
    return report.number;
  }
  bool WaitForAck(uint64_t number) {
    return ReadUntil([this, number] { return acked_ >= number; });
  }

  uint64_t acked() const { return acked_; }
  const std::set<uint64_t>& described() const { return described_; }
  const std::set<uint64_t>& dropped() const { return dropped_; }

 private:
  const std::string name_;
  const std::unique_ptr<worker::v1::WorkerControl::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<worker::v1::WorkerMessage, worker::v1::MasterMessage>>
      stream_;
  std::deque<Grant> grants_;
  std::set<uint64_t> described_;
  std::set<uint64_t> dropped_;
  uint64_t acked_ = 0;
  uint64_t last_report_ = 0;
};

}  // namespace tandem::master

#endif  // TANDEM_TESTS_MASTER_SERVER_FAKE_WORKER_H_
