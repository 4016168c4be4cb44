// Bytes of pieces: inline in a row, or a region of a segment.
//
// Thread-safety: pure functions but for reading segments.
#ifndef TANDEM_MASTER_SERVER_PIECE_READER_H_
#define TANDEM_MASTER_SERVER_PIECE_READER_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/data/segment_store.h"
#include "common/model/bound_job.h"
#include "master/server/row_cursor.h"
#include "master/store/rows.h"

namespace tandem::master {

uint64_t PieceBytesOf(const OutputRow& row);
// Bytes [offset, offset + buffer.size()) of the row's piece.
// Errors: DATA_LOSS when the piece is shorter.
absl::Status ReadPiece(SegmentStore* segments, const OutputRow& row, uint64_t offset,
                       absl::Span<char> buffer);

// An output's dimensions around the one that its tasks lie along.
struct OutputLayout {
  explicit OutputLayout(const BoundOutput& output);
  uint64_t outer = 1;       // Product of the dimensions before.
  uint64_t task_bytes = 0;  // Of one task in one outer row.
};

// Outer rows [first_row, first_row + rows) of tasks [first_task, first_task + task_count): a
// row-major block of rows × task_count × task_bytes bytes.
struct Tile {
  uint64_t first_row = 0;
  uint64_t rows = 0;
  uint64_t first_task = 0;
  uint64_t task_count = 0;
};
// Places what a run (inside of the tile's tasks, with a row) has of the tile.
absl::Status ReadIntoTile(SegmentStore* segments, const OutputLayout& layout, const Tile& tile,
                          const RowRun& run, absl::Span<char> buffer);

}  // namespace tandem::master

#endif  // TANDEM_MASTER_SERVER_PIECE_READER_H_
