// Client::Impl: the connection, and how a call is tried again. Private to the library.
//
// Thread-safety: safe from any thread.
#ifndef TANDEM_CLIENT_LIB_CLIENT_IMPL_H_
#define TANDEM_CLIENT_LIB_CLIENT_IMPL_H_

#include <algorithm>
#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "client/lib/client.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/rpc/channel.h"
#include "common/rpc/owner.h"
#include "common/rpc/status.h"
#include "common/rpc/version.h"
#include "tandem/v1/cluster.grpc.pb.h"
#include "tandem/v1/data.grpc.pb.h"
#include "tandem/v1/jobs.grpc.pb.h"

namespace tandem::client {

inline constexpr absl::Duration kBackoffFirst = absl::Milliseconds(50);
inline constexpr absl::Duration kBackoffMax = absl::Milliseconds(500);

class Client::Impl {
 public:
  explicit Impl(Options options)
      : options_(std::move(options)),
        control_(rpc::Connect(options_.address, rpc::Traffic::kControl)),
        bulk_(rpc::Connect(options_.address, rpc::Traffic::kBulk)),
        jobs(v1::Jobs::NewStub(control_)),
        cluster(v1::Cluster::NewStub(control_)),
        lists(v1::Data::NewStub(control_)),
        data(v1::Data::NewStub(bulk_)) {}

  // Calls `call(context)` and again after a while when no master answers; what it is called for
  // must be idempotent.
  template <class Call>
  absl::Status Retry(absl::Duration patience, Call call) {
    const absl::Time give_up = absl::Now() + patience;
    for (absl::Duration backoff = kBackoffFirst;; backoff = std::min(backoff * 2, kBackoffMax)) {
      grpc::ClientContext context;
      Prepare(&context);
      context.set_deadline(absl::ToChronoTime(absl::Now() + options_.deadline));
      absl::Status status = Greet();
      if (status.ok()) status = rpc::FromGrpc(call(&context));
      if (status.code() != absl::StatusCode::kUnavailable) return Known(status);
      const absl::Duration left = give_up - absl::Now();
      if (left <= absl::ZeroDuration()) return Unavailable(status);
      absl::SleepFor(std::min(backoff, left));
    }
  }

  // The same for a watch, which StopWaiting() ends also between two calls.
  template <class Call>
  absl::Status RetryWatch(Call call) {
    bool away = false;
    const absl::Time give_up = absl::Now() + options_.watch_patience;
    for (absl::Duration backoff = kBackoffFirst;; backoff = std::min(backoff * 2, kBackoffMax)) {
      grpc::ClientContext context;
      Prepare(&context);
      absl::Status status = Greet();
      if (status.ok()) status = rpc::FromGrpc(call(&context));
      if (status.code() != absl::StatusCode::kUnavailable) return Known(status);
      const absl::Duration left = give_up - absl::Now();
      if (left <= absl::ZeroDuration()) return Unavailable(status);
      if (!std::exchange(away, true) && options_.on_away) options_.on_away();
      if (!Pause(std::min(backoff, left))) return absl::OkStatus();
    }
  }

  // One unary call.
  template <class Stub, class Request, class Response>
  absl::Status Call(Stub* stub,
                    grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                    const Request& request, Response* response) {
    return Retry(options_.patience, [&](grpc::ClientContext* context) {
      return (stub->*method)(context, request, response);
    });
  }

  absl::Status Unavailable(const absl::Status& status) const {
    if (!ReasonOf(status).empty()) return status;
    return Error(
        absl::StatusCode::kUnavailable, reason::kMasterUnavailable,
        StrCat("no master answers at ", options_.address, " (", ToStd(status.message()),
               "); start one with `tandem up`, or name it with --address or TANDEM_ADDRESS"));
  }

  // A stream that a Wait reads or an upload writes, so that StopWaiting can end it.
  bool BeginStream(grpc::ClientContext* context) {
    absl::MutexLock lock(&mu_);
    if (!stopped_) streams_.insert(context);
    return !stopped_;
  }
  void EndStream(grpc::ClientContext* context) {
    absl::MutexLock lock(&mu_);
    streams_.erase(context);
  }
  bool stopped() {
    absl::MutexLock lock(&mu_);
    return stopped_;
  }
  // For so long. Returns false, at once, when it is to stop.
  bool Pause(absl::Duration time) {
    absl::MutexLock lock(&mu_);
    return !mu_.AwaitWithTimeout(absl::Condition(&stopped_), time);
  }
  void StopWaiting() {
    absl::MutexLock lock(&mu_);
    stopped_ = true;
    for (grpc::ClientContext* context : streams_) context->TryCancel();
  }
  void Prepare(grpc::ClientContext* context) const {
    rpc::SetOwner(context, options_.owner);
    rpc::SetVersion(context);
  }
  // Once: do this client and the master understand each other? Errors: FAILED_PRECONDITION
  // VERSION_SKEW; UNAVAILABLE.
  absl::Status Greet();
  // The same, tried again while no master answers: before a stream.
  absl::Status AwaitGreeting() {
    return Retry(options_.patience, [](grpc::ClientContext*) { return grpc::Status::OK; });
  }

  // Hands a stream's bytes on until it or `sink` ends.
  template <class Reader>
  absl::Status ReadChunks(grpc::ClientContext* context, Reader* reader, Sink sink) const {
    v1::Chunk chunk;
    absl::Status taken = absl::OkStatus();
    while (taken.ok() && reader->Read(&chunk)) taken = sink(chunk.data());
    if (!taken.ok()) context->TryCancel();
    const absl::Status status = rpc::FromGrpc(reader->Finish());
    RETURN_IF_ERROR(taken);
    return absl::IsUnavailable(status) ? Unavailable(status) : status;
  }

  // An upload that the master has not, and how many of its bytes it has.
  struct Missing {
    const client::Upload* upload;
    uint64_t from;
  };
  absl::StatusOr<std::vector<Missing>> FindMissing(const std::vector<client::Upload>& uploads);
  // Goes on where it broke off, as long as each attempt gets further or patience lasts.
  absl::StatusOr<uint64_t> UploadWhole(const client::Upload& upload, uint64_t from,
                                       absl::FunctionRef<void(uint64_t)> sent);
  absl::StatusOr<uint64_t> UploadOne(const client::Upload& upload, uint64_t from,
                                     absl::FunctionRef<void(uint64_t)> sent);

 private:
  // A call that the master does not have is one of a newer release.
  absl::Status Known(const absl::Status& status) const;

  const Options options_;
  const std::shared_ptr<grpc::Channel> control_, bulk_;
  absl::Mutex mu_;
  std::set<grpc::ClientContext*> streams_ ABSL_GUARDED_BY(mu_);
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  std::atomic<bool> greeted_ = false;

 public:
  const std::unique_ptr<v1::Jobs::Stub> jobs;
  const std::unique_ptr<v1::Cluster::Stub> cluster;
  const std::unique_ptr<v1::Data::Stub> lists, data;
};

}  // namespace tandem::client

#endif  // TANDEM_CLIENT_LIB_CLIENT_IMPL_H_
