#include "master/store/sqlite_writer.h"

#include <utility>
#include <variant>

#include "absl/time/time.h"
#include "common/base/error.h"
#include "common/base/failpoint.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "master/store/output_page.h"
#include "master/store/wall_time.h"

namespace tandem::master {

absl::StatusOr<std::unique_ptr<SqliteWriter>> SqliteWriter::Create(SqliteDb db, StoreLimits limits,
                                                                   SqliteTuning tuning) {
  std::unique_ptr<SqliteWriter> writer(new SqliteWriter(std::move(db), limits, tuning));
  absl::MutexLock lock(&writer->mu_);
  RETURN_IF_ERROR(writer->PrepareAll());
  ASSIGN_OR_RETURN(const Meta meta, writer->ReadMeta());
  writer->head_seq_ = meta.head_seq;
  writer->db_.CountLogPages(&writer->pages_in_log_);
  return writer;
}

absl::Status SqliteWriter::PrepareAll() {
  Statements& s = statements_;
  const std::pair<SqliteStatement*, const char*> all[] = {
      {&s.select_meta, "SELECT epoch, head_seq, head_checksum, projected_seq FROM meta"},
      {&s.raise_epoch, "UPDATE meta SET epoch = ? WHERE id = 1"},
      {&s.update_head, "UPDATE meta SET head_seq = ?, head_checksum = ? WHERE id = 1"},
      {&s.update_base, "UPDATE meta SET base_seq = ?, base_checksum = ? WHERE id = 1"},
      {&s.update_projected, "UPDATE meta SET projected_seq = ? WHERE id = 1"},
      {&s.insert_log, "INSERT INTO log VALUES (?, ?, ?, ?, ?)"},
      {&s.last_dropped,
       "SELECT last_seq, checksum FROM log WHERE last_seq <= ? ORDER BY last_seq DESC LIMIT 1"},
      {&s.delete_log, "DELETE FROM log WHERE last_seq <= ?"},
      {&s.select_snapshot_seq, "SELECT seq FROM snapshot"},
      {&s.replace_snapshot, "REPLACE INTO snapshot VALUES (1, ?, ?, ?)"},
      {&s.insert_output, "INSERT INTO outputs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"},
      {&s.insert_failure, "INSERT INTO failures VALUES (?, ?, ?, ?)"},
      {&s.insert_forgotten, "INSERT OR IGNORE INTO forgotten VALUES (?)"},
      {&s.upsert_job, "REPLACE INTO jobs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"},
      {&s.upsert_spec, "REPLACE INTO job_specs VALUES (?, ?)"},
      {&s.delete_labels, "DELETE FROM job_labels WHERE job = ?"},
      {&s.insert_label, "INSERT INTO job_labels VALUES (?, ?, ?)"},
      {&s.delete_job, "DELETE FROM jobs WHERE id = ?"},
      {&s.delete_spec, "DELETE FROM job_specs WHERE job = ?"},
      {&s.select_forgotten, "SELECT job FROM forgotten LIMIT 1"},
      {&s.delete_outputs,
       "DELETE FROM outputs WHERE (job, output, generation, first_task) IN (SELECT job, output, "
       "generation, first_task FROM outputs WHERE job = ? LIMIT ?)"},
      {&s.delete_failures,
       "DELETE FROM failures WHERE (job, task, attempt) IN (SELECT job, task, attempt FROM "
       "failures WHERE job = ? LIMIT ?)"},
      {&s.delete_forgotten, "DELETE FROM forgotten WHERE job = ?"},
  };
  for (const auto& [statement, sql] : all) {
    ASSIGN_OR_RETURN(*statement, db_.Prepare(sql));
  }
  return absl::OkStatus();
}

absl::StatusOr<SqliteWriter::Meta> SqliteWriter::ReadMeta() {
  SqliteStatement& select = statements_.select_meta;
  ResetOnExit reset(&select);
  ASSIGN_OR_RETURN(const bool found, select.Step());
  if (!found) return Corrupt("the row that says where the log ends is gone");
  return Meta{Epoch(select.Number(0)), select.Number(1), select.Number(2), select.Number(3)};
}

template <class Body>
absl::Status SqliteWriter::Write(bool synced, const Body& body) {
  RETURN_IF_ERROR(failed_);
  // What need not be durable yet waits for the next commit's sync; the order on disk is the same.
  if (!synced) RETURN_IF_ERROR(db_.Execute("PRAGMA synchronous = NORMAL"));
  absl::Status status;
  {
    absl::StatusOr<SqliteTransaction> transaction = SqliteTransaction::Begin(&db_, /*writes=*/true);
    status = transaction.status();
    if (status.ok()) status = body();
    if (status.ok()) status = transaction->Commit();
  }
  NoteLogPages();
  if (ReasonOf(status) == reason::kJournalIo) failed_ = status;
  if (!synced) {
    const absl::Status restored = db_.Execute("PRAGMA synchronous = FULL");
    if (!restored.ok()) failed_ = restored;  // No later commit could be promised.
  }
  return status;
}

absl::StatusOr<Epoch> SqliteWriter::RaiseEpoch() {
  absl::MutexLock lock(&mu_);
  Epoch raised;
  RETURN_IF_ERROR(TANDEM_FAILPOINT("store.before_epoch"));
  RETURN_IF_ERROR(Write(/*synced=*/true, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    ASSIGN_OR_RETURN(const Meta meta, ReadMeta());
    raised = meta.epoch.next();
    return statements_.raise_epoch.Bind(1, raised.value()).Run();
  }));
  RETURN_IF_ERROR(TANDEM_FAILPOINT("store.after_epoch"));
  return raised;
}

