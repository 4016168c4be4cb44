// ControlStream: one attempt at the stream to the master (worker.proto, Attach).
//
//   auto stream = ControlStream::Open(address, number, queue);   // messages and the end go to
//   queue stream->Send(std::move(message));
//
// One write is outstanding; whatever is sent meanwhile is merged into the next message, so a busy
// worker's reports batch by themselves. No timer.
//
// Thread-safety: safe from any thread. Ownership: the call keeps itself alive until its end has
// gone to the queue; destroying the ControlStream cancels it.
#ifndef TANDEM_WORKER_SERVER_CONTROL_STREAM_H_
#define TANDEM_WORKER_SERVER_CONTROL_STREAM_H_

#include <cstdint>
#include <memory>
#include <string>

#include "tandem/worker/v1/worker.pb.h"
#include "worker/server/event_queue.h"

namespace tandem::worker {

class ControlStream {
 public:
  // Never fails: what goes wrong is in the StreamClosed that ends it.
  static std::unique_ptr<ControlStream> Open(const std::string& address, uint64_t number,
                                             std::shared_ptr<EventQueue> queue);
  ~ControlStream();

  uint64_t number() const { return number_; }
  void Send(worker::v1::WorkerMessage message);
  // No more messages: sends what waits, then ends the stream.
  void Close();

 private:
  class Call;
  ControlStream(std::shared_ptr<Call> call, uint64_t number)
      : call_(std::move(call)), number_(number) {}
  const std::shared_ptr<Call> call_;
  const uint64_t number_;
};

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_SERVER_CONTROL_STREAM_H_
