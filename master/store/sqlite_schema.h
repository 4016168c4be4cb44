// The tables of a SqliteStore: made when the database is new, checked when it is not.
//
// Numbers are unsigned in our rows and signed in SQLite: kept bit for bit; ids, tasks and sequence
// numbers stay below 2^63, so their order is the same.
// Thread-safety: as SqliteDb.
#ifndef TANDEM_MASTER_STORE_SQLITE_SCHEMA_H_
#define TANDEM_MASTER_STORE_SQLITE_SCHEMA_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "master/store/sqlite_db.h"

namespace tandem::master {

inline constexpr int kSchemaVersion = 1;

// Makes the tables, or checks that they are ours, of a version that this build knows, and of this
// cluster (empty: any; a new store gets a random id). Returns the cluster's id.
// Errors: FAILED_PRECONDITION (VERSION_SKEW, BAD_FILE), or as SqliteDb.
absl::StatusOr<std::string> PrepareSchema(SqliteDb* db, const std::string& cluster_id);

}  // namespace tandem::master

#endif  // TANDEM_MASTER_STORE_SQLITE_SCHEMA_H_
