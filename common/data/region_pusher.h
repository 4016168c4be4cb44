// RegionPusher: one stream over which a worker sends output pieces of one owner into the master's
// segments.
//
//   auto pusher = RegionPusher::Start(channel, owner, {.on_pushed = …, .on_broken = …});
//   pusher->Push(id, bytes, keep_alive);          // on_pushed({{id, region}}) once it is written
//
// A piece in memory that was handed over to the master (handover.h) is only announced, and copied
// by the master itself. Where the master refuses that, the bytes are sent like all others, and so
// are those of every later piece in that memory.
//
// One write is outstanding; what is pushed meanwhile goes into the next message (at most 1 MiB of
// data), straight from the caller's memory. When the stream breaks, on_broken is called once and
// everything not answered must be pushed again on a new one.
//
// Thread-safety: safe from any thread. Callbacks come from gRPC's threads, one at a time, without
// a lock held; none comes after on_broken.
// Ownership: gRPC may read pushed bytes until the piece is answered or the stream is over, and its
// transport a moment longer: `keep_alive` is held that long. The stream lives until it is over,
// also when the RegionPusher is gone (which cancels it).
#ifndef TANDEM_COMMON_DATA_REGION_PUSHER_H_
#define TANDEM_COMMON_DATA_REGION_PUSHER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "common/model/outputs.h"
#include "grpcpp/channel.h"

namespace tandem {

struct PushedPiece {
  uint64_t push_id = 0;
  Region region;
  bool handed_over = false;  // No byte of it was sent.
};

// Where the master can copy a piece from.
struct HandedPlace {
  std::string file;  // Handover::token(); "": nowhere.
  uint64_t offset = 0;
};

class RegionPusher {
 public:
  struct Callbacks {
    std::function<void(std::vector<PushedPiece>)> on_pushed;
    // OK after Close() and the last answer.
    std::function<void(const absl::Status&)> on_broken;
  };

  static std::unique_ptr<RegionPusher> Start(std::shared_ptr<grpc::Channel> channel,
                                             const std::string& owner, Callbacks callbacks);
  ~RegionPusher();

  // REQUIRES: push_id != 0 and not used on this stream; bytes is not empty and does not change.
  void Push(uint64_t push_id, std::string_view bytes, std::shared_ptr<const void> keep_alive,
            HandedPlace handed = {});
  // No more pushes: the stream ends once all are answered.
  void Close();

 private:
  class Call;
  explicit RegionPusher(std::shared_ptr<Call> call) : call_(std::move(call)) {}
  const std::shared_ptr<Call> call_;
};

}  // namespace tandem

#endif  // TANDEM_COMMON_DATA_REGION_PUSHER_H_
