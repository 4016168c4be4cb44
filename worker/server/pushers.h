// Pushers: the streams that carry staged outputs into the master's segments, three an owner: two
// for large pieces, which the master then takes side by side, and one for all others, which do not
// wait for hundreds of megabytes before them.
//
//   pushers.Push(owner, push, bytes, staging);
//   pushers.Handle(event, &done, &failed);       // Pushed and PushesBroken from the queue
//
// When a stream breaks, every push on it has failed; the next one opens a new stream on a new
// channel.
//
// Thread-safety: the loop's thread. Ownership: bytes are held by `keep_alive` until gRPC has done
// with them.
#ifndef TANDEM_WORKER_SERVER_PUSHERS_H_
#define TANDEM_WORKER_SERVER_PUSHERS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/data/region_pusher.h"
#include "common/wire/usage.h"
#include "worker/core/events.h"
#include "worker/server/event_queue.h"

namespace tandem::worker {

class Pushers {
 public:
  // What pushes take is added to `usage`.
  Pushers(std::string address, std::shared_ptr<EventQueue> queue, const Clock* clock,
          wire::UsageSums* usage)
      : address_(std::move(address)), queue_(std::move(queue)), clock_(clock), usage_(usage) {}

  struct What {
    PushId push = 0;
    JobId job;
    tandem::v1::DeviceKind device = tandem::v1::DEVICE_KIND_UNSPECIFIED;
  };
  void Push(const std::string& owner, const What& what, std::string_view bytes,
            std::shared_ptr<const void> keep_alive, HandedPlace handed);
  // Adds what the core is to hear.
  void Handle(Pushed event, std::vector<Event>* events);
  void Handle(PushesBroken event, std::vector<Event>* events);

  uint64_t bytes_pushed() const { return bytes_pushed_; }
  // Of pieces that the master copied by itself and has answered.
  uint64_t bytes_handed_over() const { return bytes_handed_over_; }

 private:
  struct Kind {
    std::string owner;
    uint32_t lane = 0;  // 0: of small pieces
    friend auto operator<=>(const Kind&, const Kind&) = default;
  };
  struct Stream {
    Kind kind;
    std::unique_ptr<RegionPusher> pusher;
    struct Begun {
      What what;
      MonoTime at;
      uint64_t bytes = 0;
    };
    std::map<PushId, Begun> outstanding;
    uint64_t outstanding_bytes = 0;
  };
  // The lane that has least to do.
  Kind KindFor(const std::string& owner, uint64_t bytes) const;
  Stream& StreamOf(const Kind& kind);

  const std::string address_;
  const std::shared_ptr<EventQueue> queue_;
  const Clock* const clock_;
  wire::UsageSums* const usage_;
  std::map<uint64_t, Stream> streams_;  // by number
  std::map<Kind, uint64_t> current_;
  uint64_t last_stream_ = 0;
  uint64_t bytes_pushed_ = 0;
  uint64_t bytes_handed_over_ = 0;
};

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_SERVER_PUSHERS_H_
