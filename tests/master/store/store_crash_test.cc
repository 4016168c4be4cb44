// A master's process is killed at each failpoint of the commit path, and started again.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/failpoint.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "master/store/committer.h"
#include "master/store/sqlite_store.h"
#include "tests/master/store/store_builders.h"

namespace tandem::master {
namespace {

// Stands for segments: what Sync said OK for is "durable", noted in the pipe like an answer.
class PipeSyncer final : public SegmentSyncer {
 public:
  absl::Status Sync(absl::Span<const SegmentExtent>) override { return absl::OkStatus(); }
};

SqliteStoreOptions OptionsFor(const std::string& directory) {
  SqliteStoreOptions options;
  options.directory = directory;
  options.tuning.log_pages_idle = 8;  // So that a crash also meets half-moved logs.
  return options;
}

// Appends until a failpoint kills the process; each answer "durable up to n" goes into the pipe.
[[noreturn]] void RunMaster(const std::string& directory, const std::string& failpoint, int pipe) {
  auto store = SqliteStore::Open(OptionsFor(directory));
  if (!store.ok() || !SetFailpoints(failpoint).ok()) _exit(10);
  const auto epoch = (*store)->RaiseEpoch();
  if (!epoch.ok()) _exit(11);
  PipeSyncer syncer;
  Committer committer(store->get(), *epoch, &syncer, CommitterLimits(),
                      [pipe](const absl::Status& status, uint64_t seq) {
                        if (!status.ok() || write(pipe, &seq, sizeof(seq)) != sizeof(seq))
                          _exit(12);
                      });
  for (uint64_t i = 0;; ++i) {
    const uint64_t expected = (*store)->HeadSeq() + 1;
    AppendBatch batch = Records({"record " + std::to_string(expected)});
    batch.outputs = {InlineRow(1, expected * 10, 10, std::string(3000, 'x'))};
    JobRow row;
    row.id = JobId(1);
    row.done = expected * 10;
    const auto seq = committer.Commit(std::move(batch), {{SegmentId(1), 1}});
    if (!seq.ok() || *seq != expected) _exit(13);
    committer.Project(*seq, {row});
    if (i % 5 == 4) committer.SaveSnapshot(*seq - 1, "snapshot " + std::to_string(*seq - 1));
    if (!committer.Flush().ok()) _exit(14);
    if (i == 200) _exit(15);
  }
}

// Starts a master and waits for its end by SIGKILL. Returns the last number it answered.
uint64_t RunUntilKilled(const std::string& directory, const std::string& failpoint) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    RunMaster(directory, failpoint, ends[1]);
  }
  close(ends[1]);
  uint64_t answered = 0;
  uint64_t seq = 0;
  while (read(ends[0], &seq, sizeof(seq)) == sizeof(seq)) answered = seq;
  close(ends[0]);
  int state = 0;
  EXPECT_EQ(waitpid(child, &state, 0), child);
  EXPECT_TRUE(WIFSIGNALED(state) && WTERMSIG(state) == SIGKILL)
      << failpoint << ": exit code " << WEXITSTATUS(state);
  return answered;
}

class StoreCrash : public ::testing::TestWithParam<const char*> {};

