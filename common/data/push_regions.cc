#include "common/data/push_regions.h"

#include <algorithm>
#include <cstddef>

#include "common/base/error.h"
#include "common/base/reason.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/rpc/status.h"
#include "common/wire/lease_messages.h"

namespace tandem {
namespace {

// Few enough to stay in a core's cache between the copies in and out.
constexpr size_t kCopyBytes = 256 << 10;

absl::Status Protocol(std::string_view what) { return InvalidError(reason::kProtocolError, what); }

}  // namespace

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* PushRegionsCall::Start(
    grpc::CallbackServerContext* context, Parts parts, std::string owner, Limits limits) {
  auto* call = new PushRegionsCall(context, std::move(parts), std::move(owner), limits);
  call->Begin();
  return call;
}

absl::Status PushRegionsCall::OnBatch(std::vector<grpc::ByteBuffer> batch) {
  for (const grpc::ByteBuffer& buffer : batch) {
    rpc::BulkMessage message;
    RETURN_IF_ERROR(rpc::ParseBulk(buffer, &message));
    RETURN_IF_ERROR(TakeMessage(std::move(message)));
  }
  return Write();
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
    Piece piece{header.push_id(), header.length(), header.xxh3(), {}, 0};
    if (header.has_handed()) {
      if (header.handed().file().size() != HandoverDesk::kTokenBytes) {
        return Protocol("a piece is said to be in memory that no token names");
      }
      piece.file = header.handed().file();
      piece.offset = header.handed().offset();
    } else {
      announced_bytes_ += header.length();
    }
    announced_.push_back(std::move(piece));
  }
  return absl::OkStatus();
}

std::vector<std::string_view> PushRegionsCall::TakeUnwritten(uint64_t bytes) {
  std::vector<std::string_view> taken;
  unwritten_bytes_ -= bytes;
  size_t whole = 0;
  while (bytes > 0) {
    std::string_view& front = unwritten_[whole];
    const size_t mine = static_cast<size_t>(std::min<uint64_t>(front.size(), bytes));
    taken.push_back(front.substr(0, mine));
    front.remove_prefix(mine);
    bytes -= mine;
    if (front.empty()) ++whole;
  }
  unwritten_.erase(unwritten_.begin(), unwritten_.begin() + static_cast<ptrdiff_t>(whole));
  return taken;
}

// Views into the last messages may be left; what came before them is not needed any more.
void PushRegionsCall::FreeWritten() {
  uint64_t kept = 0;
  auto first = holding_.end();
  while (first != holding_.begin() && kept < unwritten_bytes_) kept += (--first)->data_bytes;
  holding_.erase(holding_.begin(), first);
}

absl::Status PushRegionsCall::CheckPiece(const Piece& piece, const Region& region) const {
  if (region.xxh3 == piece.xxh3) return absl::OkStatus();
  return Error(absl::StatusCode::kDataLoss, reason::kChecksumMismatch,
               StrCat("piece ", piece.push_id, " arrived with other bytes than it left"));
}

absl::Status PushRegionsCall::Write() {
  if (appender_ == nullptr) {
    ASSIGN_OR_RETURN(appender_, parts_.segments->NewAppender(owner_));
  }
  uint64_t room = limits_.copy_bytes_max;
  while (unwritten_bytes_ > 0 || Unfinished()) {
    if (Unfinished()) {
      if (room == 0) break;
      RETURN_IF_ERROR(CopyHanded(&room));
      continue;
    }
    if (streaming_) {
      RETURN_IF_ERROR(WriteOn());
      continue;
    }
    size_t count = 0;
    uint64_t bytes = 0;
    while (count < announced_.size() && announced_[count].file.empty() &&
           announced_[count].length <= unwritten_bytes_ - bytes) {
      bytes += announced_[count++].length;
    }
    if (count > 0) {
      RETURN_IF_ERROR(WriteWholePieces(count, bytes));
    } else if (announced_.front().length > limits_.whole_bytes_max) {
      RETURN_IF_ERROR(appender_->BeginPiece(announced_.front().length));
      streaming_ = true;
      streamed_ = 0;
    } else {
      break;
    }
  }
  FreeWritten();
  return absl::OkStatus();
}

absl::Status PushRegionsCall::WriteOn() {
  const Piece piece = announced_.front();
  const uint64_t bytes = std::min(unwritten_bytes_, piece.length - streamed_);
  RETURN_IF_ERROR(appender_->AddToPiece(TakeUnwritten(bytes)));
  streamed_ += bytes;
  if (streamed_ < piece.length) return absl::OkStatus();
  streaming_ = false;
  announced_.pop_front();
  ASSIGN_OR_RETURN(const Region region, appender_->EndPiece());
  RETURN_IF_ERROR(CheckPiece(piece, region));
  AnswerOnceDurable({piece}, {region});
  return absl::OkStatus();
}

absl::Status PushRegionsCall::CopyHanded(uint64_t* room) {
  if (from_ == nullptr) RETURN_IF_ERROR(BeginCopy());
  while (from_ != nullptr && *room > 0) {
    const Piece& piece = announced_.front();
    const size_t bytes =
        static_cast<size_t>(std::min<uint64_t>({kCopyBytes, *room, piece.length - streamed_}));
    if (!from_->ReadAt(piece.offset + streamed_, copied_.get(), bytes).ok()) {
      appender_->DropPiece();
      Refuse(v1::PUSH_REFUSAL_TRUNCATED);
      break;
    }
    const std::string_view part(copied_.get(), bytes);
    RETURN_IF_ERROR(appender_->AddToPiece(absl::MakeConstSpan(&part, 1)));
    *room -= bytes;
    streamed_ += bytes;
    if (streamed_ == piece.length) return EndCopy();
  }
  return absl::OkStatus();
}

