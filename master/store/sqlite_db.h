// SqliteDb and SqliteStatement: SQLite with our errors and without raw pointers.
//
//   ASSIGN_OR_RETURN(SqliteStatement insert, db.Prepare("INSERT INTO t VALUES (?, ?)"));
//   insert.Bind(1, 7).Bind(2, std::string_view("bytes"));
//   RETURN_IF_ERROR(insert.Run());
//
// Errors of every call: RESOURCE_EXHAUSTED (JOURNAL_FULL) for a full disk, DATA_LOSS
// (STORE_CORRUPT), ALREADY_EXISTS for a key that is there, INTERNAL (JOURNAL_IO) for the disk and
// INTERNAL (STORE_FAILED) for the rest; the message has SQLite's own words.
// Thread-safety: a database and its statements belong to one thread at a time.
// Ownership: a database outlives its statements.
#ifndef TANDEM_MASTER_STORE_SQLITE_DB_H_
#define TANDEM_MASTER_STORE_SQLITE_DB_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

struct sqlite3;
struct sqlite3_stmt;

namespace tandem::master {

class SqliteStatement {
 public:
  SqliteStatement() = default;

  // Numbers are kept bit for bit in SQLite's signed ones. Bytes must live until the next Reset.
  SqliteStatement& Bind(int index, uint64_t value);
  SqliteStatement& BindBytes(int index, std::string_view bytes);
  SqliteStatement& BindText(int index, std::string_view text);
  SqliteStatement& BindNull(int index);

  // Goes to the next row; false: there is none, and the statement is ready to be bound again. A
  // statement that is not read to its end must be Reset.
  absl::StatusOr<bool> Step();
  // Steps to the end and resets, whatever comes.
  absl::Status Run();
  void Reset();

  // Of the present row. Views live until the next Step or Reset.
  uint64_t Number(int column) const;
  std::string_view Bytes(int column) const;
  bool IsNull(int column) const;

 private:
  friend class SqliteDb;
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

// Resets a statement when a scope ends, so that no early return leaves a read transaction open.
class ResetOnExit {
 public:
  explicit ResetOnExit(SqliteStatement* statement) : statement_(statement) {}
  ~ResetOnExit() { statement_->Reset(); }
  ResetOnExit(const ResetOnExit&) = delete;
  ResetOnExit& operator=(const ResetOnExit&) = delete;

 private:
  SqliteStatement* const statement_;
};

class SqliteDb {
 public:
  SqliteDb() = default;
  SqliteDb(SqliteDb&& other) noexcept = default;
  SqliteDb& operator=(SqliteDb&& other) noexcept = default;

  // Makes the file where it is not there. `vfs` empty: the default one.
  static absl::StatusOr<SqliteDb> Open(const std::string& path, const std::string& vfs);

  absl::Status Execute(const char* sql);
  absl::StatusOr<SqliteStatement> Prepare(std::string_view sql);
  // The first column of the first row; 0 when there is none.
  absl::StatusOr<uint64_t> QueryNumber(std::string_view sql);
  // Rows changed by the last statement.
  int64_t Changes() const;
  // Moves what the write-ahead log holds into the database, as far as readers allow. Returns the
  // pages that are still only in the log.
  absl::StatusOr<int> Checkpoint();
  // *pages becomes the length of the write-ahead log at each commit.
  void CountLogPages(int* pages);

  sqlite3* get() const { return db_.get(); }

 private:
  struct Close {
    void operator()(sqlite3* db) const;
  };
  std::unique_ptr<sqlite3, Close> db_;
};

// BEGIN … COMMIT; rolls back when it is destroyed before Commit succeeded.
class SqliteTransaction {
 public:
  // `writes`: takes the write lock at once.
  static absl::StatusOr<SqliteTransaction> Begin(SqliteDb* db, bool writes);
  SqliteTransaction(SqliteTransaction&& other) noexcept;
  ~SqliteTransaction();
  absl::Status Commit();

 private:
  explicit SqliteTransaction(SqliteDb* db) : db_(db) {}
  SqliteDb* db_;  // nullptr: over.
};

// The status of a result code, with SQLite's message.
absl::Status SqliteError(int code, std::string_view message);

}  // namespace tandem::master

#endif  // TANDEM_MASTER_STORE_SQLITE_DB_H_
