#include "master/store/sqlite_store.h"

#include <utility>

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "master/store/sqlite_db.h"
#include "master/store/sqlite_schema.h"
#include "master/store/wal_check.h"

namespace tandem::master {
namespace {

absl::Status Configure(SqliteDb* db, const SqliteTuning& tuning) {
  RETURN_IF_ERROR(db->Execute("PRAGMA page_size = 4096"));
  RETURN_IF_ERROR(db->Execute("PRAGMA trusted_schema = OFF"));
  RETURN_IF_ERROR(db->Execute("PRAGMA cell_size_check = ON"));
  RETURN_IF_ERROR(db->Execute("PRAGMA journal_mode = WAL"));
  RETURN_IF_ERROR(db->Execute("PRAGMA synchronous = FULL"));
  RETURN_IF_ERROR(db->Execute("PRAGMA wal_autocheckpoint = 0"));
  RETURN_IF_ERROR(db->Execute("PRAGMA temp_store = MEMORY"));
  if (tuning.pages_max > 0) {
    RETURN_IF_ERROR(db->Execute(StrCat("PRAGMA max_page_count = ", tuning.pages_max).c_str()));
  }
  return db->Execute(StrCat("PRAGMA cache_size = -", tuning.cache_kib).c_str());
}

}  // namespace

absl::StatusOr<std::unique_ptr<SqliteStore>> SqliteStore::Open(const SqliteStoreOptions& options) {
  ASSIGN_OR_RETURN(StoreLock lock, StoreLock::Acquire(options.directory));
  std::unique_ptr<SqliteStore> store(
      new SqliteStore(std::move(lock), options.directory + "/master.db", options));
  const absl::Status status = store->OpenConnections();
  if (status.ok()) return store;
  return WithContext(status, StrCat("opening the store ", store->path_));
}

absl::Status SqliteStore::OpenConnections() {
  ASSIGN_OR_RETURN(const uint64_t torn, CheckWal(path_ + "-wal"));
  if (torn > 0) TLOG(Warning, "store_torn_end_cut", "path", path_, "bytes", torn);
  ASSIGN_OR_RETURN(SqliteDb db, SqliteDb::Open(path_, options_.vfs));
  RETURN_IF_ERROR(Configure(&db, options_.tuning));
  ASSIGN_OR_RETURN(cluster_id_, PrepareSchema(&db, options_.cluster_id));
  ASSIGN_OR_RETURN(writer_, SqliteWriter::Create(std::move(db), options_.limits, options_.tuning));
  ASSIGN_OR_RETURN(SqliteDb reading, SqliteDb::Open(path_, options_.vfs));
  ASSIGN_OR_RETURN(reader_, SqliteReader::Create(std::move(reading), options_.limits));
  return reader_->CheckLog().status();
}

absl::StatusOr<VerifyReport> SqliteStore::Verify() {
  // A connection of its own, so that queries go on.
  ASSIGN_OR_RETURN(SqliteDb db, SqliteDb::Open(path_, options_.vfs));
  ASSIGN_OR_RETURN(const std::unique_ptr<SqliteReader> reader,
                   SqliteReader::Create(std::move(db), options_.limits));
  VerifyReport report;
  const absl::StatusOr<uint64_t> commits = reader->CheckLog();
  if (commits.ok()) {
    report.commits = *commits;
  } else {
    report.problems.emplace_back(ToStd(commits.status().message()));
  }
  const absl::StatusOr<uint64_t> rows = reader->CheckOutputs(&report.problems);
  if (rows.ok()) {
    report.output_rows = *rows;
  } else {
    report.problems.emplace_back(ToStd(rows.status().message()));
  }
  const absl::Status pages = reader->CheckPages(&report.problems);
  if (!pages.ok()) report.problems.emplace_back(ToStd(pages.message()));
  return report;
}

}  // namespace tandem::master
