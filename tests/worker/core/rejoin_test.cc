// The worker's core when its stream breaks, when the master restarts, and when it stood still
// itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/worker/core/core_driver.h"

namespace tandem::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

Grant Adopt(uint64_t job, uint64_t n, uint64_t first, uint64_t count) {
  return {JobId(job), n, first, 0, count, 1, false, {}};
}

TEST(RejoinTest, AHelloNamesWhatIsUnstartedRunningAndFinished) {
  CoreDriver driver;
  driver.Attach({ConcatJob(1, 1000, 0)});
  driver.Give(1, 1, 0, 10);
  const auto pieces = driver.pieces();
  driver.Do(driver.Finished(pieces[0]));  // reported, not acknowledged
  driver.Do(Disconnected{});
  driver.Do(Connected{});
  ASSERT_TRUE(driver.effects().hello.has_value());
  EXPECT_EQ(driver.effects().hello->max_epoch, 1u);
  uint64_t leaves = 0;
  for (const HeldLeaves& held : driver.effects().hello->held) leaves += held.leaves.count;
  EXPECT_EQ(leaves, 10u);
}

TEST(RejoinTest, FinishedWorkIsReportedUnderItsNewLeaseAndNotDoneAgain) {
  CoreDriver driver;
  driver.Attach({ConcatJob(1, 1000, 0)});
  driver.Give(1, 1, 0, 2);
  const auto pieces = driver.pieces();
  driver.DoAll({driver.Finished(pieces[0]), driver.Finished(pieces[1])});
  ASSERT_THAT(driver.commits(), SizeIs(1));
  driver.Do(Disconnected{});
  driver.Attach({ConcatJob(1, 1000, 0)}, {Adopt(1, 70, 0, 2)}, /*epoch=*/2);
  ASSERT_THAT(driver.commits(), SizeIs(1));
  EXPECT_THAT(driver.commits()[0].runs, ElementsAre(LeafRun{70, {0, 2}}));
  EXPECT_THAT(driver.pieces(), IsEmpty());
}

TEST(RejoinTest, WorkGoesOnWithoutAMasterAndIsReportedAfterTheAttach) {
  CoreDriver driver;
  driver.Attach({ConcatJob(1, 1000, 0)});
  driver.Give(1, 1, 0, 3);
  const auto pieces = driver.pieces();
  driver.Do(Disconnected{});
  driver.Do(driver.Finished(pieces[0]));
  EXPECT_THAT(driver.effects().reports, IsEmpty());
  ASSERT_THAT(driver.pieces(), SizeIs(1));  // the third leaf starts without anybody's leave
  driver.Attach({ConcatJob(1, 1000, 0)}, {Adopt(1, 90, 0, 3)});
  ASSERT_THAT(driver.commits(), SizeIs(1));
  EXPECT_THAT(driver.commits()[0].runs, ElementsAre(LeafRun{90, {0, 1}}));
  driver.Do(driver.Finished(pieces[1]));
  ASSERT_THAT(driver.commits(), SizeIs(1));
  EXPECT_THAT(driver.commits()[0].runs, ElementsAre(LeafRun{91, {1, 1}}));
}

TEST(RejoinTest, WhatWentElsewhereMeanwhileIsDropped) {
  CoreDriver driver;
  driver.Attach({ConcatJob(1, 1000, 0)});
  driver.Give(1, 1, 0, 3);
  const auto pieces = driver.pieces();
  driver.Do(driver.Finished(pieces[0]));
  driver.Do(Disconnected{});
  driver.Attach({ConcatJob(1, 1000, 0)}, {Adopt(1, 90, 2, 1)});
  EXPECT_THAT(driver.commits(), IsEmpty());
  EXPECT_THAT(driver.Of<CancelPiece>(), SizeIs(1));
  driver.Do(driver.Finished(pieces[1]));
  EXPECT_THAT(driver.commits(), IsEmpty());
  EXPECT_THAT(driver.core().Held(), SizeIs(1));
}

TEST(RejoinTest, APieceDividedAmongGrantsIsCommittedAsAdjoiningRuns) {
  CoreDriver driver;
  driver.Attach({ConcatJob(1, 1000, /*cost_ns=*/1)});
  driver.Give(1, 1, 0, 8);
  const RunPiece piece = driver.pieces()[0];
  ASSERT_EQ(piece.leaves.count, 8u);
  driver.Do(Disconnected{});
  driver.Attach({ConcatJob(1, 1000)}, {Adopt(1, 50, 0, 3), Adopt(1, 80, 3, 5)});
  driver.Do(driver.Finished(piece));
  ASSERT_THAT(driver.commits(), SizeIs(1));
  EXPECT_THAT(driver.commits()[0].runs, ElementsAre(LeafRun{50, {0, 3}}, LeafRun{80, {3, 5}}));
}

