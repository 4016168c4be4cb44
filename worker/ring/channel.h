// Channel: protobuf messages between a supervisor and one executor, over two rings in a memfd.
//
//   // supervisor                                   // executor
//   ASSIGN_OR_RETURN(auto pair, MakeChannel(opts));  ASSIGN_OR_RETURN(auto c, Channel::Open(fds));
//   … pass pair.executor_fds to the child …          for (;;) {
//   channel->Send(to_executor);                        while (*c->Receive(&to_executor)) Handle(…);
//   epoll on channel->wake_fd()                        if (*c->PrepareToSleep()) poll(wake_fd());
//                                                      c->Awake();
//                                                    }
//
// Frames are a 32-bit length and a serialized message. A message larger than the ring is streamed
// through it; one larger than `message_bytes_max` is refused by Send. What does not fit now waits
// in an outbox, which Awake() and every later Send push on; nothing here ever blocks. A frame with
// an impossible length or an unreadable message answers DATA_LOSS, after which the other process is
// to be given up.
//
// Thread-safety: Send and Flush may be called from one thread at a time, the rest from another
// (one). Awake() also flushes: with several senders, call Flush() under the senders' lock instead
// and AwakeOnly() for the rest.
// Ownership: a Channel owns its mapping and its descriptors.
#ifndef TANDEM_WORKER_RING_CHANNEL_H_
#define TANDEM_WORKER_RING_CHANNEL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/unique_fd.h"
#include "google/protobuf/message_lite.h"
#include "worker/ring/mapping.h"
#include "worker/ring/ring.h"

namespace tandem::worker {

struct ChannelLimits {
  size_t ring_bytes = size_t{1} << 20;          // each way; a power of two
  size_t message_bytes_max = size_t{64} << 20;  // one message
  size_t outbox_bytes_max = size_t{256} << 20;  // what waits for space in the ring
};

// The descriptors of one end.
struct ChannelFds {
  UniqueFd memory;
  UniqueFd own_wake;   // this end sleeps on it
  UniqueFd peer_wake;  // this end signals it

  // "3,4,5": for a child's command line, and back. Errors: INVALID_ARGUMENT.
  std::string ToText() const;
  static absl::StatusOr<ChannelFds> Parse(std::string_view text);
};

class Channel {
 public:
  // The executor's end. Errors: of mmap; INVALID_ARGUMENT when the memory is not a channel.
  static absl::StatusOr<std::unique_ptr<Channel>> Open(ChannelFds fds,
                                                       const ChannelLimits& limits = {});

  // Queues a message and writes what fits; wakes the other end if it sleeps.
  // Errors: RESOURCE_EXHAUSTED (message or outbox over its limit; the message is not sent),
  // DATA_LOSS.
  absl::Status Send(const google::protobuf::MessageLite& message);
  // Writes more of the outbox. Errors: DATA_LOSS.
  absl::Status Flush();
  // Reads the next message. False: there is none now. Errors: DATA_LOSS.
  absl::StatusOr<bool> Receive(google::protobuf::MessageLite* message);

  // Readable when there is something to do after PrepareToSleep() returned true.
  int wake_fd() const { return fds_.own_wake.get(); }
  // True: nothing to receive; the caller may wait for wake_fd() and must then call Awake().
  absl::StatusOr<bool> PrepareToSleep();
  // Ends a sleep: clears wake_fd() and flushes.
  absl::Status Awake();
  void AwakeOnly();
  // Makes this end's wake_fd() readable, from any thread.
  void WakeSelf();

  // How often this end signalled the other.
  uint64_t wakes_sent() const { return wakes_sent_.load(std::memory_order_relaxed); }
  size_t outbox_bytes() const { return outbox_.size() - outbox_sent_; }

 private:
  friend struct ChannelPair;
  friend absl::StatusOr<struct ChannelPair> MakeChannel(const ChannelLimits& limits);
  Channel(ChannelFds fds, Mapping mapping, const ChannelLimits& limits, bool supervisor);

  absl::StatusOr<bool> WriteInPlace(const google::protobuf::MessageLite& message, uint32_t size);
  absl::StatusOr<bool> ReceiveWhole(google::protobuf::MessageLite* message);
  absl::StatusOr<bool> Assemble(google::protobuf::MessageLite* message);
  void ConsumeAndWake(size_t size);
  void PublishAndWake();
  void WakePeer();

  const ChannelLimits limits_;
  ChannelFds fds_;
  Mapping mapping_;
  RingWriter writer_;
  RingReader reader_;
  std::string outbox_;  // frames that wait for space
  size_t outbox_sent_ = 0;
  std::string partial_;  // a message that does not lie in the ring in one piece
  size_t partial_missing_ = 0;
  std::atomic<uint64_t> wakes_sent_{0};
};

struct ChannelPair {
  std::unique_ptr<Channel> supervisor;
  ChannelFds executor_fds;  // close-on-exec; the spawner passes them on by dup2
};
// Errors: of memfd_create, eventfd, mmap; INVALID_ARGUMENT for a ring size that is no power of two.
absl::StatusOr<ChannelPair> MakeChannel(const ChannelLimits& limits = {});

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_RING_CHANNEL_H_
