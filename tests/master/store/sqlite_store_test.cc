#include "master/store/sqlite_store.h"

#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <string>

#include "common/base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "master/store/sqlite_db.h"
#include "tests/master/store/fault_vfs.h"
#include "tests/master/store/store_builders.h"

namespace tandem::master {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class SqliteStoreTest : public ::testing::Test {
 protected:
  SqliteStoreTest() { options_.directory = directory_.path(); }

  absl::Status Open() {
    store_.reset();
    auto store = SqliteStore::Open(options_);
    if (!store.ok()) return store.status();
    store_ = *std::move(store);
    auto epoch = store_->RaiseEpoch();
    if (epoch.ok()) epoch_ = *epoch;
    return epoch.status();
  }
  absl::Status Append(AppendBatch batch) { return store_->Append(epoch_, {&batch, 1}).status(); }
  // Runs SQL on the closed store, as a vandal would.
  void Vandalise(const std::string& sql) {
    store_.reset();
    auto db = SqliteDb::Open(directory_.path() + "/master.db", "");
    ASSERT_TRUE(db.ok());
    const absl::Status status = db->Execute(sql.c_str());
    ASSERT_TRUE(status.ok()) << status;
  }

  ScratchDirectory directory_;
  SqliteStoreOptions options_;
  std::unique_ptr<SqliteStore> store_;
  Epoch epoch_;
};

TEST_F(SqliteStoreTest, ASecondOpenerIsRefusedNamingTheFirst) {
  ASSERT_TRUE(Open().ok());
  const absl::Status status = SqliteStore::Open(options_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ReasonOf(status), reason::kStoreLocked);
  EXPECT_THAT(std::string(status.message()), HasSubstr(std::to_string(getpid())));
  store_.reset();
  EXPECT_TRUE(Open().ok());
}

TEST_F(SqliteStoreTest, TheLockOfAKilledProcessIsFree) {
  const pid_t child = fork();
  if (child == 0) {
    auto store = SqliteStore::Open(options_);
    _exit(store.ok() ? 0 : 1);  // Without closing it.
  }
  int state = 0;
  ASSERT_EQ(waitpid(child, &state, 0), child);
  ASSERT_EQ(WEXITSTATUS(state), 0);
  EXPECT_TRUE(Open().ok());
}

TEST_F(SqliteStoreTest, ANewerSchemaIsRefusedWithBothVersions) {
  ASSERT_TRUE(Open().ok());
  Vandalise("PRAGMA user_version = 7");
  const absl::Status status = Open();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(status), reason::kVersionSkew);
  EXPECT_THAT(std::string(status.message()), HasSubstr("version 7"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("up to 1"));
}

TEST_F(SqliteStoreTest, AnotherClustersStoreIsRefused) {
  options_.cluster_id = "here";
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(store_->cluster_id(), "here");
  options_.cluster_id = "there";
  EXPECT_EQ(ReasonOf(Open()), reason::kBadFile);
  options_.cluster_id.clear();
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(store_->cluster_id(), "here");
}

TEST_F(SqliteStoreTest, ANewStoreGetsAnIdOfItsOwn) {
  ASSERT_TRUE(Open().ok());
  ScratchDirectory other;
  SqliteStoreOptions options;
  options.directory = other.path();
  const auto second = SqliteStore::Open(options);
  ASSERT_TRUE(second.ok());
  EXPECT_NE(store_->cluster_id(), (*second)->cluster_id());
}

TEST_F(SqliteStoreTest, ADatabaseOfSomethingElseIsRefused) {
  Vandalise("CREATE TABLE songs (name TEXT)");
  EXPECT_EQ(ReasonOf(Open()), reason::kBadFile);
}

TEST_F(SqliteStoreTest, AFileThatIsNoDatabaseIsRefused) {
  std::ofstream(directory_.path() + "/master.db") << std::string(10000, 'x');
  const absl::Status status = Open();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(ReasonOf(status), reason::kStoreCorrupt);
}

TEST_F(SqliteStoreTest, AStoreThatHasReachedItsSizeRefusesAndGoesOnWhenThereIsRoom) {
  options_.tuning.pages_max = 60;
  ASSERT_TRUE(Open().ok());
  absl::Status status;
  uint64_t head = 0;
  for (int i = 0; i < 1000 && status.ok(); ++i) {
    head = store_->HeadSeq();
    status = Append(Records({std::string(5000, 'x')}));
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReasonOf(status), reason::kJournalFull);
  EXPECT_EQ(store_->HeadSeq(), head);
  EXPECT_FALSE(Append(Records({std::string(50000, 'y')})).ok());
  // Queries go on, and room is made by dropping what a snapshot replaces.
  EXPECT_EQ(LogOf(*store_).size(), head);
  ASSERT_TRUE(store_->SaveSnapshot(epoch_, head, "small").ok());
  EXPECT_TRUE(Append(Records({std::string(5000, 'z')})).ok());
  EXPECT_THAT(store_->Verify()->problems, IsEmpty());
}

TEST_F(SqliteStoreTest, AFullDiskRefusesTheAppendAndTheStoreGoesOnWhenThereIsRoom) {
  options_.vfs = FaultVfs::Name();
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(Append(Records({"a"})).ok());
  FaultVfs::Set({.write = FaultVfs::Fault::kDiskFull});
  const absl::Status status = Append(Records({"b"}));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReasonOf(status), reason::kJournalFull);
  FaultVfs::Set({});
  ASSERT_TRUE(Append(Records({"c"})).ok());
  EXPECT_THAT(LogOf(*store_), ElementsAre("1:a", "2:c"));
  ASSERT_TRUE(Open().ok());
  EXPECT_THAT(LogOf(*store_), ElementsAre("1:a", "2:c"));
}