absl::StatusOr<uint64_t> SqliteWriter::Append(Epoch epoch, absl::Span<const AppendBatch> batches) {
  absl::MutexLock lock(&mu_);
  RETURN_IF_ERROR(EncodeCommit(batches, limits_, &payload_));
  uint64_t last = 0;
  RETURN_IF_ERROR(Write(/*synced=*/true, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    ASSIGN_OR_RETURN(const Meta meta, ReadMeta());
    if (epoch != meta.epoch || !epoch.valid()) return StaleEpoch(epoch, meta.epoch);
    CommitHeader header{meta.head_seq + batches.size(), batches.size(), epoch, 0};
    header.checksum = ChainChecksum(meta.head_checksum, header, payload_);
    RETURN_IF_ERROR(InsertLog(header, payload_));
    for (const AppendBatch& batch : batches) RETURN_IF_ERROR(InsertRows(batch));
    last = header.last_seq;
    return TANDEM_FAILPOINT("store.before_sync");
  }));
  head_seq_ = last;
  RETURN_IF_ERROR(TANDEM_FAILPOINT("store.after_sync"));
  return last;
}

absl::Status SqliteWriter::InsertLog(const CommitHeader& header, std::string_view payload) {
  RETURN_IF_ERROR(statements_.insert_log.Bind(1, header.last_seq)
                      .Bind(2, header.batches)
                      .Bind(3, header.epoch.value())
                      .Bind(4, header.checksum)
                      .BindBytes(5, payload)
                      .Run());
  return statements_.update_head.Bind(1, header.last_seq).Bind(2, header.checksum).Run();
}

absl::Status SqliteWriter::InsertRows(const AppendBatch& batch) {
  for (const JobId job : batch.forgotten) {
    RETURN_IF_ERROR(statements_.insert_forgotten.Bind(1, job.value()).Run());
  }
  for (const OutputRow& row : batch.outputs) RETURN_IF_ERROR(InsertOutput(row));
  for (const FailureRow& row : batch.failures) {
    RETURN_IF_ERROR(statements_.insert_failure.Bind(1, row.job.value())
                        .Bind(2, row.failure.task)
                        .Bind(3, row.failure.attempt)
                        .BindText(4, row.failure.reason)
                        .Run());
  }
  for (const JobRow& row : batch.history) RETURN_IF_ERROR(UpsertJob(row));
  return absl::OkStatus();
}

absl::Status SqliteWriter::InsertOutput(const OutputRow& row) {
  SqliteStatement& insert = statements_.insert_output;
  insert.Bind(1, row.job.value())
      .Bind(2, row.output)
      .Bind(3, row.generation)
      .Bind(4, row.first_task)
      .Bind(5, row.task_count)
      .Bind(6, row.skip_tasks)
      .Bind(7, row.piece_tasks)
      .Bind(8, RowChecksum(row));
  if (const auto* bytes = std::get_if<std::string>(&row.where)) {
    for (int column = 9; column <= 12; ++column) insert.BindNull(column);
    insert.BindBytes(13, *bytes);
  } else {
    const Region& region = std::get<Region>(row.where);
    insert.Bind(9, region.segment.value())
        .Bind(10, region.offset)
        .Bind(11, region.length)
        .Bind(12, region.xxh3)
        .BindNull(13);
  }
  return insert.Run();
}

