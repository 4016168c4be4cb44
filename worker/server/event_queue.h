// EventQueue: what gRPC's threads and NVML's have for the loop, and the eventfd that wakes it.
//
//   queue.Push(StreamClosed{…});            // any thread; a system call only when it was empty
//   for (LoopEvent& event : queue.Take())   // the loop, after queue.fd() was readable
//
// Thread-safety: safe from any thread. Ownership: shared by the loop and the calls that outlive it.
#ifndef TANDEM_WORKER_SERVER_EVENT_QUEUE_H_
#define TANDEM_WORKER_SERVER_EVENT_QUEUE_H_

#include <sys/eventfd.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/base/unique_fd.h"
#include "common/data/region_pusher.h"
#include "tandem/worker/v1/worker.pb.h"

namespace tandem::worker {

// Of the control stream; `stream` tells one attempt from another.
struct StreamMessage {
  uint64_t stream = 0;
  std::unique_ptr<worker::v1::MasterMessage> message;
};
struct StreamClosed {
  uint64_t stream = 0;
  absl::Status status;
};
// Of a stream that pushes outputs.
struct Pushed {
  uint64_t stream = 0;
  std::vector<PushedPiece> pieces;
};
struct PushesBroken {
  uint64_t stream = 0;
  absl::Status status;
};
// What NVML tells of a GPU.
struct GpuNews {
  std::string uuid;
  bool out_of_service = false;
  std::string text;
};
using LoopEvent = std::variant<StreamMessage, StreamClosed, Pushed, PushesBroken, GpuNews>;

class EventQueue {
 public:
  EventQueue() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

  int fd() const { return fd_.get(); }

  void Push(LoopEvent event) {
    bool wake = false;
    {
      absl::MutexLock lock(&mu_);
      wake = !signalled_;
      signalled_ = true;
      events_.push_back(std::move(event));
    }
    if (!wake) return;
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(fd_.get(), &one, sizeof(one));
  }

  std::vector<LoopEvent> Take() {
    absl::MutexLock lock(&mu_);
    if (signalled_) {
      // A signal that is still to come stays expected, so that it is taken, too: else the loop
      // would find the descriptor readable, and nothing here, for ever.
      uint64_t count = 0;
      if (::read(fd_.get(), &count, sizeof(count)) == sizeof(count)) signalled_ = false;
    }
    return std::exchange(events_, {});
  }

 private:
  UniqueFd fd_;
  absl::Mutex mu_;
  std::vector<LoopEvent> events_ ABSL_GUARDED_BY(mu_);
  bool signalled_ ABSL_GUARDED_BY(mu_) = false;  // the descriptor is readable, or about to be
};

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_SERVER_EVENT_QUEUE_H_