TEST(RejoinTest, LeavesThatAreAdoptedButRanInADivisibleNothingRunAgain) {
  JobDescribed job = SumJob(1, 1000, /*cost_ns=*/1);
  job.accumulates = false;  // folded: a commit is one node
  CoreDriver driver;
  driver.Attach({job});
  driver.Give(1, 1, 0, 1, /*level=*/3);
  const RunPiece piece = driver.pieces()[0];
  driver.Do(Disconnected{});
  driver.Attach({job}, {Adopt(1, 50, 0, 4), Adopt(1, 80, 4, 4)});
  EXPECT_THAT(driver.Of<CancelPiece>(), SizeIs(1));
  driver.Do(PieceReturned{piece.executor, piece.piece});
  uint64_t again = 0;
  for (const RunPiece& next : driver.pieces()) again += next.leaves.count;
  EXPECT_EQ(again + driver.core().backlog_leaves(), 8u + again);
}

TEST(RejoinTest, AnAccumulatorIsTakenWholeUnderTheNewLeases) {
  CoreDriver driver;
  driver.Attach({SumJob(1, 1000, 0)});
  driver.Give(1, 1, 0, 2);
  const auto pieces = driver.pieces();
  driver.DoAll({driver.Accumulated(pieces[0]), driver.Accumulated(pieces[1])});
  driver.Do(Disconnected{});
  driver.Attach({SumJob(1, 1000, 0)}, {Adopt(1, 60, 0, 2)}, 2);
  EXPECT_THAT(driver.Of<DiscardAccumulator>(), IsEmpty());
  driver.Do(PartialFinished{
      pieces[0].executor, JobId(1), {pieces[0].piece, pieces[1].piece}, {{0, "sum", 0, 0}}, 2});
  ASSERT_THAT(driver.commits(), SizeIs(1));
  EXPECT_THAT(driver.commits()[0].runs, ElementsAre(LeafRun{60, {0, 2}}));
}

TEST(RejoinTest, AnAccumulatorOfWhichALeafIsLostIsDiscardedAndTheRestRunsAgain) {
  CoreDriver driver;
  driver.Attach({SumJob(1, 1000, 0)});
  driver.Give(1, 1, 0, 2);
  const auto pieces = driver.pieces();
  driver.DoAll({driver.Accumulated(pieces[0]), driver.Accumulated(pieces[1])});
  driver.Do(Disconnected{});
  driver.Attach({SumJob(1, 1000, 0)}, {Adopt(1, 60, 1, 1)}, 2);
  EXPECT_THAT(driver.Of<DiscardAccumulator>(), SizeIs(1));
  ASSERT_THAT(driver.pieces(), SizeIs(1));
  EXPECT_EQ(driver.pieces()[0].leaves, (LeafInterval{1, 1}));
  // The old partial was on its way: none of it counts.
  driver.Do(PartialFinished{
      pieces[0].executor, JobId(1), {pieces[0].piece, pieces[1].piece}, {{0, "sum", 0, 0}}, 2});
  EXPECT_THAT(driver.commits(), IsEmpty());
}

TEST(RejoinTest, UnderANewEpochStagedOutputsArePushedAgain) {
  CoreDriver driver;
  driver.Attach({ConcatJob(1, 1000, 0)});
  driver.Give(1, 1, 0, 1);
  PieceFinished done = driver.Finished(driver.pieces()[0]);
  done.outputs = {{0, "", 64, 1000}};
  driver.Do(done);
  driver.Do(PushDone{driver.effects().pushes[0].push, Region{SegmentId(1), 0, 1000, 1}});
  ASSERT_THAT(driver.commits(), SizeIs(1));
  driver.Do(Disconnected{});
  driver.Attach({ConcatJob(1, 1000, 0)}, {Adopt(1, 60, 0, 1)}, /*epoch=*/1);
  EXPECT_THAT(driver.commits(), SizeIs(1));  // the same master: its segment is still there
  driver.Do(Disconnected{});
  driver.Attach({ConcatJob(1, 1000, 0)}, {Adopt(1, 61, 0, 1)}, /*epoch=*/2);
  EXPECT_THAT(driver.commits(), IsEmpty());
  EXPECT_THAT(driver.effects().pushes, SizeIs(1));
}

