// BulkIntake: reads a stream of raw messages ahead of the work on them.
//
// gRPC's thread queues what arrives (up to kQueuedBytesMax, then it stops reading); a task on the
// IoPool takes all that is queued as one batch, so that what arrives while a disk is busy becomes
// one write. What a derived class cannot do in one turn it goes on with after others had theirs.
// The derived class ends the call.
//
// Thread-safety: OnBatch and OnEnd run one at a time. Ownership: the pool outlives the call; the
// reactor deletes itself in OnDone.
#ifndef TANDEM_COMMON_DATA_BULK_INTAKE_H_
#define TANDEM_COMMON_DATA_BULK_INTAKE_H_

#include <cstddef>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/data/io_pool.h"
#include "grpcpp/support/byte_buffer.h"

namespace tandem {

// `Reactor`: a server's read or bidi reactor of ByteBuffers.
template <class Reactor>
class BulkIntake : public Reactor {
 public:
  static constexpr size_t kQueuedBytesMax = 8 << 20;

  void OnReadDone(bool ok) final {
    bool read = false;
    bool work = false;
    {
      absl::MutexLock lock(&mu_);
      if (ok) {
        queued_bytes_ += incoming_.Length();
        queue_.push_back(std::move(incoming_));
        incoming_.Clear();
        read = queued_bytes_ < kQueuedBytesMax;
        paused_ = !read;
      } else {
        ended_ = true;
      }
      if (!working_ && !closed_) working_ = work = true;
    }
    if (read) this->StartRead(&incoming_);
    if (work) pool_->Run([this] { Work(); });
  }

  // The caller is gone: what it has under way is not worth doing, and must not meet its next call.
  void OnCancel() final {
    absl::MutexLock lock(&mu_);
    cancelled_ = true;
  }

 protected:
  explicit BulkIntake(IoPool* pool) : pool_(pool) {}

  // Call once, from the service method.
  void Begin() { this->StartRead(&incoming_); }

  // An error ends the intake: OnEnd(error) follows.
  virtual absl::Status OnBatch(std::vector<grpc::ByteBuffer> batch) = 0;
  // There is work left of earlier batches: OnBatch is called again, with nothing, until there is
  // not. What comes meanwhile waits.
  virtual bool Unfinished() const { return false; }
  // The peer has said all (OK), or the intake failed. Nothing of the intake is touched afterwards:
  // it may finish the call.
  virtual void OnEnd(const absl::Status& status) = 0;

 private:
  void Work() {
    absl::Status status;
    while (true) {
      std::vector<grpc::ByteBuffer> batch;
      bool read = false;
      {
        absl::MutexLock lock(&mu_);
        if (cancelled_) {
          closed_ = true;
          status = absl::CancelledError("the caller is gone");
          break;
        }
        const bool nothing = queue_.empty() && !Unfinished();
        if (nothing && !ended_) {
          working_ = false;
          return;
        }
        if (nothing) {
          closed_ = true;
          break;
        }
        if (!Unfinished()) {
          batch.swap(queue_);
          queued_bytes_ = 0;
          read = std::exchange(paused_, false);
        }
      }
      if (read) this->StartRead(&incoming_);
      status = OnBatch(std::move(batch));
      if (!status.ok()) {
        absl::MutexLock lock(&mu_);
        closed_ = true;
        break;
      }
      if (Unfinished()) return pool_->Run([this] { Work(); });
    }
    OnEnd(status);
  }

  IoPool* const pool_;
  grpc::ByteBuffer incoming_;  // Of the outstanding read.

  absl::Mutex mu_;
  std::vector<grpc::ByteBuffer> queue_ ABSL_GUARDED_BY(mu_);
  size_t queued_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  bool paused_ ABSL_GUARDED_BY(mu_) = false;
  bool working_ ABSL_GUARDED_BY(mu_) = false;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  bool cancelled_ ABSL_GUARDED_BY(mu_) = false;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace tandem

#endif  // TANDEM_COMMON_DATA_BULK_INTAKE_H_