TEST_F(SqliteStoreTest, AFailedSyncIsFinalAndTheNextStartSeesWhatThereIs) {
  options_.vfs = FaultVfs::Name();
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(Append(Records({"a"})).ok());
  FaultVfs::Set({.sync = FaultVfs::Fault::kInputOutput});
  EXPECT_EQ(ReasonOf(Append(Records({"b"}))), reason::kJournalIo);
  FaultVfs::Set({});
  EXPECT_EQ(ReasonOf(Append(Records({"c"}))), reason::kJournalIo);
  EXPECT_EQ(ReasonOf(store_->RaiseEpoch().status()), reason::kJournalIo);
  ASSERT_TRUE(Open().ok());
  const std::vector<std::string> log = LogOf(*store_);
  EXPECT_TRUE(log == std::vector<std::string>({"1:a"}) ||
              log == std::vector<std::string>({"1:a", "2:b"}));
  ASSERT_TRUE(Append(Records({"d"})).ok());
}

TEST_F(SqliteStoreTest, ACommitIsOneSyncAndHistoryNone) {
  options_.vfs = FaultVfs::Name();
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(Append(Records({"a"})).ok());
  const uint64_t before = FaultVfs::Syncs();
  AppendBatch batch = Records({"b"});
  batch.outputs = {InlineRow(1, 0, 2048, std::string(16384, 'x'))};
  ASSERT_TRUE(Append(std::move(batch)).ok());
  EXPECT_EQ(FaultVfs::Syncs() - before, 1u);
  JobRow row;
  row.id = JobId(1);
  ASSERT_TRUE(store_->Project(2, {row}).ok());
  EXPECT_EQ(FaultVfs::Syncs() - before, 1u);
}

TEST_F(SqliteStoreTest, TheWriteAheadLogStaysBoundedWhenItIsMaintained) {
  options_.tuning.log_pages_idle = 20;
  options_.tuning.log_pages_max = 40;
  ASSERT_TRUE(Open().ok());
  int maintained = 0;
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(Append(Records({std::string(6000, 'x')})).ok());
    if (store_->NeedsMaintenance()) {
      ASSERT_TRUE(store_->Maintain().ok());
      EXPECT_FALSE(store_->NeedsMaintenance());
      ++maintained;
    }
  }
  EXPECT_GT(maintained, 5);
  EXPECT_LT(std::filesystem::file_size(directory_.path() + "/master.db-wal"), 80u * 4200);
}

// Damage: every kind is found at the next start, with the sequence number it begins at.

struct Damage {
  const char* sql;
  const char* says;
};

class SqliteDamage : public SqliteStoreTest, public ::testing::WithParamInterface<Damage> {};