TEST(RejoinTest, AJobThatTheMasterNoLongerDescribesIsForgotten) {
  CoreDriver driver;
  driver.Attach({ConcatJob(1, 1000, 0)});
  driver.Give(1, 1, 0, 1);
  driver.Do(Disconnected{});
  driver.Attach({});
  EXPECT_THAT(driver.Of<ForgetJob>(), SizeIs(1));
  EXPECT_THAT(driver.core().Held(), IsEmpty());
}

TEST(RejoinTest, ACrashWithoutAMasterIsReportedUnderTheNewLease) {
  CoreDriver driver;
  driver.Attach({ConcatJob(1, 1000, 0)});
  driver.Give(1, 1, 0, 1);
  const RunPiece piece = driver.pieces()[0];
  driver.Do(Disconnected{});
  driver.Do(ExecutorLost{piece.executor, "SIGSEGV", {{JobId(1), {0, 1}, false, 0}}});
  driver.Attach({ConcatJob(1, 1000, 0)}, {Adopt(1, 60, 0, 1)});
  ASSERT_THAT(driver.effects().reports, SizeIs(1));
  ASSERT_THAT(driver.effects().reports[0].crashes, SizeIs(1));
  EXPECT_EQ(driver.effects().reports[0].crashes[0].run, (LeafRun{60, {0, 1}}));
}

TEST(RejoinTest, ACrashOfLeavesThatCameUnderSeveralLeasesIsReportedForEachOfThem) {
  CoreDriver driver;
  driver.Attach({ConcatJob(1, 1000, /*cost_ns=*/1)});
  driver.Give(1, 1, 0, 8);
  const RunPiece piece = driver.pieces()[0];
  ASSERT_EQ(piece.leaves.count, 8u);
  driver.Do(Disconnected{});
  driver.Do(ExecutorLost{piece.executor, "SIGTRAP", {{JobId(1), {0, 8}, false, 0}}});
  driver.Attach({ConcatJob(1, 1000)}, {Adopt(1, 50, 0, 3), Adopt(1, 80, 3, 5)});
  ASSERT_THAT(driver.effects().reports, SizeIs(1));
  const auto& crashes = driver.effects().reports[0].crashes;
  ASSERT_THAT(crashes, SizeIs(2));
  EXPECT_EQ(crashes[0].run, (LeafRun{50, {0, 3}}));
  EXPECT_EQ(crashes[1].run, (LeafRun{80, {3, 5}}));
  EXPECT_EQ(crashes[1].suspected_leaves, 8u);
}

TEST(RejoinTest, AWorkerThatStoodStillBeyondItsLeasesKillsWhatRunsAndHoldsNothing) {
  CoreDriver driver;
  driver.Attach({ConcatJob(1, 1000, 0)});
  driver.Give(1, 1, 0, 5);
  driver.After(absl::Seconds(5) + absl::Nanoseconds(1));
  EXPECT_THAT(driver.Of<KillExecutor>(), SizeIs(1));
  EXPECT_TRUE(driver.effects().reconnect);
  EXPECT_THAT(driver.core().Held(), IsEmpty());
  driver.Do(Connected{});
  ASSERT_TRUE(driver.effects().hello.has_value());
  EXPECT_THAT(driver.effects().hello->held, IsEmpty());
}

TEST(RejoinTest, AWorkerThatOnlyLostItsMasterGoesOnForAnyTime) {
  CoreDriver driver;
  driver.Attach({ConcatJob(1, 1000, 0)});
  driver.Give(1, 1, 0, 5);
  driver.Do(Disconnected{});
  driver.After(absl::Hours(1));
  EXPECT_THAT(driver.Of<KillExecutor>(), IsEmpty());
  EXPECT_EQ(driver.core().backlog_leaves(), 5u);
}

TEST(RejoinTest, AWorkerToldSoDropsEverythingWhenItsLeasesAreOver) {
  CoreOptions options;
  options.kill_when_master_lost = true;
  CoreDriver driver(options);
  driver.Attach({ConcatJob(1, 1000, 0)});
  driver.Give(1, 1, 0, 5);
  driver.Do(Disconnected{});
  driver.After(absl::Seconds(4));
  EXPECT_THAT(driver.Of<KillExecutor>(), IsEmpty());
  driver.After(absl::Seconds(1));
  EXPECT_THAT(driver.Of<KillExecutor>(), SizeIs(1));
  EXPECT_EQ(driver.core().backlog_leaves(), 0u);
}

}  // namespace
}  // namespace tandem::worker
