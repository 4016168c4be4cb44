#include "master/server/piece_reader.h"

#include <cstring>
#include <string>
#include <variant>
#include <vector>

#include "common/base/error.h"
#include "common/base/reason.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/model/dtype.h"

namespace tandem::master {

uint64_t PieceBytesOf(const OutputRow& row) {
  if (const auto* bytes = std::get_if<std::string>(&row.where)) return bytes->size();
  return std::get<Region>(row.where).length;
}

absl::Status ReadPiece(SegmentStore* segments, const OutputRow& row, uint64_t offset,
                       absl::Span<char> buffer) {
  if (buffer.empty()) return absl::OkStatus();
  const uint64_t size = PieceBytesOf(row);
  if (offset > size || buffer.size() > size - offset) {
    return Error(absl::StatusCode::kDataLoss, reason::kTruncated,
                 StrCat("job ", row.job, " output ", row.output, ": the piece of task ",
                        row.first_task, " has only ", size, " bytes"));
  }
  if (const auto* bytes = std::get_if<std::string>(&row.where)) {
    std::memcpy(buffer.data(), bytes->data() + offset, buffer.size());
    return absl::OkStatus();
  }
  const Region& region = std::get<Region>(row.where);
  return segments->ReadInto(region.segment, region.offset + offset, buffer);
}

OutputLayout::OutputLayout(const BoundOutput& output) {
  task_bytes = DTypeSize(output.spec.dtype) * output.per_task;
  for (size_t i = 0; i < output.spec.shape.size(); ++i) {
    const auto extent = static_cast<uint64_t>(output.spec.shape[i]);
    if (i < output.dim) outer *= extent;
    if (i > output.dim) task_bytes *= extent;
  }
}

absl::Status ReadIntoTile(SegmentStore* segments, const OutputLayout& layout, const Tile& tile,
                          const RowRun& run, absl::Span<char> buffer) {
  // The piece has piece_tasks columns; its outer rows [first_row, …) are one block of its bytes.
  const uint64_t piece_row = run.row->piece_tasks * layout.task_bytes;
  const uint64_t tile_row = tile.task_count * layout.task_bytes;
  const uint64_t bytes = run.task_count * layout.task_bytes;
  const uint64_t skip = run.skip_tasks * layout.task_bytes;
  char* to = buffer.data() + (run.first_task - tile.first_task) * layout.task_bytes;
  if (tile.rows == 1) {
    return ReadPiece(segments, *run.row, tile.first_row * piece_row + skip,
                     absl::MakeSpan(to, bytes));
  }
  std::vector<char> block(tile.rows * piece_row);
  RETURN_IF_ERROR(ReadPiece(segments, *run.row, tile.first_row * piece_row,
                            absl::MakeSpan(block.data(), block.size())));
  for (uint64_t i = 0; i < tile.rows; ++i) {
    std::memcpy(to + i * tile_row, block.data() + i * piece_row + skip, bytes);
  }
  return absl::OkStatus();
}

}  // namespace tandem::master
