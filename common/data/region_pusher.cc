#include "common/data/region_pusher.h"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <map>
#include <set>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/data/xxh3.h"
#include "common/rpc/bulk.h"
#include "common/rpc/channel.h"
#include "common/rpc/owner.h"
#include "common/rpc/status.h"
#include "common/wire/lease_messages.h"
#include "grpcpp/client_context.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/support/client_callback.h"
#include "tandem/v1/data.pb.h"

namespace tandem {
namespace {

constexpr char kPushRegions[] = "/tandem.v1.Data/PushRegions";
// Headers in one message; a header is at most 70 bytes, and the parser takes 64 KiB of them.
constexpr int kHeadersMax = 512;

void ReleaseKeepAlive(void* holder) { delete static_cast<std::shared_ptr<const void>*>(holder); }

grpc::Slice Borrow(std::string_view bytes, const std::shared_ptr<const void>& keep_alive) {
  return rpc::BorrowSlice(bytes, &ReleaseKeepAlive, new std::shared_ptr<const void>(keep_alive));
}

}  // namespace

class RegionPusher::Call final : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                                 public std::enable_shared_from_this<Call> {
 public:
  struct Piece {
    uint64_t push_id = 0;
    uint64_t xxh3 = 0;
    std::string_view bytes;
    std::shared_ptr<const void> keep_alive;
    HandedPlace handed;
  };

  Call(std::shared_ptr<grpc::Channel> channel, const std::string& owner, Callbacks callbacks)
      : callbacks_(std::move(callbacks)), stub_(std::move(channel)) {
    rpc::SetOwner(&context_, owner);
  }

  void Begin() {
    self_ = shared_from_this();
    stub_.PrepareBidiStreamingCall(&context_, kPushRegions, grpc::StubOptions(), this);
    AddHold();  // For writes that are started from outside of callbacks.
    StartRead(&incoming_);
    StartCall();
  }

  void Push(Piece piece);
  void Close();
  void Cancel() {
    context_.TryCancel();
    Close();
  }

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnWritesDoneDone(bool ok) override {}
  void OnDone(const grpc::Status& status) override;

 private:
  void Advance();
  grpc::ByteBuffer NextMessage() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void SendInstead(const v1::RefusedPush& refused);

  const Callbacks callbacks_;
  grpc::TemplatedGenericStub<grpc::ByteBuffer, grpc::ByteBuffer> stub_;
  grpc::ClientContext context_;
  grpc::ByteBuffer incoming_;  // Of the outstanding read.
  grpc::ByteBuffer outgoing_;  // Of the outstanding write.
  std::shared_ptr<Call> self_;

