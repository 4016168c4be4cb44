#include <algorithm>

#include "common/base/check.h"
#include "common/base/checked_math.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/data/segment.h"
#include "common/data/segment_store.h"
#include "common/data/xxh3.h"

namespace tandem {
namespace {

uint64_t TotalSize(absl::Span<const std::string_view> slices) {
  uint64_t total = 0;
  for (const std::string_view slice : slices) total += slice.size();
  return total;
}

// Checksums of consecutive pieces of a text that comes in slices.
class PieceChecksums {
 public:
  explicit PieceChecksums(absl::Span<const std::string_view> slices) : slices_(slices) {}

  uint64_t Next(uint64_t length) {
    if (slice_ < slices_.size() && slices_[slice_].size() - offset_ >= length) {
      const uint64_t sum = Xxh3(slices_[slice_].substr(offset_, length));
      offset_ += length;
      return sum;
    }
    stream_.Reset();
    while (length > 0) {
      const std::string_view rest = slices_[slice_].substr(offset_, length);
      stream_.Update(rest);
      length -= rest.size();
      offset_ += rest.size();
      if (offset_ == slices_[slice_].size()) {
        ++slice_;
        offset_ = 0;
      }
    }
    return stream_.Digest();
  }

 private:
  const absl::Span<const std::string_view> slices_;
  size_t slice_ = 0;
  size_t offset_ = 0;
  Xxh3Stream stream_;
};

}  // namespace

struct SegmentAppender::Piece {
  uint64_t begin = 0;   // The segment's end before it.
  uint64_t offset = 0;  // Where its bytes begin.
  uint64_t length = 0;
  uint64_t written = 0;
  Xxh3Stream hash;
};

SegmentAppender::SegmentAppender(SegmentStore* store, std::string owner)
    : store_(store), owner_(std::move(owner)) {}

SegmentAppender::~SegmentAppender() {
  DropPiece();
  if (segment_ != nullptr) store_->GiveBack(std::move(segment_));
}

void SegmentAppender::DropPiece() {
  if (piece_ == nullptr) return;
  store_->SubtractBytes(piece_->offset + piece_->length - piece_->begin);
  segment_->written_out = std::min(segment_->written_out, piece_->begin);
  piece_.reset();
  store_->EndUse(segment_.get());
}

absl::Status SegmentAppender::BeginPiece(uint64_t length) {
  CHECK(piece_ == nullptr && length > 0);
  RETURN_IF_ERROR(PrepareSegment());
  auto piece = std::make_unique<Piece>();
  piece->begin = segment_->written;
  piece->offset = RoundUp(piece->begin, store_->limits_.alignment);
  piece->length = length;
  const uint64_t end = piece->offset + length;
  if (end < piece->offset) {
    store_->EndUse(segment_.get());
    return Error(absl::StatusCode::kInvalidArgument, reason::kTooLarge,
                 StrCat("a piece of ", length, " bytes is beyond every file"));
  }
  if (absl::Status status = store_->AddBytes(end - piece->begin); !status.ok()) {
    store_->EndUse(segment_.get());
    return status;
  }
  piece_ = std::move(piece);
  absl::Status status = ReserveUpTo(end);
  if (!status.ok()) DropPiece();
  return status;
}

absl::Status SegmentAppender::AddToPiece(absl::Span<const std::string_view> slices) {
  CHECK(piece_ != nullptr);
  const uint64_t bytes = TotalSize(slices);
  CHECK(bytes <= piece_->length - piece_->written);
  const uint64_t at = piece_->offset + piece_->written;
  absl::Status status = WriteFully(*segment_->file, at, slices);
  if (!status.ok()) {
    DropPiece();
    return WithContext(status, StrCat("appending to segment ", segment_->id));
  }
  for (const std::string_view slice : slices) piece_->hash.Update(slice);
  piece_->written += bytes;
  StartWriteoutUpTo(at + bytes);
  return absl::OkStatus();
}

absl::StatusOr<Region> SegmentAppender::EndPiece() {
  CHECK(piece_ != nullptr && piece_->written == piece_->length);
  const Region region{segment_->id, piece_->offset, piece_->length, piece_->hash.Digest()};
  segment_->written = piece_->offset + piece_->length;
  piece_.reset();
  store_->EndUse(segment_.get());
  return region;
}

uint64_t SegmentAppender::PieceSum() const {
  CHECK(piece_ != nullptr);
  return piece_->hash.Digest();
}

void SegmentAppender::StartWriteoutUpTo(uint64_t end) {
  SegmentStore::Segment& segment = *segment_;
  if (end - segment.written_out < store_->limits_.writeout_bytes) return;
  segment.file->StartWriteout(segment.written_out, end - segment.written_out);
  segment.written_out = end;
}

absl::StatusOr<Region> SegmentAppender::Append(absl::Span<const std::string_view> slices) {
  const uint64_t length = TotalSize(slices);
  ASSIGN_OR_RETURN(const std::vector<Region> regions,
                   AppendPieces(slices, absl::MakeConstSpan(&length, 1)));
  return regions.front();
}

absl::StatusOr<std::vector<Region>> SegmentAppender::AppendPieces(
    absl::Span<const std::string_view> slices, absl::Span<const uint64_t> lengths) {
  const uint64_t bytes = TotalSize(slices);
  uint64_t sum = 0;
  for (const uint64_t length : lengths) sum += length;
  CHECK_EQ(sum, bytes);
  RETURN_IF_ERROR(PrepareSegment());
  absl::StatusOr<uint64_t> written = WriteAtEnd(slices, bytes);
  store_->EndUse(segment_.get());
  RETURN_IF_ERROR(written.status());
  uint64_t offset = *written;
  std::vector<Region> regions;
  regions.reserve(lengths.size());
  PieceChecksums checksums(slices);
  for (const uint64_t length : lengths) {
    regions.push_back({segment_->id, offset, length, checksums.Next(length)});
    offset += length;
  }
  return regions;
}

// Returns where the bytes are.
absl::StatusOr<uint64_t> SegmentAppender::WriteAtEnd(absl::Span<const std::string_view> slices,
                                                     uint64_t bytes) {
  CHECK(piece_ == nullptr);
  const SegmentLimits& limits = store_->limits_;
  if (bytes > limits.append_bytes_max) {
    return Error(
        absl::StatusCode::kInvalidArgument, reason::kTooLarge,
        StrCat("an append of ", bytes, " bytes is over the limit of ", limits.append_bytes_max));
  }
  SegmentStore::Segment& segment = *segment_;
  const uint64_t begin = segment.written;
  if (bytes == 0) return begin;
  const uint64_t offset = RoundUp(begin, limits.alignment);
  const uint64_t end = offset + bytes;
  RETURN_IF_ERROR(store_->AddBytes(end - begin));
  absl::Status status = ReserveUpTo(end);
  if (status.ok()) status = WriteFully(*segment.file, offset, slices);
  if (!status.ok()) {
    store_->SubtractBytes(end - begin);
    return WithContext(status, StrCat("appending ", bytes, " bytes to segment ", segment.id));
  }
  segment.written = end;
  StartWriteoutUpTo(end);
  return offset;
}

// Sees to it that segment_ is one that can take an append, and in use until EndUse.
absl::Status SegmentAppender::PrepareSegment() {
  if (segment_ != nullptr &&
      (segment_->failed || segment_->written >= store_->limits_.segment_bytes_max)) {
    store_->GiveBack(std::move(segment_));
    segment_ = nullptr;
  }
  while (segment_ == nullptr || !store_->BeginUse(segment_.get())) {
    ASSIGN_OR_RETURN(segment_, store_->TakeSegment(owner_));
  }
  return absl::OkStatus();
}

// Room is asked for well ahead, and when there is not that much, for what is needed now.
absl::Status SegmentAppender::ReserveUpTo(uint64_t end) {
  SegmentStore::Segment& segment = *segment_;
  if (end <= segment.reserved) return absl::OkStatus();
  uint64_t wanted = RoundUp(end, std::max<uint64_t>(store_->limits_.reserve_bytes, 1));
  absl::Status status = segment.file->Reserve(wanted);
  if (!status.ok() && wanted > end) {
    wanted = end;
    status = segment.file->Reserve(wanted);
  }
  if (status.ok()) segment.reserved = wanted;
  return status;
}

}  // namespace tandem
