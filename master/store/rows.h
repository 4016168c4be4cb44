// What the master keeps on disk, row by row: log records, the index of outputs, failures, and the
// history of jobs.
//
// Thread-safety: plain data.
#ifndef TANDEM_MASTER_STORE_ROWS_H_
#define TANDEM_MASTER_STORE_ROWS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "common/model/ids.h"
#include "common/model/outputs.h"

namespace tandem::master {

// One record of the log; the store does not look inside.
struct LogRecord {
  std::string payload;
  friend bool operator==(const LogRecord&, const LogRecord&) = default;
};

// Where the bytes of tasks [first_task, first_task + task_count) of one output are. The piece at
// `where` holds `piece_tasks` tasks in order; `skip_tasks` of them come before first_task.
struct OutputRow {
  JobId job;
  uint32_t output = 0;  // index in the signature
  // A task that ran again has its new bytes in a row of a larger generation, which hides the old.
  uint32_t generation = 0;
  uint64_t first_task = 0;
  uint64_t task_count = 0;
  uint64_t skip_tasks = 0;
  uint64_t piece_tasks = 0;
  std::variant<std::string, Region> where;
  friend bool operator==(const OutputRow&, const OutputRow&) = default;
};

// A task that ended failed.
struct FailureRow {
  JobId job;
  TaskFailure failure;
  friend bool operator==(const FailureRow&, const FailureRow&) = default;
};

// What history says of a job. Written whole each time it changes, but for `spec`.
struct JobRow {
  JobId id;
  std::string owner;
  std::string name;
  std::string kernel;
  uint32_t state = 0;  // master::JobState
  int32_t priority = 0;
  uint64_t task_count = 0;
  uint64_t done = 0;
  uint64_t failed = 0;
  std::string reason;  // why it ended as it did
  absl::Time submitted = absl::InfinitePast();
  absl::Time started = absl::InfiniteFuture();  // InfiniteFuture: not yet
  absl::Time ended = absl::InfiniteFuture();
  std::map<std::string, std::string> labels;
  // Opaque. Left out of an update, what was stored before stays.
  std::optional<std::string> spec;
  friend bool operator==(const JobRow&, const JobRow&) = default;
};

// What one step of the core (or several) wants to be durable together.
struct AppendBatch {
  std::vector<LogRecord> records;
  std::vector<OutputRow> outputs;
  std::vector<FailureRow> failures;
  // Jobs whose outputs and failures are forgotten for good. They are invisible at once; the rows
  // themselves go little by little (Store::Maintain).
  std::vector<JobId> forgotten;
  // Rows of history that are there as soon as the batch is durable: of jobs that nothing else tells
  // of any more. Others come when there is time (Store::Project).
  std::vector<JobRow> history;
};

}  // namespace tandem::master

#endif  // TANDEM_MASTER_STORE_ROWS_H_