absl::Status PushRegionsCall::BeginCopy() {
  const Piece& piece = announced_.front();
  if (parts_.desk != nullptr) from_ = parts_.desk->Find(piece.file);
  if (from_ == nullptr || !from_->Holds(piece.offset, piece.length)) {
    Refuse(from_ == nullptr ? v1::PUSH_REFUSAL_NOT_HANDED_OVER : v1::PUSH_REFUSAL_TRUNCATED);
    return absl::OkStatus();
  }
  if (copied_ == nullptr) copied_ = std::make_unique<char[]>(kCopyBytes);
  streamed_ = 0;
  return appender_->BeginPiece(piece.length);
}

absl::Status PushRegionsCall::EndCopy() {
  const Piece piece = announced_.front();
  if (appender_->PieceSum() != piece.xxh3) {
    appender_->DropPiece();
    Refuse(v1::PUSH_REFUSAL_CHECKSUM_MISMATCH);
    return absl::OkStatus();
  }
  from_ = nullptr;
  announced_.pop_front();
  ASSIGN_OR_RETURN(const Region region, appender_->EndPiece());
  AnswerOnceDurable({piece}, {region});
  return absl::OkStatus();
}

// The piece in front.
void PushRegionsCall::Refuse(v1::PushRefusal why) {
  const uint64_t id = announced_.front().push_id;
  from_ = nullptr;
  announced_.pop_front();
  Advance([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    v1::RefusedPush* refused = answers_.add_refused();
    refused->set_push_id(id);
    refused->set_why(why);
  });
}

absl::Status PushRegionsCall::WriteWholePieces(size_t count, uint64_t bytes) {
  const auto end = announced_.begin() + static_cast<ptrdiff_t>(count);
  const std::vector<Piece> pieces(announced_.begin(), end);
  announced_.erase(announced_.begin(), end);
  std::vector<uint64_t> lengths;
  lengths.reserve(count);
  for (const Piece& piece : pieces) lengths.push_back(piece.length);
  ASSIGN_OR_RETURN(const std::vector<Region> regions,
                   appender_->AppendPieces(TakeUnwritten(bytes), lengths));
  for (size_t i = 0; i < count; ++i) RETURN_IF_ERROR(CheckPiece(pieces[i], regions[i]));
  AnswerOnceDurable(pieces, regions);
  return absl::OkStatus();
}

void PushRegionsCall::AnswerOnceDurable(const std::vector<Piece>& pieces,
                                        const std::vector<Region>& regions) {
  {
    absl::MutexLock lock(&mu_);
    for (size_t i = 0; i < pieces.size(); ++i) {
      unsynced_.push_back({pieces[i].push_id, regions[i]});
    }
    if (syncing_) return;
    syncing_ = true;
  }
  parts_.sync_pool->Run([this] { SyncAndAnswer(); });
}

void PushRegionsCall::SyncAndAnswer() {
  bool more = true;
  while (more) {
    std::vector<Written> batch;
    {
      absl::MutexLock lock(&mu_);
      batch.swap(unsynced_);
    }
    std::vector<SegmentExtent> extents;
    for (const Written& written : batch) {
      const uint64_t end = written.region.offset + written.region.length;
      if (extents.empty() || extents.back().segment != written.region.segment) {
        extents.push_back({written.region.segment, end});
      } else {
        extents.back().end = end;  // An appender goes on at the end.
      }
    }
    const absl::Status status = parts_.segments->SyncUpTo(extents);
    if (!status.ok()) {
      if (parts_.on_sync_failed) parts_.on_sync_failed(status);
      context_->TryCancel();
    }
    Advance([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      for (const Written& written : batch) {
        if (!status.ok()) break;
        v1::PushedRegion* pushed = answers_.add_pushed();
        pushed->set_push_id(written.push_id);
        wire::Encode(written.region, pushed->mutable_region());
      }
      more = syncing_ = status.ok() && !unsynced_.empty();
    });
  }
}

void PushRegionsCall::OnEnd(const absl::Status& status) {
  appender_.reset();
  Advance([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    ended_ = true;
    end_ = status;
    if (end_.ok() && !announced_.empty()) {
      end_ = Protocol("the stream ended before all announced bytes had come");
    }
  });
}

void PushRegionsCall::OnWriteDone(bool ok) {
  Advance([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    writing_ = false;
    if (!ok) answers_.Clear();  // Nobody listens; the intake ends by itself.
  });
}

void PushRegionsCall::Advance(absl::FunctionRef<void()> change) {
  bool write = false;
  bool finish = false;
  absl::Status end;
  {
    absl::MutexLock lock(&mu_);
    change();
    if (writing_ || finished_) return;
    if (answers_.pushed_size() > 0 || answers_.refused_size() > 0) {
      outgoing_ = rpc::FrameMessage(answers_);
      answers_.Clear();
      writing_ = write = true;
    } else if (ended_ && !syncing_) {
      finished_ = finish = true;
      end = end_;
    }
  }
  if (write) StartWrite(&outgoing_);
  if (finish) Finish(rpc::ToGrpc(end));
}

}  // namespace tandem
