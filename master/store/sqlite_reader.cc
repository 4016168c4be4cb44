#include "master/store/sqlite_reader.h"

#include <algorithm>
#include <utility>

#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "master/store/output_page.h"
#include "master/store/page_token.h"

namespace tandem::master {
namespace {

#define TANDEM_OUTPUT_COLUMNS                                                                     \
  "job, output, generation, first_task, task_count, skip_tasks, piece_tasks, checksum, segment, " \
  "offset, length, xxh3, bytes"

// How much of the log is read while other queries wait.
constexpr size_t kCommitsARead = 256;
constexpr size_t kBytesARead = size_t{1} << 20;

// Errors: DATA_LOSS when the row is not what was written.
absl::StatusOr<OutputRow> ReadOutput(const SqliteStatement& s) {
  OutputRow row;
  row.job = JobId(s.Number(0));
  row.output = static_cast<uint32_t>(s.Number(1));
  row.generation = static_cast<uint32_t>(s.Number(2));
  row.first_task = s.Number(3);
  row.task_count = s.Number(4);
  row.skip_tasks = s.Number(5);
  row.piece_tasks = s.Number(6);
  if (s.IsNull(8)) {
    row.where = std::string(s.Bytes(12));
  } else {
    row.where = Region{SegmentId(s.Number(8)), s.Number(9), s.Number(10), s.Number(11)};
  }
  if (RowChecksum(row) == s.Number(7)) return row;
  return Corrupt(StrCat("the output row of job ", row.job, " output ", row.output, " at task ",
                        row.first_task, " is not what was written: its checksum differs"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<SqliteReader>> SqliteReader::Create(SqliteDb db,
                                                                   StoreLimits limits) {
  std::unique_ptr<SqliteReader> reader(new SqliteReader(std::move(db), limits));
  absl::MutexLock lock(&reader->mu_);
  RETURN_IF_ERROR(reader->PrepareAll());
  return reader;
}

absl::Status SqliteReader::PrepareAll() {
  RETURN_IF_ERROR(db_.Execute("PRAGMA query_only = ON"));
  Statements& s = statements_;
  const std::pair<SqliteStatement*, const char*> all[] = {
      {&s.select_meta,
       "SELECT epoch, head_seq, head_checksum, base_seq, base_checksum, projected_seq FROM meta"},
      {&s.select_snapshot, "SELECT seq, checksum, bytes FROM snapshot"},
      {&s.next_commits,
       "SELECT last_seq, batches, epoch, checksum, payload FROM log WHERE last_seq > ? "
       "ORDER BY last_seq"},
      {&s.commit_before,
       "SELECT last_seq, checksum FROM log WHERE last_seq < ? ORDER BY last_seq DESC LIMIT 1"},
      {&s.is_forgotten, "SELECT 1 FROM forgotten WHERE job = ?"},
      {&s.next_generation,
       "SELECT min(generation) FROM outputs WHERE job = ? AND output = ? AND generation >= ?"},
      {&s.output_before, "SELECT " TANDEM_OUTPUT_COLUMNS
                         " FROM outputs WHERE job = ? AND output = ? AND generation = ? AND "
                         "first_task < ? ORDER BY first_task DESC LIMIT 1"},
      {&s.outputs_from, "SELECT " TANDEM_OUTPUT_COLUMNS
                        " FROM outputs WHERE job = ? AND output = ? AND generation = ? AND "
                        "first_task >= ? ORDER BY first_task"},
      {&s.failures_from,
       "SELECT task, attempt, reason FROM failures WHERE job = ? AND (task, attempt) >= (?, ?) "
       "ORDER BY task, attempt LIMIT ?"},
      {&s.referenced_segments,
       "SELECT DISTINCT segment FROM outputs WHERE segment IS NOT NULL AND job NOT IN "
       "(SELECT job FROM forgotten) ORDER BY segment"},
      {&s.find_job, "SELECT * FROM jobs WHERE id = ?"},
      {&s.find_spec, "SELECT spec FROM job_specs WHERE job = ?"},
      {&s.find_labels, "SELECT key, value FROM job_labels WHERE job = ?"},
  };
  for (const auto& [statement, sql] : all) {
    ASSIGN_OR_RETURN(*statement, db_.Prepare(sql));
  }
  return absl::OkStatus();
}

absl::StatusOr<SqliteReader::Meta> SqliteReader::ReadMeta() {
  SqliteStatement& s = statements_.select_meta;
  ResetOnExit reset(&s);
  ASSIGN_OR_RETURN(const bool found, s.Step());
  if (!found) return Corrupt("the row that says where the log ends is gone");
  return Meta{Epoch(s.Number(0)), s.Number(1), s.Number(2), s.Number(3), s.Number(4), s.Number(5)};
}

absl::StatusOr<Epoch> SqliteReader::CurrentEpoch() {
  absl::MutexLock lock(&mu_);
  ASSIGN_OR_RETURN(const Meta meta, ReadMeta());
  return meta.epoch;
}

absl::StatusOr<uint64_t> SqliteReader::ProjectedSeq() {
  absl::MutexLock lock(&mu_);
  ASSIGN_OR_RETURN(const Meta meta, ReadMeta());
  return meta.projected_seq;
}

absl::StatusOr<SqliteReader::Link> SqliteReader::LinkBefore(uint64_t seq) {
  absl::MutexLock lock(&mu_);
  ASSIGN_OR_RETURN(const Meta meta, ReadMeta());
  if (seq <= meta.base_seq) return LogBeginsLater(seq, meta.base_seq);
  SqliteStatement& s = statements_.commit_before;
  ResetOnExit reset(&s);
  ASSIGN_OR_RETURN(const bool found, s.Bind(1, seq).Step());
  if (!found) return Link{meta.base_seq, meta.base_checksum};
  return Link{s.Number(0), s.Number(1)};
}

absl::StatusOr<std::vector<SqliteReader::Commit>> SqliteReader::NextCommits(const Link& previous) {
  absl::MutexLock lock(&mu_);
  SqliteStatement& s = statements_.next_commits;
  ResetOnExit reset(&s);
  s.Bind(1, previous.seq);
  Link link = previous;
  std::vector<Commit> commits;
  for (size_t bytes = 0; commits.size() < kCommitsARead && bytes < kBytesARead;) {
    ASSIGN_OR_RETURN(const bool found, s.Step());
    if (!found) break;
    const CommitHeader header{s.Number(0), s.Number(1), Epoch(s.Number(2)), s.Number(3)};
    const std::string_view payload = s.Bytes(4);
    RETURN_IF_ERROR(CheckLink(link.seq, link.checksum, header, payload));
    link = {header.last_seq, header.checksum};
    bytes += payload.size();
    commits.push_back({header, std::string(payload)});
  }
  return commits;
}

absl::Status SqliteReader::ReadFrom(uint64_t seq, const Store::Visitor& visit) {
  seq = std::max<uint64_t>(seq, 1);
  ASSIGN_OR_RETURN(Link link, LinkBefore(seq));
  while (true) {
    ASSIGN_OR_RETURN(const std::vector<Commit> commits, NextCommits(link));
    if (commits.empty()) return absl::OkStatus();
    for (const Commit& commit : commits) {
      RETURN_IF_ERROR(VisitBatches(commit.header, commit.payload, seq, visit));
    }
    link = {commits.back().header.last_seq, commits.back().header.checksum};
  }
}

absl::StatusOr<uint64_t> SqliteReader::CheckLog() {
  Meta meta;
  {
    absl::MutexLock lock(&mu_);
    ASSIGN_OR_RETURN(meta, ReadMeta());
  }
  Link link{meta.base_seq, meta.base_checksum};
  uint64_t count = 0;
  while (link.seq < meta.head_seq) {
    ASSIGN_OR_RETURN(const std::vector<Commit> commits, NextCommits(link));
    if (commits.empty()) break;
    count += commits.size();
    link = {commits.back().header.last_seq, commits.back().header.checksum};
  }
  if (link.seq != meta.head_seq || link.checksum != meta.head_checksum) {
    return Corrupt(StrCat("the log ends at sequence ", link.seq, ", but commits up to ",
                          meta.head_seq, " were made durable: its end is lost"));
  }
  ASSIGN_OR_RETURN(const std::optional<Snapshot> snapshot, LoadSnapshot());
  const uint64_t snapshot_seq = snapshot.has_value() ? snapshot->seq : 0;
  if (snapshot_seq < meta.base_seq || snapshot_seq > meta.head_seq) {
    return Corrupt(StrCat("the snapshot holds the state up to sequence ", snapshot_seq,
                          ", but the log goes from ", meta.base_seq + 1, " to ", meta.head_seq,
                          ": they are not of one store"));
  }
  return count;
}

absl::StatusOr<std::optional<Snapshot>> SqliteReader::LoadSnapshot() {
  absl::MutexLock lock(&mu_);
  SqliteStatement& s = statements_.select_snapshot;
  ResetOnExit reset(&s);
  ASSIGN_OR_RETURN(const bool found, s.Step());
  if (!found) return std::optional<Snapshot>();
  Snapshot snapshot{s.Number(0), std::string(s.Bytes(2))};
  if (SnapshotChecksum(snapshot.seq, snapshot.bytes) != s.Number(1)) {
    return Corrupt(StrCat("the snapshot at sequence ", snapshot.seq,
                          " is not what was written: its checksum differs"));
  }
  return std::optional<Snapshot>(std::move(snapshot));
}

absl::StatusOr<bool> SqliteReader::IsForgotten(JobId job) {
  ResetOnExit reset(&statements_.is_forgotten);
  return statements_.is_forgotten.Bind(1, job.value()).Step();
}

absl::StatusOr<OutputPage> SqliteReader::OutputsOf(JobId job, uint32_t output, uint64_t first_task,
                                                   uint64_t task_count) {
  absl::MutexLock lock(&mu_);
  ASSIGN_OR_RETURN(SqliteTransaction transaction, SqliteTransaction::Begin(&db_, /*writes=*/false));
  OutputPageBuilder builder(limits_, first_task, task_count);
  ASSIGN_OR_RETURN(const bool forgotten, IsForgotten(job));
  if (forgotten) return std::move(builder).Finish();
  Statements& s = statements_;
  // Inside a generation rows do not overlap, so of those that begin before the page only the last
  // can reach into it.
  for (uint64_t generation = 0;; ++generation) {
    s.next_generation.Bind(1, job.value()).Bind(2, output).Bind(3, generation);
    {
      ResetOnExit reset(&s.next_generation);
      ASSIGN_OR_RETURN(const bool any, s.next_generation.Step());
      if (!any || s.next_generation.IsNull(0)) break;
      generation = s.next_generation.Number(0);
    }
    builder.StartGeneration();
    for (SqliteStatement* statement : {&s.output_before, &s.outputs_from}) {
      ResetOnExit reset(statement);
      statement->Bind(1, job.value()).Bind(2, output).Bind(3, generation).Bind(4, first_task);
      while (true) {
        ASSIGN_OR_RETURN(const bool row, statement->Step());
        // Bytes of a row that is not wanted need not be read.
        if (!row || statement->Number(3) >= builder.end()) break;
        ASSIGN_OR_RETURN(OutputRow read, ReadOutput(*statement));
        if (!builder.Add(std::move(read))) break;
      }
    }
  }
  return std::move(builder).Finish();
}

absl::StatusOr<FailurePage> SqliteReader::FailuresOf(JobId job, uint32_t page_size,
                                                     std::string_view page_token) {
  ASSIGN_OR_RETURN(const FailurePlace place, ParseFailurePlace(page_token));
  const uint32_t rows = PageRows(page_size, limits_.page_rows_max);
  absl::MutexLock lock(&mu_);
  FailurePage page;
  ASSIGN_OR_RETURN(const bool forgotten, IsForgotten(job));
  if (forgotten) return page;
  SqliteStatement& s = statements_.failures_from;
  ResetOnExit reset(&s);
  s.Bind(1, job.value()).Bind(2, place.task).Bind(3, place.attempt).Bind(4, uint64_t{rows} + 1);
  while (true) {
    ASSIGN_OR_RETURN(const bool row, s.Step());
    if (!row) return page;
    TaskFailure failure{s.Number(0), static_cast<uint32_t>(s.Number(1)), std::string(s.Bytes(2))};
    if (page.rows.size() == rows) {
      page.next_page_token = ToPageToken(FailurePlace{failure.task, failure.attempt});
      return page;
    }
    page.rows.push_back({job, std::move(failure)});
  }
}

absl::StatusOr<std::vector<SegmentId>> SqliteReader::ReferencedSegments() {
  absl::MutexLock lock(&mu_);
  SqliteStatement& s = statements_.referenced_segments;
  ResetOnExit reset(&s);
  std::vector<SegmentId> segments;
  while (true) {
    ASSIGN_OR_RETURN(const bool row, s.Step());
    if (!row) return segments;
    segments.push_back(SegmentId(s.Number(0)));
  }
}

absl::StatusOr<uint64_t> SqliteReader::CheckOutputs(std::vector<std::string>* problems) {
  absl::MutexLock lock(&mu_);
  ASSIGN_OR_RETURN(SqliteStatement s, db_.Prepare("SELECT " TANDEM_OUTPUT_COLUMNS " FROM outputs"));
  uint64_t whole = 0;
  while (true) {
    ASSIGN_OR_RETURN(const bool row, s.Step());
    if (!row) return whole;
    const absl::Status status = ReadOutput(s).status();
    if (status.ok()) {
      ++whole;
    } else {
      problems->emplace_back(ToStd(status.message()));
    }
  }
}

absl::Status SqliteReader::CheckPages(std::vector<std::string>* problems) {
  absl::MutexLock lock(&mu_);
  ASSIGN_OR_RETURN(SqliteStatement check, db_.Prepare("PRAGMA integrity_check"));
  while (true) {
    ASSIGN_OR_RETURN(const bool row, check.Step());
    if (!row) return absl::OkStatus();
    if (check.Bytes(0) != "ok") problems->emplace_back(check.Bytes(0));
  }
}

}  // namespace tandem::master
