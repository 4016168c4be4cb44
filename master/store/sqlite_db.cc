#include "master/store/sqlite_db.h"

#include <sqlite3.h>

#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace tandem::master {
namespace {

absl::Status ErrorOf(sqlite3* db, std::string_view what) {
  return SqliteError(sqlite3_extended_errcode(db), StrCat(what, ": ", sqlite3_errmsg(db)));
}

}  // namespace

absl::Status SqliteError(int code, std::string_view message) {
  using absl::StatusCode;
  if (code == SQLITE_CONSTRAINT_PRIMARYKEY || code == SQLITE_CONSTRAINT_UNIQUE ||
      code == SQLITE_CONSTRAINT_ROWID) {
    return Error(StatusCode::kAlreadyExists, reason::kInternal,
                 StrCat(message, ": a result is recorded once"));
  }
  switch (code & 0xff) {
    case SQLITE_FULL:
      return Error(StatusCode::kResourceExhausted, reason::kJournalFull,
                   StrCat(message, "; make room on the disk of the data directory"));
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return Error(StatusCode::kDataLoss, reason::kStoreCorrupt, message);
    case SQLITE_IOERR:
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
      return Error(StatusCode::kInternal, reason::kJournalIo,
                   StrCat(message, " (SQLite's code ", code, "); look at the disk"));
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return Error(StatusCode::kUnavailable, reason::kStoreLocked,
                   StrCat(message, ": another process has the database open"));
    default:
      return Error(StatusCode::kInternal, reason::kStoreFailed,
                   StrCat(message, " (SQLite's code ", code, ")"));
  }
}

void SqliteStatement::Finalize::operator()(sqlite3_stmt* statement) const {
  sqlite3_finalize(statement);
}

// A bind fails only for an index that the statement has not, or for bytes over SQLite's limit of
// 1 GB; then the value stays NULL, and the columns are NOT NULL.
SqliteStatement& SqliteStatement::Bind(int index, uint64_t value) {
  sqlite3_bind_int64(statement_.get(), index, static_cast<sqlite3_int64>(value));
  return *this;
}
SqliteStatement& SqliteStatement::BindBytes(int index, std::string_view bytes) {
  // A null pointer would bind NULL.
  sqlite3_bind_blob64(statement_.get(), index, bytes.data() == nullptr ? "" : bytes.data(),
                      bytes.size(), SQLITE_STATIC);
  return *this;
}
SqliteStatement& SqliteStatement::BindText(int index, std::string_view text) {
  sqlite3_bind_text64(statement_.get(), index, text.data() == nullptr ? "" : text.data(),
                      text.size(), SQLITE_STATIC, SQLITE_UTF8);
  return *this;
}
SqliteStatement& SqliteStatement::BindNull(int index) {
  sqlite3_bind_null(statement_.get(), index);
  return *this;
}

absl::StatusOr<bool> SqliteStatement::Step() {
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) {
    sqlite3_reset(statement_.get());
    return false;
  }
  const absl::Status status =
      ErrorOf(sqlite3_db_handle(statement_.get()), sqlite3_sql(statement_.get()));
  sqlite3_reset(statement_.get());
  return status;
}

absl::Status SqliteStatement::Run() {
  while (true) {
    ASSIGN_OR_RETURN(const bool row, Step());
    if (!row) return absl::OkStatus();
  }
}

void SqliteStatement::Reset() { sqlite3_reset(statement_.get()); }

uint64_t SqliteStatement::Number(int column) const {
  return static_cast<uint64_t>(sqlite3_column_int64(statement_.get(), column));
}
std::string_view SqliteStatement::Bytes(int column) const {
  const void* bytes = sqlite3_column_blob(statement_.get(), column);
  const int size = sqlite3_column_bytes(statement_.get(), column);
  return std::string_view(static_cast<const char*>(bytes), static_cast<size_t>(size));
}
bool SqliteStatement::IsNull(int column) const {
  return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL;
}

void SqliteDb::Close::operator()(sqlite3* db) const { sqlite3_close_v2(db); }

absl::StatusOr<SqliteDb> SqliteDb::Open(const std::string& path, const std::string& vfs) {
  sqlite3* raw = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &raw,
                                   SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
                                   vfs.empty() ? nullptr : vfs.c_str());
  SqliteDb db;
  db.db_.reset(raw);
  if (raw == nullptr) return absl::ResourceExhaustedError("no memory for a database connection");
  sqlite3_extended_result_codes(raw, 1);
  if (code != SQLITE_OK) return ErrorOf(raw, StrCat("opening ", path));
  return db;
}

absl::Status SqliteDb::Execute(const char* sql) {
  if (sqlite3_exec(db_.get(), sql, nullptr, nullptr, nullptr) == SQLITE_OK) {
    return absl::OkStatus();
  }
  return ErrorOf(db_.get(), sql);
}

absl::StatusOr<SqliteStatement> SqliteDb::Prepare(std::string_view sql) {
  sqlite3_stmt* raw = nullptr;
  if (sqlite3_prepare_v3(db_.get(), sql.data(), static_cast<int>(sql.size()),
                         SQLITE_PREPARE_PERSISTENT, &raw, nullptr) != SQLITE_OK) {
    return ErrorOf(db_.get(), sql);
  }
  SqliteStatement statement;
  statement.statement_.reset(raw);
  return statement;
}

absl::StatusOr<uint64_t> SqliteDb::QueryNumber(std::string_view sql) {
  ASSIGN_OR_RETURN(SqliteStatement statement, Prepare(sql));
  ASSIGN_OR_RETURN(const bool row, statement.Step());
  return row ? statement.Number(0) : 0;
}

int64_t SqliteDb::Changes() const { return sqlite3_changes64(db_.get()); }

absl::StatusOr<int> SqliteDb::Checkpoint() {
  int in_log = 0;
  int moved = 0;
  const int code =
      sqlite3_wal_checkpoint_v2(db_.get(), nullptr, SQLITE_CHECKPOINT_PASSIVE, &in_log, &moved);
  if (code != SQLITE_OK && code != SQLITE_BUSY) {
    return ErrorOf(db_.get(), "moving the write-ahead log into the database");
  }
  return in_log - moved;
}

void SqliteDb::CountLogPages(int* pages) {
  sqlite3_wal_hook(
      db_.get(),
      [](void* to, sqlite3*, const char*, int count) {
        *static_cast<int*>(to) = count;
        return SQLITE_OK;
      },
      pages);
}

absl::StatusOr<SqliteTransaction> SqliteTransaction::Begin(SqliteDb* db, bool writes) {
  RETURN_IF_ERROR(db->Execute(writes ? "BEGIN IMMEDIATE" : "BEGIN"));
  return SqliteTransaction(db);
}

SqliteTransaction::SqliteTransaction(SqliteTransaction&& other) noexcept : db_(other.db_) {
  other.db_ = nullptr;
}

SqliteTransaction::~SqliteTransaction() {
  // SQLite may have rolled back by itself, then there is nothing left to do.
  if (db_ != nullptr && sqlite3_get_autocommit(db_->get()) == 0) {
    db_->Execute("ROLLBACK").IgnoreError();
  }
}

absl::Status SqliteTransaction::Commit() {
  RETURN_IF_ERROR(db_->Execute("COMMIT"));
  db_ = nullptr;
  return absl::OkStatus();
}

}  // namespace tandem::master
