// SqliteWriter: the connection that writes, for SqliteStore.
//
// Thread-safety: safe from any thread; one write at a time.
#ifndef TANDEM_MASTER_STORE_SQLITE_WRITER_H_
#define TANDEM_MASTER_STORE_SQLITE_WRITER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "master/store/log_codec.h"
#include "master/store/rows.h"
#include "master/store/sqlite_db.h"
#include "master/store/store.h"

namespace tandem::master {

struct SqliteTuning {
  uint32_t cache_kib = 16 << 10;
  // The write-ahead log is moved into the database when it has this many pages of 4 KiB and there
  // is nothing else to do, …
  int log_pages_idle = 1024;
  // …and when it has this many whatever there is to do.
  int log_pages_max = 4096;
  // Rows of forgotten jobs that one Maintain removes.
  uint32_t forget_rows = 500;
  // For tests: the database may not grow beyond this many pages. 0: no limit.
  uint64_t pages_max = 0;
};

class SqliteWriter {
 public:
  // `db` has the schema and is checked. REQUIRES: nobody else writes.
  static absl::StatusOr<std::unique_ptr<SqliteWriter>> Create(SqliteDb db, StoreLimits limits,
                                                              SqliteTuning tuning);

  absl::StatusOr<Epoch> RaiseEpoch();
  absl::StatusOr<uint64_t> Append(Epoch epoch, absl::Span<const AppendBatch> batches);
  uint64_t HeadSeq() const { return head_seq_; }
  absl::Status SaveSnapshot(Epoch epoch, uint64_t seq, std::string_view bytes);
  absl::Status Project(uint64_t seq, absl::Span<const JobRow> rows);
  absl::Status EraseJob(JobId job);
  absl::StatusOr<bool> Maintain();
  bool NeedsMaintenance() const { return log_pages_ >= tuning_.log_pages_max; }

 private:
  struct Statements {
    SqliteStatement select_meta, raise_epoch, update_head, update_base, update_projected;
    SqliteStatement insert_log, last_dropped, delete_log;
    SqliteStatement replace_snapshot, select_snapshot_seq;
    SqliteStatement insert_output, insert_failure, insert_forgotten;
    SqliteStatement upsert_job, upsert_spec, delete_labels, insert_label;
    SqliteStatement delete_job, delete_spec;
    SqliteStatement select_forgotten, delete_outputs, delete_failures, delete_forgotten;
  };
  struct Meta {
    Epoch epoch;
    uint64_t head_seq = 0;
    uint64_t head_checksum = 0;
    uint64_t projected_seq = 0;
  };

  SqliteWriter(SqliteDb db, StoreLimits limits, SqliteTuning tuning)
      : limits_(limits), tuning_(tuning), db_(std::move(db)) {}
  absl::Status PrepareAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<Meta> ReadMeta() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Runs `body` in a transaction; what it returns, or the commit's error, is remembered when it
  // leaves the disk's contents unknown. `synced`: durable when it returns OK.
  template <class Body>
  absl::Status Write(bool synced, const Body& body) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status InsertLog(const CommitHeader& header, std::string_view payload)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status InsertRows(const AppendBatch& batch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status InsertOutput(const OutputRow& row) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status UpsertJob(const JobRow& row) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<bool> ForgetSome() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void NoteLogPages() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { log_pages_ = pages_in_log_; }

  const StoreLimits limits_;
  const SqliteTuning tuning_;
  std::atomic<uint64_t> head_seq_{0};
  std::atomic<int> log_pages_{0};

  absl::Mutex mu_;
  SqliteDb db_ ABSL_GUARDED_BY(mu_);
  Statements statements_ ABSL_GUARDED_BY(mu_);
  int pages_in_log_ ABSL_GUARDED_BY(mu_) = 0;
  std::string payload_ ABSL_GUARDED_BY(mu_);  // Kept for its memory.
  absl::Status failed_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tandem::master

#endif  // TANDEM_MASTER_STORE_SQLITE_WRITER_H_
