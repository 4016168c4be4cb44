// SqliteReader's half that answers questions about the history of jobs.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "master/store/output_page.h"
#include "master/store/page_token.h"
#include "master/store/sqlite_reader.h"
#include "master/store/wall_time.h"

namespace tandem::master {
namespace {

JobRow ReadJob(const SqliteStatement& s) {
  JobRow row;
  row.id = JobId(s.Number(0));
  row.owner = s.Bytes(1);
  row.name = s.Bytes(2);
  row.kernel = s.Bytes(3);
  row.state = static_cast<uint32_t>(s.Number(4));
  row.priority = static_cast<int32_t>(s.Number(5));
  row.task_count = s.Number(6);
  row.done = s.Number(7);
  row.failed = s.Number(8);
  row.reason = s.Bytes(9);
  row.submitted = FromStoredTime(s.Number(10));
  row.started = FromStoredTime(s.Number(11));
  row.ended = FromStoredTime(s.Number(12));
  return row;
}

// The query for one filter; its values are bound by BindFilter in the same order.
std::string QueryFor(const JobFilter& filter) {
  std::string sql = "SELECT * FROM jobs WHERE id < ?";
  if (!filter.owner.empty()) sql += " AND owner = ?";
  if (!filter.states.empty()) {
    sql += " AND state IN (?";
    for (size_t i = 1; i < filter.states.size(); ++i) sql += ",?";
    sql += ")";
  }
  // Compared byte by byte: LIKE has letters of its own.
  if (!filter.name_prefix.empty()) {
    sql += " AND CAST(substr(CAST(name AS BLOB), 1, ?) AS BLOB) = CAST(? AS BLOB)";
  }
  if (!filter.kernel.empty()) {
    sql += " AND (kernel = ? OR substr(kernel, 1, length(?) + 1) = ? || '@')";
  }
  if (filter.submitted_since != absl::InfinitePast()) sql += " AND submitted >= ?";
  for (size_t i = 0; i < filter.labels.size(); ++i) {
    sql += " AND id IN (SELECT job FROM job_labels WHERE key = ? AND value = ?)";
  }
  return sql + " ORDER BY id DESC LIMIT ?";
}

void BindFilter(const JobFilter& filter, JobId older_than, uint64_t rows, SqliteStatement* s) {
  int at = 1;
  s->Bind(at++, older_than.value());
  if (!filter.owner.empty()) s->BindText(at++, filter.owner);
  for (const uint32_t state : filter.states) s->Bind(at++, state);
  if (!filter.name_prefix.empty()) {
    s->Bind(at++, filter.name_prefix.size());
    s->BindText(at++, filter.name_prefix);
  }
  if (!filter.kernel.empty()) {
    for (int i = 0; i < 3; ++i) s->BindText(at++, filter.kernel);
  }
  if (filter.submitted_since != absl::InfinitePast()) {
    s->Bind(at++, ToStoredTime(filter.submitted_since));
  }
  for (const auto& [key, value] : filter.labels) {
    s->BindText(at++, key);
    s->BindText(at++, value);
  }
  s->Bind(at, rows);
}

}  // namespace

absl::StatusOr<std::vector<JobRow>> SqliteReader::SelectJobs(const JobFilter& filter,
                                                             JobId older_than, uint32_t rows) {
  ASSIGN_OR_RETURN(SqliteStatement select, db_.Prepare(QueryFor(filter)));
  BindFilter(filter, older_than, rows, &select);
  std::vector<JobRow> jobs;
  while (true) {
    ASSIGN_OR_RETURN(const bool row, select.Step());
    if (!row) return jobs;
    jobs.push_back(ReadJob(select));
  }
}

absl::Status SqliteReader::AddLabels(JobRow* row) {
  SqliteStatement& s = statements_.find_labels;
  ResetOnExit reset(&s);
  s.Bind(1, row->id.value());
  while (true) {
    ASSIGN_OR_RETURN(const bool found, s.Step());
    if (!found) return absl::OkStatus();
    row->labels.emplace(s.Bytes(0), s.Bytes(1));
  }
}

absl::StatusOr<JobPage> SqliteReader::ListJobs(const JobFilter& filter, uint32_t page_size,
                                               std::string_view page_token) {
  ASSIGN_OR_RETURN(const JobId older_than, ParseOlderThan(page_token));
  const uint32_t rows = PageRows(page_size, limits_.page_rows_max);
  absl::MutexLock lock(&mu_);
  ASSIGN_OR_RETURN(SqliteTransaction transaction, SqliteTransaction::Begin(&db_, /*writes=*/false));
  JobPage page;
  ASSIGN_OR_RETURN(page.rows, SelectJobs(filter, older_than, rows + 1));
  if (page.rows.size() > rows) {
    page.rows.pop_back();
    page.next_page_token = ToPageToken(page.rows.back().id);
  }
  for (JobRow& row : page.rows) RETURN_IF_ERROR(AddLabels(&row));
  return page;
}

absl::StatusOr<JobRow> SqliteReader::FindJob(JobId job) {
  absl::MutexLock lock(&mu_);
  ASSIGN_OR_RETURN(SqliteTransaction transaction, SqliteTransaction::Begin(&db_, /*writes=*/false));
  SqliteStatement& s = statements_.find_job;
  ResetOnExit reset(&s);
  ASSIGN_OR_RETURN(const bool found, s.Bind(1, job.value()).Step());
  if (!found) return NoJob(job);
  JobRow row = ReadJob(s);
  RETURN_IF_ERROR(AddLabels(&row));
  SqliteStatement& spec = statements_.find_spec;
  ResetOnExit reset_spec(&spec);
  ASSIGN_OR_RETURN(const bool has_spec, spec.Bind(1, job.value()).Step());
  if (has_spec) row.spec = std::string(spec.Bytes(0));
  return row;
}

}  // namespace tandem::master
