#include "worker/server/control_stream.h"

#include <deque>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/rpc/channel.h"
#include "common/rpc/status.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/client_callback.h"
#include "tandem/worker/v1/worker.grpc.pb.h"

namespace tandem::worker {
namespace {

// Messages are merged up to here: well below rpc::kMessageBytesMax.
constexpr size_t kMergeBytesMax = 1 << 20;

}  // namespace

class ControlStream::Call final
    : public grpc::ClientBidiReactor<worker::v1::WorkerMessage, worker::v1::MasterMessage>,
      public std::enable_shared_from_this<Call> {
 public:
  Call(const std::string& address, uint64_t number, std::shared_ptr<EventQueue> queue)
      : number_(number),
        queue_(std::move(queue)),
        stub_(worker::v1::WorkerControl::NewStub(
            rpc::ConnectForCallbacks(address, rpc::Traffic::kControl))) {}

  void Begin() {
    self_ = shared_from_this();
    stub_->async()->Attach(&context_, this);
    AddHold();  // For writes that are started from outside of callbacks.
    StartNextRead();
    StartCall();
  }

  void Send(worker::v1::WorkerMessage message);
  void Close() {
    {
      absl::MutexLock lock(&mu_);
      closing_ = true;
    }
    Advance();
  }
  void Cancel() {
    context_.TryCancel();
    Close();
  }

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnWritesDoneDone(bool) override {}
  void OnDone(const grpc::Status& status) override {
    queue_->Push(StreamClosed{number_, rpc::FromGrpc(status)});
    self_.reset();
  }

 private:
  struct Waiting {
    worker::v1::WorkerMessage message;
    size_t bytes = 0;
  };

  void StartNextRead() {
    incoming_ = std::make_unique<worker::v1::MasterMessage>();
    StartRead(incoming_.get());
  }
  void Advance();

  const uint64_t number_;
  const std::shared_ptr<EventQueue> queue_;
  const std::unique_ptr<worker::v1::WorkerControl::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<worker::v1::MasterMessage> incoming_;  // of the outstanding read
  worker::v1::WorkerMessage outgoing_;                   // of the outstanding write
  std::shared_ptr<Call> self_;

  absl::Mutex mu_;
  std::deque<Waiting> waiting_ ABSL_GUARDED_BY(mu_);
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  bool closing_ ABSL_GUARDED_BY(mu_) = false;
  bool broken_ ABSL_GUARDED_BY(mu_) = false;
  bool over_ ABSL_GUARDED_BY(mu_) = false;  // no more writes
};

void ControlStream::Call::Send(worker::v1::WorkerMessage message) {
  const size_t bytes = message.ByteSizeLong();
  {
    absl::MutexLock lock(&mu_);
    if (over_) return;
    if (!waiting_.empty() && waiting_.back().bytes + bytes <= kMergeBytesMax &&
        !message.has_hello() && !waiting_.back().message.has_hello()) {
      waiting_.back().message.MergeFrom(message);
      waiting_.back().bytes += bytes;
    } else {
      waiting_.push_back({std::move(message), bytes});
    }
  }
  Advance();
}

void ControlStream::Call::Advance() {
  bool write = false, done = false, release = false;
  {
    absl::MutexLock lock(&mu_);
    if (writing_ || over_) return;
    if (broken_) {
      over_ = release = true;
    } else if (!waiting_.empty()) {
      outgoing_ = std::move(waiting_.front().message);
      waiting_.pop_front();
      writing_ = write = true;
    } else if (closing_) {
      over_ = done = release = true;
    }
  }
  if (write) StartWrite(&outgoing_);
  if (done) StartWritesDone();
  if (release) RemoveHold();
}

void ControlStream::Call::OnReadDone(bool ok) {
  if (ok) {
    queue_->Push(StreamMessage{number_, std::move(incoming_)});
    StartNextRead();
    return;
  }
  {
    absl::MutexLock lock(&mu_);
    broken_ = true;
  }
  Advance();
}

void ControlStream::Call::OnWriteDone(bool ok) {
  {
    absl::MutexLock lock(&mu_);
    writing_ = false;
    if (!ok) broken_ = true;
  }
  Advance();
}

std::unique_ptr<ControlStream> ControlStream::Open(const std::string& address, uint64_t number,
                                                   std::shared_ptr<EventQueue> queue) {
  auto call = std::make_shared<Call>(address, number, std::move(queue));
  call->Begin();
  return std::unique_ptr<ControlStream>(new ControlStream(std::move(call), number));
}

ControlStream::~ControlStream() { call_->Cancel(); }

void ControlStream::Send(worker::v1::WorkerMessage message) { call_->Send(std::move(message)); }

void ControlStream::Close() { call_->Close(); }

}  // namespace tandem::worker
