#include "master/store/sqlite_schema.h"

#include <cstdint>
#include <random>

#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace tandem::master {
namespace {

constexpr uint64_t kApplicationId = 0x544e444d;  // "TNDM"

constexpr char kTables[] = R"sql(
  CREATE TABLE meta (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    cluster TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    head_seq INTEGER NOT NULL, head_checksum INTEGER NOT NULL,   -- the last commit
    base_seq INTEGER NOT NULL, base_checksum INTEGER NOT NULL,   -- the commit before the first kept
    projected_seq INTEGER NOT NULL);
  CREATE TABLE log (
    last_seq INTEGER PRIMARY KEY,
    batches INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    payload BLOB NOT NULL);
  CREATE TABLE snapshot (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    seq INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    bytes BLOB NOT NULL);
  -- Inline rows have bytes, rows of a segment the four columns before them.
  CREATE TABLE outputs (
    job INTEGER NOT NULL, output INTEGER NOT NULL, generation INTEGER NOT NULL,
    first_task INTEGER NOT NULL,
    task_count INTEGER NOT NULL, skip_tasks INTEGER NOT NULL, piece_tasks INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    segment INTEGER, offset INTEGER, length INTEGER, xxh3 INTEGER,
    bytes BLOB,
    PRIMARY KEY (job, output, generation, first_task)) WITHOUT ROWID;
  CREATE INDEX outputs_by_segment ON outputs (segment) WHERE segment IS NOT NULL;
  CREATE TABLE failures (
    job INTEGER NOT NULL, task INTEGER NOT NULL, attempt INTEGER NOT NULL,
    reason TEXT NOT NULL,
    PRIMARY KEY (job, task, attempt)) WITHOUT ROWID;
  CREATE TABLE forgotten (job INTEGER PRIMARY KEY);
  -- The history: lags behind the log.
  CREATE TABLE jobs (
    id INTEGER PRIMARY KEY,
    owner TEXT NOT NULL, name TEXT NOT NULL, kernel TEXT NOT NULL,
    state INTEGER NOT NULL, priority INTEGER NOT NULL,
    task_count INTEGER NOT NULL, done INTEGER NOT NULL, failed INTEGER NOT NULL,
    reason TEXT NOT NULL,
    submitted INTEGER NOT NULL, started INTEGER NOT NULL, ended INTEGER NOT NULL);  -- ns, UTC
  CREATE INDEX jobs_by_owner ON jobs (owner, id);
  CREATE TABLE job_specs (job INTEGER PRIMARY KEY, spec BLOB NOT NULL);
  CREATE TABLE job_labels (
    job INTEGER NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL,
    PRIMARY KEY (job, key)) WITHOUT ROWID;
  CREATE INDEX job_labels_by_value ON job_labels (key, value, job);
)sql";

std::string RandomId() {
  std::random_device device;
  uint32_t words[4];
  for (uint32_t& word : words) word = device();
  return ToHex(words, sizeof(words));
}

absl::Status Refuse(std::string_view reason, std::string_view message) {
  return Error(absl::StatusCode::kFailedPrecondition, reason, message);
}

absl::Status Create(SqliteDb* db, const std::string& cluster_id) {
  ASSIGN_OR_RETURN(SqliteTransaction transaction, SqliteTransaction::Begin(db, /*writes=*/true));
  RETURN_IF_ERROR(db->Execute(kTables));
  RETURN_IF_ERROR(db->Execute(StrCat("PRAGMA application_id = ", kApplicationId).c_str()));
  RETURN_IF_ERROR(db->Execute(StrCat("PRAGMA user_version = ", kSchemaVersion).c_str()));
  ASSIGN_OR_RETURN(SqliteStatement meta,
                   db->Prepare("INSERT INTO meta VALUES (1, ?, 0, 0, 0, 0, 0, 0)"));
  RETURN_IF_ERROR(meta.BindText(1, cluster_id).Run());
  return transaction.Commit();
}

absl::Status Check(SqliteDb* db) {
  ASSIGN_OR_RETURN(const uint64_t application, db->QueryNumber("PRAGMA application_id"));
  if (application != kApplicationId) {
    return Refuse(reason::kBadFile, "the database there is not a store of Tandem");
  }
  ASSIGN_OR_RETURN(const uint64_t version, db->QueryNumber("PRAGMA user_version"));
  if (version > static_cast<uint64_t>(kSchemaVersion)) {
    return Refuse(reason::kVersionSkew,
                  StrCat("the store has schema version ", version, ", this build knows up to ",
                         kSchemaVersion, ": run the newer tandem-master"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> PrepareSchema(SqliteDb* db, const std::string& cluster_id) {
  ASSIGN_OR_RETURN(const uint64_t tables, db->QueryNumber("SELECT count(*) FROM sqlite_schema"));
  if (tables == 0) {
    RETURN_IF_ERROR(Create(db, cluster_id.empty() ? RandomId() : cluster_id));
  } else {
    RETURN_IF_ERROR(Check(db));
  }
  ASSIGN_OR_RETURN(SqliteStatement select, db->Prepare("SELECT cluster FROM meta WHERE id = 1"));
  ASSIGN_OR_RETURN(const bool found, select.Step());
  if (!found) {
    return Error(absl::StatusCode::kDataLoss, reason::kStoreCorrupt,
                 "the row that says where the log ends is gone");
  }
  std::string present(select.Bytes(0));
  if (!cluster_id.empty() && present != cluster_id) {
    return Refuse(reason::kBadFile, StrCat("the store belongs to cluster ", present, ", not to ",
                                           cluster_id, ": use its own data directory"));
  }
  return present;
}

}  // namespace tandem::master
