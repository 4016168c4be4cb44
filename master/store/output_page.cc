#include "master/store/output_page.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace tandem::master {
namespace {

uint64_t SaturatingAdd(uint64_t a, uint64_t b) { return b > UINT64_MAX - a ? UINT64_MAX : a + b; }

}  // namespace

OutputPageBuilder::OutputPageBuilder(const StoreLimits& limits, uint64_t first_task,
                                     uint64_t task_count)
    : limits_(limits), begin_(first_task) {
  page_.next_task = SaturatingAdd(first_task, task_count);
}

void OutputPageBuilder::StartGeneration() {
  rows_ = 0;
  bytes_ = 0;
}

bool OutputPageBuilder::Add(OutputRow row) {
  if (begin_ == page_.next_task || row.first_task >= page_.next_task) return false;
  if (SaturatingAdd(row.first_task, row.task_count) <= begin_) return true;
  // At least one row of each generation is taken, or a page would never get past a large one.
  const bool full = rows_ == limits_.page_rows_max || bytes_ >= limits_.page_bytes_max;
  if (full && row.first_task > begin_) {
    page_.next_task = row.first_task;
    return false;
  }
  ++rows_;
  if (const auto* bytes = std::get_if<std::string>(&row.where)) bytes_ += bytes->size();
  page_.rows.push_back(std::move(row));
  return true;
}

OutputPage OutputPageBuilder::Finish() && {
  std::erase_if(page_.rows,
                [this](const OutputRow& row) { return row.first_task >= page_.next_task; });
  std::sort(page_.rows.begin(), page_.rows.end(), [](const OutputRow& a, const OutputRow& b) {
    return std::pair(a.first_task, a.generation) < std::pair(b.first_task, b.generation);
  });
  return std::move(page_);
}

absl::Status VisitBatches(const CommitHeader& header, std::string_view payload, uint64_t seq,
                          const Store::Visitor& visit) {
  BatchReader reader(payload);
  std::vector<std::string_view> records;
  for (uint64_t at = header.last_seq - header.batches + 1; at <= header.last_seq; ++at) {
    RETURN_IF_ERROR(WithContext(reader.Next(&records), StrCat("sequence ", at)));
    if (at >= seq) RETURN_IF_ERROR(visit(at, records));
  }
  if (reader.done()) return absl::OkStatus();
  return Corrupt(
      StrCat("the commit that ends at sequence ", header.last_seq, " is longer than its batches"));
}

absl::Status CheckSnapshotSeq(uint64_t seq, uint64_t present, uint64_t head) {
  if (seq >= present && seq <= head) return absl::OkStatus();
  return Error(absl::StatusCode::kOutOfRange, reason::kBadArgument,
               StrCat("a snapshot at sequence ", seq, " is not between the present one at ",
                      present, " and the head at ", head));
}

absl::Status LogBeginsLater(uint64_t seq, uint64_t base) {
  return Error(absl::StatusCode::kOutOfRange, reason::kBadArgument,
               StrCat("the log begins at sequence ", base + 1, ", after ", seq,
                      ": what was before is in the snapshot"));
}

absl::Status DuplicateRow(std::string_view what) {
  return Error(absl::StatusCode::kAlreadyExists, reason::kInternal,
               StrCat("there is already ", what, ": a result is recorded once"));
}

absl::Status NoJob(JobId job) {
  return Error(absl::StatusCode::kNotFound, reason::kJobNotFound,
               StrCat("there is no job ", job, " in the history"));
}

}  // namespace tandem::master