  absl::Mutex mu_;
  std::deque<Piece> queue_ ABSL_GUARDED_BY(mu_);
  std::map<uint64_t, Piece> handed_ ABSL_GUARDED_BY(mu_);  // Announced and not answered.
  std::set<std::string> not_taken_ ABSL_GUARDED_BY(mu_);   // Tokens that were refused.
  size_t sent_of_front_ ABSL_GUARDED_BY(mu_) = 0;
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  bool closing_ ABSL_GUARDED_BY(mu_) = false;
  bool broken_ ABSL_GUARDED_BY(mu_) = false;
  bool over_ ABSL_GUARDED_BY(mu_) = false;  // No more writes: it broke or was closed.
};

void RegionPusher::Call::Push(Piece piece) {
  {
    absl::MutexLock lock(&mu_);
    if (over_) return;  // on_broken tells.
    if (not_taken_.contains(piece.handed.file)) piece.handed = {};
    queue_.push_back(std::move(piece));
  }
  Advance();
}

void RegionPusher::Call::Close() {
  {
    absl::MutexLock lock(&mu_);
    closing_ = true;
  }
  Advance();
}

grpc::ByteBuffer RegionPusher::Call::NextMessage() {
  v1::PushRequest headers;
  std::vector<grpc::Slice> data;
  size_t room = rpc::kChunkBytesMax;
  while (room > 0 && !queue_.empty() && headers.headers_size() < kHeadersMax) {
    Piece& piece = queue_.front();
    if (sent_of_front_ == 0) {
      v1::PushHeader* header = headers.add_headers();
      header->set_push_id(piece.push_id);
      header->set_length(piece.bytes.size());
      header->set_xxh3(piece.xxh3);
      if (!piece.handed.file.empty()) {
        header->mutable_handed()->set_file(piece.handed.file);
        header->mutable_handed()->set_offset(piece.handed.offset);
        handed_.emplace(piece.push_id, std::move(piece));
        queue_.pop_front();
        continue;
      }
    }
    const size_t size = std::min(room, piece.bytes.size() - sent_of_front_);
    data.push_back(Borrow(piece.bytes.substr(sent_of_front_, size), piece.keep_alive));
    room -= size;
    sent_of_front_ += size;
    if (sent_of_front_ == piece.bytes.size()) {
      queue_.pop_front();
      sent_of_front_ = 0;
    }
  }
  return rpc::FrameBulk(headers.SerializeAsString(), data);
}

void RegionPusher::Call::Advance() {
  bool write = false;
  bool done = false;
  bool release = false;
  {
    absl::MutexLock lock(&mu_);
    if (writing_ || over_) return;
    if (broken_) {
      over_ = release = true;
    } else if (!queue_.empty()) {
      outgoing_ = NextMessage();
      writing_ = write = true;
    } else if (closing_ && handed_.empty()) {
      over_ = done = release = true;
    }
  }
  if (write) StartWrite(&outgoing_);
  if (done) StartWritesDone();
  if (release) RemoveHold();
}

void RegionPusher::Call::OnWriteDone(bool ok) {
  {
    absl::MutexLock lock(&mu_);
    writing_ = false;
    if (!ok) broken_ = true;
  }
  Advance();
}

void RegionPusher::Call::OnReadDone(bool ok) {
  if (!ok) {
    {
      absl::MutexLock lock(&mu_);
      broken_ = true;
    }
    Advance();
    return;
  }
  v1::PushResponse response;
  absl::Status status = rpc::ParseMessage(incoming_, &response);
  std::vector<PushedPiece> pieces;
  for (const v1::PushedRegion& pushed : response.pushed()) {
    pieces.push_back({pushed.push_id(), {}});
    if (status.ok()) status = wire::Decode(pushed.region(), &pieces.back().region);
  }
  {
    std::vector<Piece> answered;  // Let go of without the lock.
    absl::MutexLock lock(&mu_);
    for (PushedPiece& piece : pieces) {
      const auto found = handed_.find(piece.push_id);
      if (found == handed_.end()) continue;
      piece.handed_over = true;
      answered.push_back(std::move(found->second));
      handed_.erase(found);
    }
  }
  for (const v1::RefusedPush& refused : response.refused()) SendInstead(refused);
  incoming_.Clear();
  Advance();
  if (status.ok() && !pieces.empty()) callbacks_.on_pushed(std::move(pieces));
  if (!status.ok()) context_.TryCancel();
  StartRead(&incoming_);
}

// The master could not have a piece from where it was said to be.
void RegionPusher::Call::SendInstead(const v1::RefusedPush& refused) {
  std::string file;
  {
    absl::MutexLock lock(&mu_);
    const auto found = handed_.find(refused.push_id());
    if (found == handed_.end()) return;
    Piece piece = std::move(found->second);
    handed_.erase(found);
    file = std::exchange(piece.handed, {}).file;
    if (!not_taken_.insert(file).second) file.clear();
    queue_.push_back(std::move(piece));
  }
  if (file.empty()) return;
  TLOG(Warning, "handover_not_taken", "push", refused.push_id(), "why",
       v1::PushRefusal_Name(refused.why()), "then", "its bytes are sent");
}

void RegionPusher::Call::OnDone(const grpc::Status& status) {
  std::deque<Piece> dropped;
  std::map<uint64_t, Piece> unanswered;
  {
    absl::MutexLock lock(&mu_);
    dropped.swap(queue_);
    unanswered.swap(handed_);
  }
  callbacks_.on_broken(rpc::FromGrpc(status));
  self_.reset();
}

std::unique_ptr<RegionPusher> RegionPusher::Start(std::shared_ptr<grpc::Channel> channel,
                                                  const std::string& owner, Callbacks callbacks) {
  auto call = std::make_shared<Call>(std::move(channel), owner, std::move(callbacks));
  call->Begin();
  return std::unique_ptr<RegionPusher>(new RegionPusher(std::move(call)));
}

RegionPusher::~RegionPusher() { call_->Cancel(); }

void RegionPusher::Push(uint64_t push_id, std::string_view bytes,
                        std::shared_ptr<const void> keep_alive, HandedPlace handed) {
  CHECK(push_id != 0 && !bytes.empty());
  call_->Push({push_id, Xxh3(bytes), bytes, std::move(keep_alive), std::move(handed)});
}

void RegionPusher::Close() { call_->Close(); }

}  // namespace tandem
