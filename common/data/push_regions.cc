#include "common/data/push_regions.h"

#include "common/base/error.h"
#include "common/base/reason.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/rpc/status.h"
#include "common/wire/lease_messages.h"

namespace tandem {
namespace {

absl::Status Protocol(std::string_view what) { return InvalidError(reason::kProtocolError, what); }

}  // namespace

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* PushRegionsCall::Start(
    IoPool* pool, SegmentStore* segments, std::string owner, Limits limits) {
  auto* call = new PushRegionsCall(pool, segments, std::move(owner), limits);
  call->Begin();
  return call;
}

absl::Status PushRegionsCall::OnBatch(std::vector<grpc::ByteBuffer> batch) {
  for (const grpc::ByteBuffer& buffer : batch) {
    rpc::BulkMessage message;
    RETURN_IF_ERROR(rpc::ParseBulk(buffer, &message));
    RETURN_IF_ERROR(TakeMessage(std::move(message)));
  }
  RETURN_IF_ERROR(WriteWholePieces());
  return absl::OkStatus();
}

absl::Status PushRegionsCall::TakeMessage(rpc::BulkMessage message) {
  if (!message.fields.empty()) RETURN_IF_ERROR(TakeHeaders(message.fields));
  if (message.data_bytes == 0) return absl::OkStatus();
  if (message.data_bytes > announced_bytes_) {
    return Protocol("there are more bytes than the pieces announced");
  }
  announced_bytes_ -= message.data_bytes;
  unwritten_bytes_ += message.data_bytes;
  unwritten_.insert(unwritten_.end(), message.data.begin(), message.data.end());
  holding_.push_back(std::move(message));
  return absl::OkStatus();
}

absl::Status PushRegionsCall::TakeHeaders(const std::string& fields) {
  v1::PushRequest request;
  if (!request.ParseFromString(fields)) return Protocol("a push's headers could not be read");
  for (const v1::PushHeader& header : request.headers()) {
    if (header.push_id() == 0 || header.length() == 0) {
      return Protocol("a piece's header lacks push_id or length");
    }
    if (header.length() > limits_.piece_bytes_max) {
      return Error(absl::StatusCode::kResourceExhausted, reason::kLimitExceeded,
                   StrCat("a piece of ", HumanSize(header.length()), " is over the limit of ",
                          HumanSize(limits_.piece_bytes_max)));
    }
    if (announced_.size() >= limits_.announced_max)
      return Protocol("too many pieces are announced");
    announced_.push_back({header.push_id(), header.length(), header.xxh3()});
    announced_bytes_ += header.length();
  }
  return absl::OkStatus();
}

absl::Status PushRegionsCall::WriteWholePieces() {
  std::vector<Piece> pieces;
  std::vector<uint64_t> lengths;
  uint64_t bytes = 0;
  while (!announced_.empty() && bytes + announced_.front().length <= unwritten_bytes_) {
    bytes += announced_.front().length;
    lengths.push_back(announced_.front().length);
    pieces.push_back(announced_.front());
    announced_.pop_front();
  }
  if (pieces.empty()) return absl::OkStatus();
  std::vector<std::string_view> rest;
  std::vector<std::string_view> slices;
  uint64_t taken = 0;
  for (const std::string_view view : unwritten_) {
    const size_t mine = static_cast<size_t>(std::min<uint64_t>(view.size(), bytes - taken));
    if (mine > 0) slices.push_back(view.substr(0, mine));
    if (mine < view.size()) rest.push_back(view.substr(mine));
    taken += mine;
  }
  if (appender_ == nullptr) {
    ASSIGN_OR_RETURN(appender_, segments_->NewAppender(owner_));
  }
  ASSIGN_OR_RETURN(const std::vector<Region> regions, appender_->AppendPieces(slices, lengths));
  unwritten_ = std::move(rest);
  unwritten_bytes_ -= bytes;
  // Views into the last message may be left; what came before it is written.
  if (unwritten_.empty()) {
    holding_.clear();
  } else if (unwritten_bytes_ <= holding_.back().data_bytes) {
    holding_.erase(holding_.begin(), holding_.end() - 1);
  }
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (regions[i].xxh3 != pieces[i].xxh3) {
      return Error(absl::StatusCode::kDataLoss, reason::kChecksumMismatch,
                   StrCat("piece ", pieces[i].push_id, " arrived with other bytes than it left"));
    }
  }
  Answer(pieces, regions);
  return absl::OkStatus();
}

void PushRegionsCall::Answer(const std::vector<Piece>& pieces, const std::vector<Region>& regions) {
  {
    absl::MutexLock lock(&mu_);
    for (size_t i = 0; i < pieces.size(); ++i) {
      v1::PushedRegion* pushed = answers_.add_pushed();
      pushed->set_push_id(pieces[i].push_id);
      wire::Encode(regions[i], pushed->mutable_region());
    }
  }
  Advance();
}

void PushRegionsCall::OnEnd(const absl::Status& status) {
  appender_.reset();
  {
    absl::MutexLock lock(&mu_);
    ended_ = true;
    end_ = status;
    if (end_.ok() && !announced_.empty()) {
      end_ = Protocol("the stream ended before all announced bytes had come");
    }
  }
  Advance();
}

void PushRegionsCall::OnWriteDone(bool ok) {
  {
    absl::MutexLock lock(&mu_);
    writing_ = false;
    if (!ok) answers_.Clear();  // Nobody listens; the intake ends by itself.
  }
  Advance();
}

void PushRegionsCall::Advance() {
  bool write = false;
  bool finish = false;
  absl::Status end;
  {
    absl::MutexLock lock(&mu_);
    if (writing_ || finished_) return;
    if (answers_.pushed_size() > 0) {
      outgoing_ = rpc::FrameMessage(answers_);
      answers_.Clear();
      writing_ = write = true;
    } else if (ended_) {
      finished_ = finish = true;
      end = end_;
    }
  }
  if (write) StartWrite(&outgoing_);
  if (finish) Finish(rpc::ToGrpc(end));
}

}  // namespace tandem
