// SqliteStore: the embedded Store, one SQLite database in a directory.
//
//   SqliteStoreOptions options;
//   options.directory = "/var/lib/tandem";
//   ASSIGN_OR_RETURN(auto store, SqliteStore::Open(options));
//
// Write-ahead log with full sync: a commit is one write and one fdatasync. Appends and queries have
// a connection each, so a query never waits for a sync. Opening takes the directory's lock, checks
// the schema, the write-ahead log and the whole chain of the log, and refuses what is damaged:
//   UNAVAILABLE (STORE_LOCKED)            another process has it; names the process
//   FAILED_PRECONDITION (VERSION_SKEW)    a newer schema; names both versions
//   FAILED_PRECONDITION (BAD_FILE)        another cluster's store, or no store of Tandem at all
//   DATA_LOSS (STORE_CORRUPT)             names the sequence number and what is wrong
//
// After an input/output error each later write fails too (JOURNAL_IO): what the disk has is
// unknown until the process starts again.
// Failpoints: store.before_sync, store.after_sync (Append), store.before_snapshot,
// store.after_snapshot, store.before_epoch, store.after_epoch.
//
// Thread-safety: safe from any thread.
#ifndef TANDEM_MASTER_STORE_SQLITE_STORE_H_
#define TANDEM_MASTER_STORE_SQLITE_STORE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "master/store/sqlite_reader.h"
#include "master/store/sqlite_writer.h"
#include "master/store/store.h"
#include "master/store/store_lock.h"

namespace tandem::master {

struct SqliteStoreOptions {
  std::string directory;  // Made where it is not there. The file in it is master.db.
  // A new store gets this id (empty: a random one); an existing one must have it (empty: any).
  std::string cluster_id;
  StoreLimits limits;
  // One process, many connections, and no files for shared memory.
  std::string vfs = "unix-excl";
  SqliteTuning tuning;
};

class SqliteStore final : public Store {
 public:
  static absl::StatusOr<std::unique_ptr<SqliteStore>> Open(const SqliteStoreOptions& options);

  const std::string& cluster_id() const { return cluster_id_; }

  absl::StatusOr<Epoch> RaiseEpoch() override { return writer_->RaiseEpoch(); }
  absl::StatusOr<Epoch> CurrentEpoch() override { return reader_->CurrentEpoch(); }
  absl::StatusOr<uint64_t> Append(Epoch epoch, absl::Span<const AppendBatch> batches) override {
    return writer_->Append(epoch, batches);
  }
  uint64_t HeadSeq() override { return writer_->HeadSeq(); }
  absl::Status ReadFrom(uint64_t seq, const Visitor& visit) override {
    return reader_->ReadFrom(seq, visit);
  }
  absl::Status SaveSnapshot(Epoch epoch, uint64_t seq, std::string_view bytes) override {
    return writer_->SaveSnapshot(epoch, seq, bytes);
  }
  absl::StatusOr<std::optional<Snapshot>> LoadSnapshot() override {
    return reader_->LoadSnapshot();
  }
  absl::StatusOr<OutputPage> OutputsOf(JobId job, uint32_t output, uint64_t first_task,
                                       uint64_t task_count) override {
    return reader_->OutputsOf(job, output, first_task, task_count);
  }
  absl::StatusOr<FailurePage> FailuresOf(JobId job, uint32_t page_size,
                                         std::string_view page_token) override {
    return reader_->FailuresOf(job, page_size, page_token);
  }
  absl::StatusOr<std::vector<SegmentId>> ReferencedSegments() override {
    return reader_->ReferencedSegments();
  }
  absl::Status Project(uint64_t seq, absl::Span<const JobRow> rows) override {
    return writer_->Project(seq, rows);
  }
  absl::StatusOr<uint64_t> ProjectedSeq() override { return reader_->ProjectedSeq(); }
  absl::StatusOr<JobPage> ListJobs(const JobFilter& filter, uint32_t page_size,
                                   std::string_view page_token) override {
    return reader_->ListJobs(filter, page_size, page_token);
  }
  absl::StatusOr<JobRow> FindJob(JobId job) override { return reader_->FindJob(job); }
  absl::Status EraseJob(JobId job) override { return writer_->EraseJob(job); }
  absl::StatusOr<bool> Maintain() override { return writer_->Maintain(); }
  bool NeedsMaintenance() override { return writer_->NeedsMaintenance(); }
  absl::StatusOr<VerifyReport> Verify() override;

 private:
  SqliteStore(StoreLock lock, std::string path, SqliteStoreOptions options)
      : lock_(std::move(lock)), path_(std::move(path)), options_(std::move(options)) {}
  absl::Status OpenConnections();

  const StoreLock lock_;
  const std::string path_;
  const SqliteStoreOptions options_;
  std::string cluster_id_;
  std::unique_ptr<SqliteWriter> writer_;
  std::unique_ptr<SqliteReader> reader_;
};

}  // namespace tandem::master

#endif  // TANDEM_MASTER_STORE_SQLITE_STORE_H_
