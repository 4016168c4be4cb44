// Short ways to make rows and batches in the store's tests.
#ifndef TANDEM_TESTS_MASTER_STORE_STORE_BUILDERS_H_
#define TANDEM_TESTS_MASTER_STORE_STORE_BUILDERS_H_

#include <stdlib.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "master/store/store.h"

namespace tandem::master {

inline AppendBatch Records(std::vector<std::string> payloads) {
  AppendBatch batch;
  for (std::string& payload : payloads) batch.records.push_back({std::move(payload)});
  return batch;
}

inline OutputRow InlineRow(uint64_t job, uint64_t first_task, uint64_t count, std::string bytes,
                           uint32_t generation = 0) {
  OutputRow row;
  row.job = JobId(job);
  row.generation = generation;
  row.first_task = first_task;
  row.task_count = row.piece_tasks = count;
  row.where = std::move(bytes);
  return row;
}

inline OutputRow SegmentRow(uint64_t job, uint64_t first_task, uint64_t count, uint64_t segment) {
  OutputRow row = InlineRow(job, first_task, count, "");
  row.where = Region{SegmentId(segment), first_task * 8, count * 8, 0xfedcba9876543210u};
  return row;
}

inline AppendBatch Outputs(std::vector<OutputRow> rows) {
  AppendBatch batch;
  batch.outputs = std::move(rows);
  return batch;
}

// The whole log from `seq`, one line a batch: "3:a,b".
inline std::vector<std::string> LogOf(Store& store, uint64_t seq = 1) {
  std::vector<std::string> lines;
  const absl::Status status =
      store.ReadFrom(seq, [&](uint64_t at, absl::Span<const std::string_view> records) {
        std::string line = std::to_string(at) + ":";
        for (size_t i = 0; i < records.size(); ++i) {
          line += (i > 0 ? "," : "") + std::string(records[i]);
        }
        lines.push_back(std::move(line));
        return absl::OkStatus();
      });
  if (!status.ok()) lines.push_back(std::string(status.message()));
  return lines;
}

// A directory that goes with the object.
class ScratchDirectory {
 public:
  ScratchDirectory() {
    std::string path = ::testing::TempDir() + "/tandem_store_XXXXXX";
    EXPECT_NE(mkdtemp(path.data()), nullptr);
    path_ = path;
  }
  ~ScratchDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace tandem::master

#endif  // TANDEM_TESTS_MASTER_STORE_STORE_BUILDERS_H_
