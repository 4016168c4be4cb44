// RowCursor: the rows of one output over a range of tasks, page by page, as runs that do not
// overlap: where generations do, the larger one counts; gaps are runs without a row.
//
// Thread-safety: one thread. Ownership: the store outlives it.
#ifndef TANDEM_MASTER_SERVER_ROW_CURSOR_H_
#define TANDEM_MASTER_SERVER_ROW_CURSOR_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "common/model/ids.h"
#include "master/store/store.h"

namespace tandem::master {

// Tasks [first_task, first_task + task_count), the bytes of which begin `skip_tasks` tasks into the
// row's piece; no row: nothing is there.
struct RowRun {
  uint64_t first_task = 0;
  uint64_t task_count = 0;
  uint64_t skip_tasks = 0;
  const OutputRow* row = nullptr;
};

// The rows of a page as runs over [first_task, end_task). Pointers into `rows`.
std::vector<RowRun> FlattenRows(const std::vector<OutputRow>& rows, uint64_t first_task,
                                uint64_t end_task);

class RowCursor {
 public:
  RowCursor(Store* store, JobId job, uint32_t output, uint64_t first_task, uint64_t task_count)
      : store_(store),
        job_(job),
        output_(output),
        next_task_(first_task),
        end_task_(first_task + task_count) {}

  // The next run, or nothing at the end. Valid until the next call.
  absl::StatusOr<std::optional<RowRun>> Next();

 private:
  Store* const store_;
  const JobId job_;
  const uint32_t output_;
  uint64_t next_task_;
  const uint64_t end_task_;
  OutputPage page_;
  std::deque<RowRun> runs_;
};

}  // namespace tandem::master

#endif  // TANDEM_MASTER_SERVER_ROW_CURSOR_H_
