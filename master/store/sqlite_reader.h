// SqliteReader: a connection that answers queries, for SqliteStore.
//
// Thread-safety: safe from any thread; one query at a time. Never waits for a writer.
#ifndef TANDEM_MASTER_STORE_SQLITE_READER_H_
#define TANDEM_MASTER_STORE_SQLITE_READER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "master/store/log_codec.h"
#include "master/store/rows.h"
#include "master/store/sqlite_db.h"
#include "master/store/store.h"

namespace tandem::master {

class SqliteReader {
 public:
  // `db` has the schema.
  static absl::StatusOr<std::unique_ptr<SqliteReader>> Create(SqliteDb db, StoreLimits limits);

  absl::StatusOr<Epoch> CurrentEpoch();
  absl::StatusOr<uint64_t> ProjectedSeq();
  absl::Status ReadFrom(uint64_t seq, const Store::Visitor& visit);
  absl::StatusOr<std::optional<Snapshot>> LoadSnapshot();
  absl::StatusOr<OutputPage> OutputsOf(JobId job, uint32_t output, uint64_t first_task,
                                       uint64_t task_count);
  absl::StatusOr<FailurePage> FailuresOf(JobId job, uint32_t page_size,
                                         std::string_view page_token);
  absl::StatusOr<std::vector<SegmentId>> ReferencedSegments();
  absl::StatusOr<JobPage> ListJobs(const JobFilter& filter, uint32_t page_size,
                                   std::string_view page_token);
  absl::StatusOr<JobRow> FindJob(JobId job);

  // Walks the chain from the first commit kept to the head, and checks that head and snapshot fit
  // it. Returns how many commits there are. Errors: DATA_LOSS (STORE_CORRUPT) with the sequence.
  absl::StatusOr<uint64_t> CheckLog();
  // Reads every output row and returns how many are whole; adds a line for each that is not.
  absl::StatusOr<uint64_t> CheckOutputs(std::vector<std::string>* problems);
  // SQLite's own check of pages and indexes; adds its findings.
  absl::Status CheckPages(std::vector<std::string>* problems);

 private:
  struct Statements {
    SqliteStatement select_meta, select_snapshot;
    SqliteStatement next_commits, commit_before;
    SqliteStatement is_forgotten, next_generation, output_before, outputs_from;
    SqliteStatement failures_from, referenced_segments;
    SqliteStatement find_job, find_spec, find_labels;
  };
  struct Meta {
    Epoch epoch;
    uint64_t head_seq = 0, head_checksum = 0;
    uint64_t base_seq = 0, base_checksum = 0;
    uint64_t projected_seq = 0;
  };
  struct Link {
    uint64_t seq = 0;
    uint64_t checksum = 0;
  };
  struct Commit {
    CommitHeader header;
    std::string payload;
  };

  SqliteReader(SqliteDb db, StoreLimits limits) : limits_(limits), db_(std::move(db)) {}
  absl::Status PrepareAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<Meta> ReadMeta() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The last commit that ends before `seq`.
  absl::StatusOr<Link> LinkBefore(uint64_t seq);
  // The commits that follow `previous`, each checked against the one before: as many as are worth
  // one hold of the lock, none at the end of the log.
  absl::StatusOr<std::vector<Commit>> NextCommits(const Link& previous);
  absl::StatusOr<bool> IsForgotten(JobId job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<std::vector<JobRow>> SelectJobs(const JobFilter& filter, JobId older_than,
                                                 uint32_t rows) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status AddLabels(JobRow* row) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const StoreLimits limits_;
  absl::Mutex mu_;
  SqliteDb db_ ABSL_GUARDED_BY(mu_);
  Statements statements_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tandem::master

#endif  // TANDEM_MASTER_STORE_SQLITE_READER_H_
