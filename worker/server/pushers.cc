#include "worker/server/pushers.h"

#include <algorithm>
#include <utility>

#include "common/base/log.h"
#include "common/base/strings.h"
#include "common/rpc/channel.h"

namespace tandem::worker {
namespace {

constexpr size_t kLargeBytes = 4 << 20;
constexpr uint32_t kLargeLanes = 2;

}  // namespace

Pushers::Kind Pushers::KindFor(const std::string& owner, uint64_t bytes) const {
  if (bytes < kLargeBytes) return {owner, 0};
  Kind best;
  uint64_t least = 0;
  for (uint32_t lane = 1; lane <= kLargeLanes; ++lane) {
    const auto current = current_.find({owner, lane});
    const uint64_t waits =
        current == current_.end() ? 0 : streams_.at(current->second).outstanding_bytes;
    if (lane > 1 && waits >= least) continue;
    best = {owner, lane};
    least = waits;
  }
  return best;
}

Pushers::Stream& Pushers::StreamOf(const Kind& kind) {
  const auto [current, is_new] = current_.try_emplace(kind, last_stream_ + 1);
  const uint64_t number = current->second;
  Stream& stream = streams_[number];
  if (!is_new) return stream;
  last_stream_ = number;
  stream.kind = kind;
  RegionPusher::Callbacks callbacks;
  callbacks.on_pushed = [queue = queue_, number](std::vector<PushedPiece> pieces) {
    queue->Push(tandem::worker::Pushed{number, std::move(pieces)});
  };
  callbacks.on_broken = [queue = queue_, number](const absl::Status& why) {
    queue->Push(PushesBroken{number, why});
  };
  stream.pusher = RegionPusher::Start(rpc::ConnectForCallbacks(address_, rpc::Traffic::kBulk),
                                      kind.owner, std::move(callbacks));
  return stream;
}

void Pushers::Push(const std::string& owner, const What& what, std::string_view bytes,
                   std::shared_ptr<const void> keep_alive, HandedPlace handed) {
  Stream& stream = StreamOf(KindFor(owner, bytes.size()));
  stream.outstanding[what.push] = {what, clock_->Now(), bytes.size()};
  stream.outstanding_bytes += bytes.size();
  bytes_pushed_ += bytes.size();
  stream.pusher->Push(what.push, bytes, std::move(keep_alive), std::move(handed));
}

void Pushers::Handle(tandem::worker::Pushed event, std::vector<Event>* events) {
  const auto found = streams_.find(event.stream);
  if (found == streams_.end()) return;
  const MonoTime now = clock_->Now();
  for (PushedPiece& piece : event.pieces) {
    const auto begun = found->second.outstanding.find(piece.push_id);
    if (begun == found->second.outstanding.end()) continue;
    const Stream::Begun& was = begun->second;
    if (piece.handed_over) bytes_handed_over_ += piece.region.length;
    tandem::v1::Usage* usage = usage_->Of(was.what.job.value(), was.what.device);
    usage->set_pushes(usage->pushes() + 1);
    const int64_t took = std::max<int64_t>(absl::ToInt64Nanoseconds(now - was.at), 0);
    usage->set_push_ns(usage->push_ns() + static_cast<uint64_t>(took));
    found->second.outstanding_bytes -= was.bytes;
    found->second.outstanding.erase(begun);
    events->push_back(PushDone{piece.push_id, piece.region});
  }
}

void Pushers::Handle(PushesBroken event, std::vector<Event>* events) {
  const auto found = streams_.find(event.stream);
  if (found == streams_.end()) return;
  TLOG(Warning, "pushes_broken", "owner", found->second.kind.owner, "outstanding",
       found->second.outstanding.size(), "why", ToStd(event.status.message()));
  for (const auto& [push, begun] : found->second.outstanding) events->push_back(PushFailed{push});
  current_.erase(found->second.kind);
  streams_.erase(found);
}

}  // namespace tandem::worker