absl::Status SqliteWriter::SaveSnapshot(Epoch epoch, uint64_t seq, std::string_view bytes) {
  absl::MutexLock lock(&mu_);
  RETURN_IF_ERROR(TANDEM_FAILPOINT("store.before_snapshot"));
  RETURN_IF_ERROR(Write(/*synced=*/true, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    ASSIGN_OR_RETURN(const Meta meta, ReadMeta());
    if (epoch != meta.epoch || !epoch.valid()) return StaleEpoch(epoch, meta.epoch);
    Statements& s = statements_;
    ResetOnExit reset_present(&s.select_snapshot_seq);
    ASSIGN_OR_RETURN(const bool any, s.select_snapshot_seq.Step());
    RETURN_IF_ERROR(
        CheckSnapshotSeq(seq, any ? s.select_snapshot_seq.Number(0) : 0, meta.head_seq));
    s.select_snapshot_seq.Reset();
    RETURN_IF_ERROR(s.replace_snapshot.Bind(1, seq)
                        .Bind(2, SnapshotChecksum(seq, bytes))
                        .BindBytes(3, bytes)
                        .Run());
    ResetOnExit reset_dropped(&s.last_dropped);
    ASSIGN_OR_RETURN(const bool dropped, s.last_dropped.Bind(1, seq).Step());
    if (!dropped) return absl::OkStatus();
    RETURN_IF_ERROR(
        s.update_base.Bind(1, s.last_dropped.Number(0)).Bind(2, s.last_dropped.Number(1)).Run());
    s.last_dropped.Reset();
    return s.delete_log.Bind(1, seq).Run();
  }));
  return TANDEM_FAILPOINT("store.after_snapshot");
}

absl::Status SqliteWriter::Project(uint64_t seq, absl::Span<const JobRow> rows) {
  absl::MutexLock lock(&mu_);
  return Write(/*synced=*/false, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    ASSIGN_OR_RETURN(const Meta meta, ReadMeta());
    if (seq < meta.projected_seq) return absl::OkStatus();
    for (const JobRow& row : rows) RETURN_IF_ERROR(UpsertJob(row));
    return statements_.update_projected.Bind(1, seq).Run();
  });
}

absl::Status SqliteWriter::UpsertJob(const JobRow& row) {
  Statements& s = statements_;
  RETURN_IF_ERROR(s.upsert_job.Bind(1, row.id.value())
                      .BindText(2, row.owner)
                      .BindText(3, row.name)
                      .BindText(4, row.kernel)
                      .Bind(5, row.state)
                      .Bind(6, static_cast<uint64_t>(int64_t{row.priority}))
                      .Bind(7, row.task_count)
                      .Bind(8, row.done)
                      .Bind(9, row.failed)
                      .BindText(10, row.reason)
                      .Bind(11, ToStoredTime(row.submitted))
                      .Bind(12, ToStoredTime(row.started))
                      .Bind(13, ToStoredTime(row.ended))
                      .Run());
  if (row.spec.has_value()) {
    RETURN_IF_ERROR(s.upsert_spec.Bind(1, row.id.value()).BindBytes(2, *row.spec).Run());
  }
  RETURN_IF_ERROR(s.delete_labels.Bind(1, row.id.value()).Run());
  for (const auto& [key, value] : row.labels) {
    RETURN_IF_ERROR(
        s.insert_label.Bind(1, row.id.value()).BindText(2, key).BindText(3, value).Run());
  }
  return absl::OkStatus();
}

absl::Status SqliteWriter::EraseJob(JobId job) {
  absl::MutexLock lock(&mu_);
  return Write(/*synced=*/false, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    for (SqliteStatement* statement :
         {&statements_.delete_job, &statements_.delete_spec, &statements_.delete_labels}) {
      RETURN_IF_ERROR(statement->Bind(1, job.value()).Run());
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<bool> SqliteWriter::Maintain() {
  absl::MutexLock lock(&mu_);
  ASSIGN_OR_RETURN(const bool more, ForgetSome());
  if (log_pages_ >= tuning_.log_pages_idle) {
    ASSIGN_OR_RETURN(pages_in_log_, db_.Checkpoint());
    NoteLogPages();
  }
  return more;
}

// Removes some rows of one forgotten job; returns whether there may be more.
absl::StatusOr<bool> SqliteWriter::ForgetSome() {
  Statements& s = statements_;
  ASSIGN_OR_RETURN(const bool any, s.select_forgotten.Step());
  if (!any) return false;
  const uint64_t job = s.select_forgotten.Number(0);
  s.select_forgotten.Reset();
  RETURN_IF_ERROR(Write(/*synced=*/false, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    RETURN_IF_ERROR(s.delete_outputs.Bind(1, job).Bind(2, tuning_.forget_rows).Run());
    if (db_.Changes() > 0) return absl::OkStatus();
    RETURN_IF_ERROR(s.delete_failures.Bind(1, job).Bind(2, tuning_.forget_rows).Run());
    if (db_.Changes() > 0) return absl::OkStatus();
    return s.delete_forgotten.Bind(1, job).Run();
  }));
  return true;
}

}  // namespace tandem::master