// What was answered is there; at most the one commit that was under way is there as well; log,
// index and snapshot agree.
TEST_P(StoreCrash, NothingThatWasAnsweredIsLost) {
  ScratchDirectory directory;
  uint64_t answered = 0;
  for (const int passes : {0, 3, 12}) {
    const std::string failpoint =
        std::string(GetParam()) + "=" + std::to_string(passes) + "*off->crash";
    answered = std::max(answered, RunUntilKilled(directory.path(), failpoint));
    auto store = SqliteStore::Open(OptionsFor(directory.path()));
    ASSERT_TRUE(store.ok()) << store.status();
    const uint64_t head = (*store)->HeadSeq();
    EXPECT_GE(head, answered) << failpoint;
    EXPECT_LE(head, answered + 1) << failpoint;
    EXPECT_THAT((*store)->Verify()->problems, ::testing::IsEmpty());
    const auto snapshot = (*store)->LoadSnapshot();
    const uint64_t base = snapshot->has_value() ? (*snapshot)->seq : 0;
    if (base > 0) {
      EXPECT_EQ((*snapshot)->bytes, "snapshot " + std::to_string(base));
    }
    std::vector<std::string> expected;
    for (uint64_t seq = base + 1; seq <= head; ++seq) {
      expected.push_back(std::to_string(seq) + ":record " + std::to_string(seq));
    }
    EXPECT_EQ(LogOf(**store, base + 1), expected);
    for (uint64_t seq = 1; seq <= head; ++seq) {
      EXPECT_EQ((*store)->OutputsOf(JobId(1), 0, seq * 10, 10)->rows.size(), 1u) << seq;
    }
    EXPECT_LE(*(*store)->ProjectedSeq(), head);
    EXPECT_GE(*(*store)->ProjectedSeq(), base);
    answered = head;
  }
}

INSTANTIATE_TEST_SUITE_P(Failpoints, StoreCrash,
                         ::testing::Values("commit.before_segments", "commit.after_segments",
                                           "store.before_sync", "store.after_sync",
                                           "store.before_snapshot", "store.after_snapshot"),
                         [](const auto& info) {
                           std::string name = info.param;
                           name[name.find('.')] = '_';
                           return name;
                         });

TEST(StoreCrashTest, AnEpochGrowsAcrossCrashesOnEitherSideOfItsRaise) {
  ScratchDirectory directory;
  uint64_t last = 0;
  for (const char* failpoint :
       {"store.before_epoch=crash", "store.after_epoch=crash", "store.before_sync=crash"}) {
    RunUntilKilled(directory.path(), failpoint);
    auto store = SqliteStore::Open(OptionsFor(directory.path()));
    ASSERT_TRUE(store.ok());
    const Epoch raised = *(*store)->RaiseEpoch();
    EXPECT_GT(raised.value(), last);
    last = raised.value();
  }
}

TEST(StoreCrashTest, AnErrorBeforeTheSyncWritesNothing) {
  ScratchDirectory directory;
  auto store = SqliteStore::Open(OptionsFor(directory.path()));
  ASSERT_TRUE(store.ok());
  const Epoch epoch = *(*store)->RaiseEpoch();
  ASSERT_TRUE(SetFailpoint("store.before_sync", "1*error").ok());
  const AppendBatch batch = Records({"a"});
  EXPECT_FALSE((*store)->Append(epoch, {&batch, 1}).ok());
  EXPECT_EQ((*store)->HeadSeq(), 0u);
  EXPECT_EQ(*(*store)->Append(epoch, {&batch, 1}), 1u);
  ClearFailpoints();
}

// A disk that stalls holds up the committer's thread and nobody else.
TEST(StoreCrashTest, AStalledSyncHoldsUpNeitherCommitsNorQueries) {
  ScratchDirectory directory;
  auto store = SqliteStore::Open(OptionsFor(directory.path()));
  ASSERT_TRUE(store.ok());
  PipeSyncer syncer;
  const Epoch epoch = *(*store)->RaiseEpoch();
  ASSERT_TRUE(SetFailpoint("store.before_sync", "pause").ok());
  Committer committer(store->get(), epoch, &syncer, CommitterLimits(),
                      [](const absl::Status&, uint64_t) {});
  ASSERT_TRUE(committer.Commit(Records({"a"}), {}).ok());
  WaitForFailpoint("store.before_sync", 1);
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(committer.Commit(Records({"b"}), {}).ok());
  EXPECT_TRUE((*store)->ListJobs({}, 0, "").ok());
  EXPECT_TRUE((*store)->OutputsOf(JobId(1), 0, 0, 1).ok());
  EXPECT_EQ((*store)->HeadSeq(), 0u);
  ClearFailpoints();
  ASSERT_TRUE(committer.Flush().ok());
  EXPECT_EQ((*store)->HeadSeq(), 1001u);
}

}  // namespace
}  // namespace tandem::master
