// What all stores share about pages, snapshots and errors.
//
// Thread-safety: pure functions; an OutputPageBuilder belongs to one thread.
#ifndef TANDEM_MASTER_STORE_OUTPUT_PAGE_H_
#define TANDEM_MASTER_STORE_OUTPUT_PAGE_H_

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "common/model/ids.h"
#include "master/store/log_codec.h"
#include "master/store/rows.h"
#include "master/store/store.h"

namespace tandem::master {

// Makes an OutputPage from rows that come generation by generation, each in order of tasks. A
// generation that is cut short by the limits cuts the page, so that it holds *all* rows before
// next_task.
class OutputPageBuilder {
 public:
  OutputPageBuilder(const StoreLimits& limits, uint64_t first_task, uint64_t task_count);

  uint64_t begin() const { return begin_; }
  // Rows from here on are of no use.
  uint64_t end() const { return page_.next_task; }
  void StartGeneration();
  // Takes a row that overlaps the page and skips one before it. Returns false when no later row of
  // this generation is wanted.
  bool Add(OutputRow row);
  OutputPage Finish() &&;

 private:
  const StoreLimits limits_;
  const uint64_t begin_;
  OutputPage page_;
  uint32_t rows_ = 0;  // Of this generation.
  uint64_t bytes_ = 0;
};

// Calls `visit` for each batch of a commit with number >= seq.
absl::Status VisitBatches(const CommitHeader& header, std::string_view payload, uint64_t seq,
                          const Store::Visitor& visit);
// OUT_OF_RANGE unless present <= seq <= head.
absl::Status CheckSnapshotSeq(uint64_t seq, uint64_t present, uint64_t head);

absl::Status LogBeginsLater(uint64_t seq, uint64_t base);
absl::Status DuplicateRow(std::string_view what);
absl::Status NoJob(JobId job);

}  // namespace tandem::master

#endif  // TANDEM_MASTER_STORE_OUTPUT_PAGE_H_
