#include "master/server/output_source.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/error.h"
#include "common/base/reason.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/data/xxh3.h"
#include "master/server/piece_reader.h"
#include "master/server/row_cursor.h"

namespace tandem::master {
namespace {

// The split axis leads: pieces follow one another. Regions that are read whole are checked.
class LeadingSource final : public ByteSource {
 public:
  LeadingSource(Store* store, SegmentStore* segments, const BoundOutput& output,
                const OutputRange& range, GapPolicy gap)
      : segments_(segments),
        layout_(output),
        cursor_(store, range.job, range.output, range.first_task, range.task_count),
        gap_(std::move(gap)) {}

  absl::StatusOr<size_t> Read(absl::Span<char> buffer) override {
    size_t filled = 0;
    while (filled < buffer.size()) {
      if (read_ == bytes_) {
        ASSIGN_OR_RETURN(const bool more, NextRun());
        if (!more) break;
        continue;
      }
      const size_t size =
          static_cast<size_t>(std::min<uint64_t>(buffer.size() - filled, bytes_ - read_));
      RETURN_IF_ERROR(ReadRun(buffer.subspan(filled, size)));
      filled += size;
      read_ += size;
    }
    return filled;
  }

 private:
  absl::StatusOr<bool> NextRun() {
    ASSIGN_OR_RETURN(run_, cursor_.Next());
    if (!run_) return false;
    if (run_->row == nullptr) RETURN_IF_ERROR(gap_(run_->first_task, run_->task_count));
    read_ = 0;
    bytes_ = run_->task_count * layout_.task_bytes;
    hash_.Reset();
    return true;
  }

  absl::Status ReadRun(absl::Span<char> to) {
    if (run_->row == nullptr) {
      std::memset(to.data(), 0, to.size());
      return absl::OkStatus();
    }
    const OutputRow& row = *run_->row;
    RETURN_IF_ERROR(ReadPiece(segments_, row, run_->skip_tasks * layout_.task_bytes + read_, to));
    const auto* region = std::get_if<Region>(&row.where);
    if (region == nullptr || bytes_ != region->length) return absl::OkStatus();
    hash_.Update(std::string_view(to.data(), to.size()));
    if (read_ + to.size() == bytes_ && hash_.Digest() != region->xxh3) {
      return Error(absl::StatusCode::kDataLoss, reason::kChecksumMismatch,
                   StrCat("job ", row.job, " output ", row.output, " from task ", row.first_task,
                          ": segment ", region->segment, " holds other bytes than were committed"));
    }
    return absl::OkStatus();
  }

  SegmentStore* const segments_;
  const OutputLayout layout_;
  RowCursor cursor_;
  const GapPolicy gap_;
  std::optional<RowRun> run_;
  uint64_t bytes_ = 0;  // Of the run.
  uint64_t read_ = 0;
  Xxh3Stream hash_;
};

// The split axis lies inside: tiles of a bounded size, each put together from every piece that
// touches it.
class StridedSource final : public ByteSource {
 public:
  static constexpr uint64_t kTileBytes = 8 << 20;

  StridedSource(Store* store, SegmentStore* segments, const BoundOutput& output,
                const OutputRange& range, GapPolicy gap)
      : store_(store), segments_(segments), layout_(output), range_(range), gap_(std::move(gap)) {}

  absl::StatusOr<size_t> Read(absl::Span<char> buffer) override {
    size_t filled = 0;
    while (filled < buffer.size()) {
      if (served_ == tile_.size()) {
        ASSIGN_OR_RETURN(const bool more, NextTile());
        if (!more) break;
      }
      const size_t size = std::min(buffer.size() - filled, tile_.size() - served_);
      std::memcpy(buffer.data() + filled, tile_.data() + served_, size);
      filled += size;
      served_ += size;
    }
    return filled;
  }

 private:
  absl::StatusOr<bool> NextTile() {
    const uint64_t row_bytes = range_.task_count * layout_.task_bytes;
    if (row_ == layout_.outer || row_bytes == 0) return false;
    Tile tile{row_, 1, range_.first_task + column_, range_.task_count - column_};
    if (row_bytes <= kTileBytes) {
      tile.rows = std::min(layout_.outer - row_, kTileBytes / row_bytes);
      row_ += tile.rows;
    } else {
      tile.task_count =
          std::min(tile.task_count, std::max<uint64_t>(1, kTileBytes / layout_.task_bytes));
      column_ += tile.task_count;
      if (column_ == range_.task_count) {
        column_ = 0;
        ++row_;
      }
    }
    tile_.assign(tile.rows * tile.task_count * layout_.task_bytes, '\0');
    served_ = 0;
    RowCursor cursor(store_, range_.job, range_.output, tile.first_task, tile.task_count);
    while (true) {
      ASSIGN_OR_RETURN(const std::optional<RowRun> run, cursor.Next());
      if (!run) return true;
      if (run->row == nullptr) {
        RETURN_IF_ERROR(gap_(run->first_task, run->task_count));
      } else {
        RETURN_IF_ERROR(ReadIntoTile(segments_, layout_, tile, *run,
                                     absl::MakeSpan(tile_.data(), tile_.size())));
      }
    }
  }

  Store* const store_;
  SegmentStore* const segments_;
  const OutputLayout layout_;
  const OutputRange range_;
  const GapPolicy gap_;
  uint64_t row_ = 0;     // Where the next tile begins.
  uint64_t column_ = 0;  // In tasks.
  std::vector<char> tile_;
  size_t served_ = 0;
};

}  // namespace

std::unique_ptr<ByteSource> MakeOutputSource(Store* store, SegmentStore* segments,
                                             const BoundOutput& output, const OutputRange& range,
                                             GapPolicy gap) {
  if (output.dim == 0) {
    return std::make_unique<LeadingSource>(store, segments, output, range, std::move(gap));
  }
  return std::make_unique<StridedSource>(store, segments, output, range, std::move(gap));
}

}  // namespace tandem::master