TEST_P(SqliteDamage, IsRefusedWithItsSequence) {
  ASSERT_TRUE(Open().ok());
  for (const char* text : {"one", "two", "three", "four", "five"}) {
    ASSERT_TRUE(Append(Records({text})).ok());
  }
  ASSERT_TRUE(store_->SaveSnapshot(epoch_, 1, "state").ok());
  Vandalise(GetParam().sql);
  const absl::Status status = Open();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_EQ(ReasonOf(status), reason::kStoreCorrupt);
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().says));
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, SqliteDamage,
    ::testing::Values(
        Damage{"DELETE FROM log WHERE last_seq = 3", "gap after sequence 2"},
        Damage{"DELETE FROM log WHERE last_seq = 5", "ends at sequence 4"},
        Damage{"DELETE FROM log WHERE last_seq = 2", "gap after sequence 1"},
        Damage{"UPDATE log SET payload = x'01' WHERE last_seq = 3", "sequence 3 to 3"},
        Damage{"UPDATE log SET payload = (SELECT payload FROM log WHERE last_seq = 4) "
               "WHERE last_seq = 3",
               "sequence 3 to 3"},
        Damage{"UPDATE log SET epoch = 2 WHERE last_seq = 4", "sequence 4 to 4"},
        Damage{"UPDATE log SET batches = 2 WHERE last_seq = 4", "gap after sequence 3"},
        Damage{"UPDATE log SET checksum = checksum + 1 WHERE last_seq = 2", "sequence 2 to 2"},
        Damage{"UPDATE log SET last_seq = 9 WHERE last_seq = 5", "gap after sequence 4"},
        Damage{"UPDATE meta SET head_seq = 6", "ends at sequence 5"},
        Damage{"UPDATE meta SET head_checksum = 6", "ends at sequence 5"},
        Damage{"UPDATE meta SET base_checksum = 6", "sequence 2 to 2"},
        Damage{"DELETE FROM meta", "says where the log ends"},
        Damage{"DELETE FROM snapshot", "snapshot holds the state up to sequence 0"},
        Damage{"UPDATE snapshot SET seq = 9", "snapshot at sequence 9"},
        Damage{"UPDATE snapshot SET bytes = x'00'", "snapshot at sequence 1"}));

TEST_F(SqliteStoreTest, EachFlippedByteOfACommitIsFound) {
  ASSERT_TRUE(Open().ok());
  for (const char* text : {"one", "two!", "three"}) ASSERT_TRUE(Append(Records({text})).ok());
  constexpr int kPayloadBytes = 6;  // Two counts and "two!".
  for (int byte = 0; byte < kPayloadBytes; ++byte) {
    const std::string at = std::to_string(byte + 1);
    const std::string original = "two!";
    store_.reset();
    auto db = SqliteDb::Open(directory_.path() + "/master.db", "");
    ASSERT_TRUE(db.ok());
    auto select = db->Prepare("SELECT payload FROM log WHERE last_seq = 2");
    ASSERT_TRUE(select.ok() && *select->Step());
    const std::string whole(select->Bytes(0));
    ASSERT_EQ(whole.size(), static_cast<size_t>(kPayloadBytes));
    select->Reset();
    auto update = db->Prepare("UPDATE log SET payload = ? WHERE last_seq = 2");
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = whole;
      flipped[static_cast<size_t>(byte)] =
          static_cast<char>(flipped[static_cast<size_t>(byte)] ^ (1 << bit));
      ASSERT_TRUE(update->BindBytes(1, flipped).Run().ok());
      const absl::Status status = SqliteStore::Open(options_).status();
      ASSERT_EQ(ReasonOf(status), reason::kStoreCorrupt) << byte << "." << bit;
      ASSERT_THAT(std::string(status.message()), HasSubstr("sequence 2 to 2"));
    }
    ASSERT_TRUE(update->BindBytes(1, whole).Run().ok());
  }
  EXPECT_TRUE(SqliteStore::Open(options_).ok());
}

TEST_F(SqliteStoreTest, ADamagedOutputRowIsFoundWhenItIsReadAndByVerifying) {
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(Append(Outputs({InlineRow(1, 0, 2, "good"), InlineRow(1, 2, 2, "evil")})).ok());
  ASSERT_TRUE(Append(Outputs({SegmentRow(2, 0, 2, 9)})).ok());
  for (const char* sql : {"UPDATE outputs SET bytes = 'lost' WHERE first_task = 2",
                          "UPDATE outputs SET offset = 1 WHERE job = 2"}) {
    Vandalise(sql);
  }
  ASSERT_TRUE(Open().ok());  // The log is whole: jobs go on.
  EXPECT_TRUE(store_->OutputsOf(JobId(1), 0, 0, 2).ok());
  const absl::Status status = store_->OutputsOf(JobId(1), 0, 2, 2).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("job 1 output 0 at task 2"));
  EXPECT_EQ(ReasonOf(store_->OutputsOf(JobId(2), 0, 0, 9).status()), reason::kStoreCorrupt);
  const auto report = store_->Verify();
  EXPECT_EQ(report->output_rows, 1u);
  EXPECT_EQ(report->problems.size(), 2u);
}

TEST_F(SqliteStoreTest, APayloadWithAHugeLengthIsRefusedWithoutAllocating) {
  const std::string huge("\x01\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 10);
  std::vector<std::string_view> records;
  EXPECT_EQ(BatchReader(huge).Next(&records).code(), absl::StatusCode::kDataLoss);
  const std::string many("\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 9);
  EXPECT_EQ(BatchReader(many).Next(&records).code(), absl::StatusCode::kDataLoss);
  EXPECT_LT(records.capacity(), 100u);
}

}  // namespace
}  // namespace tandem::master
