#include "master/server/row_cursor.h"

#include <algorithm>

#include "common/base/status_macros.h"

namespace tandem::master {

namespace {

// Tasks hidden by no larger generation, from `at` on: how far do they go?
struct Best {
  const OutputRow* row = nullptr;
  uint64_t until = 0;
};
Best BestAt(const std::vector<OutputRow>& rows, uint64_t at, uint64_t end_task) {
  Best best{nullptr, end_task};
  for (const OutputRow& row : rows) {
    if (row.first_task > at) break;
    if (row.first_task + row.task_count <= at) continue;
    if (best.row == nullptr || row.generation > best.row->generation) best.row = &row;
  }
  if (best.row != nullptr) {
    best.until = std::min(end_task, best.row->first_task + best.row->task_count);
  }
  for (const OutputRow& row : rows) {
    const bool cuts = best.row == nullptr || row.generation > best.row->generation;
    if (cuts && row.first_task > at && row.first_task < best.until) best.until = row.first_task;
  }
  return best;
}

// The usual case: one generation, so nothing overlaps.
std::vector<RowRun> FlattenDisjoint(const std::vector<OutputRow>& rows, uint64_t first_task,
                                    uint64_t end_task) {
  std::vector<RowRun> runs;
  uint64_t at = first_task;
  for (const OutputRow& row : rows) {
    const uint64_t begin = std::max(row.first_task, at);
    const uint64_t end = std::min(row.first_task + row.task_count, end_task);
    if (begin >= end) continue;
    if (begin > at) runs.push_back({at, begin - at, 0, nullptr});
    runs.push_back({begin, end - begin, row.skip_tasks + (begin - row.first_task), &row});
    at = end;
  }
  if (at < end_task) runs.push_back({at, end_task - at, 0, nullptr});
  return runs;
}

}  // namespace

std::vector<RowRun> FlattenRows(const std::vector<OutputRow>& rows, uint64_t first_task,
                                uint64_t end_task) {
  const bool disjoint = std::ranges::all_of(
      rows, [&rows](const OutputRow& row) { return row.generation == rows.front().generation; });
  if (disjoint) return FlattenDisjoint(rows, first_task, end_task);
  std::vector<RowRun> runs;
  for (uint64_t at = first_task; at < end_task;) {
    const Best best = BestAt(rows, at, end_task);
    RowRun run{at, best.until - at, 0, best.row};
    if (best.row != nullptr) run.skip_tasks = best.row->skip_tasks + (at - best.row->first_task);
    runs.push_back(run);
    at = best.until;
  }
  return runs;
}

absl::StatusOr<std::optional<RowRun>> RowCursor::Next() {
  while (runs_.empty()) {
    if (next_task_ >= end_task_) return std::optional<RowRun>();
    ASSIGN_OR_RETURN(page_, store_->OutputsOf(job_, output_, next_task_, end_task_ - next_task_));
    const uint64_t end = std::clamp(page_.next_task, next_task_ + 1, end_task_);
    const std::vector<RowRun> runs = FlattenRows(page_.rows, next_task_, end);
    runs_.assign(runs.begin(), runs.end());
    next_task_ = end;
  }
  const RowRun run = runs_.front();
  runs_.pop_front();
  return std::optional<RowRun>(run);
}

}  // namespace tandem::master
