// Accumulators in the worker's core: when they are closed, and that exactly their pieces count.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/worker/core/core_driver.h"

namespace tandem::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(AccumulatorsTest, AccumulatedLeavesStayHeldUntilTheirPartialIsAcknowledged) {
  CoreDriver driver;
  driver.Attach({SumJob(1, 1000, 0)});
  driver.Give(1, 1, 0, 2);
  const auto pieces = driver.pieces();
  driver.DoAll({driver.Accumulated(pieces[0]), driver.Accumulated(pieces[1])});
  EXPECT_THAT(driver.commits(), IsEmpty());
  EXPECT_THAT(driver.Of<FlushJob>(), SizeIs(1));  // nothing is left, and no more is promised
  EXPECT_THAT(driver.core().Held(), SizeIs(2));
  driver.Do(PartialFinished{
      pieces[0].executor, JobId(1), {pieces[0].piece, pieces[1].piece}, {{0, "sum", 0, 0}}, 2});
  ASSERT_THAT(driver.commits(), SizeIs(1));
  EXPECT_THAT(driver.commits()[0].runs, ElementsAre(LeafRun{1, {0, 2}}));
  EXPECT_EQ(driver.commits()[0].tasks, 2u);
  driver.Do(ReportAcked{driver.effects().reports.back().number});
  EXPECT_THAT(driver.core().Held(), IsEmpty());
}

TEST(AccumulatorsTest, APartialThatNamesAPieceTwiceCountsForNothingAndRunsAgain) {
  CoreDriver driver;
  driver.Attach({SumJob(1, 1000, 0)});
  driver.Give(1, 1, 0, 1);
  const RunPiece piece = driver.pieces()[0];
  driver.Do(driver.Accumulated(piece));
  driver.Do(
      PartialFinished{piece.executor, JobId(1), {piece.piece, piece.piece}, {{0, "sum", 0, 0}}, 2});
  EXPECT_THAT(driver.commits(), IsEmpty());
  ASSERT_THAT(driver.pieces(), SizeIs(1));
  EXPECT_EQ(driver.pieces()[0].leaves, (LeafInterval{0, 1}));
}

TEST(AccumulatorsTest, APartialIsPushedWhenTheWorkIsTwentyTimesItsPush) {
  JobDescribed job = SumJob(1, 1000, 0);
  job.partial_bytes = 3'000'000;  // 10 ms at the assumed speed
  CoreDriver driver;
  driver.Attach({job});
  driver.Give(1, 1, 0, 1000);
  absl::Duration work, busy;
  while (driver.Of<FlushJob>().empty()) {
    ASSERT_FALSE(driver.pieces().empty());
    const RunPiece piece = driver.pieces()[0];
    busy = absl::Milliseconds(static_cast<double>(piece.leaves.count));
    work += busy;
    driver.Do(driver.Accumulated(piece, busy));
    ASSERT_LT(work, absl::Seconds(1));
  }
  EXPECT_GE(work, absl::Milliseconds(200));
  EXPECT_LT(work - busy, absl::Milliseconds(200)) << "not before the last piece";
}

TEST(AccumulatorsTest, AnIdleAccumulatorLingersOnlyWhileMoreMayCome) {
  CoreDriver driver;
  driver.Attach({SumJob(1, 1000, 0)});
  driver.Do(OutlookSaid{{JobId(1), 50}});
  driver.Give(1, 1, 0, 1);
  driver.Do(driver.Accumulated(driver.pieces()[0]));
  EXPECT_THAT(driver.Of<FlushJob>(), IsEmpty());
  EXPECT_LE(driver.effects().next_deadline, driver.now() + absl::Milliseconds(2));
  driver.After(absl::Milliseconds(2));
  EXPECT_THAT(driver.Of<FlushJob>(), SizeIs(1));
}

TEST(AccumulatorsTest, TheBacklogIsToldEachTimeItHasHalvedWhileLeavesWaitInAnAccumulator) {
  CoreDriver driver;
  driver.Attach({SumJob(1, 1000, 0)});
  driver.Give(1, 1, 0, 100);
  uint64_t left = 100, known = 100;
  std::vector<uint64_t> told, expected;
  while (!driver.pieces().empty()) {
    const RunPiece piece = driver.pieces()[0];
    left -= piece.leaves.count;
    // The first tells what the job costs; an empty backlog comes with the partial.
    if (left > 0 && (expected.empty() || left <= known / 2)) expected.push_back(known = left);
    driver.Do(driver.Accumulated(piece, absl::Milliseconds(20)));
    for (const Report& report : driver.effects().reports) {
      for (const Backlog& backlog : report.backlogs) {
        EXPECT_EQ(backlog.granted, 100u);
        told.push_back(backlog.leaves);
      }
    }
  }
  EXPECT_GE(told.size(), 3u);
  EXPECT_EQ(told, expected);
}

TEST(AccumulatorsTest, WhatIsGrantedMeanwhileIsNotToldBackAndCountsForTheNextHalf) {
  CoreDriver driver;
  driver.Attach({SumJob(1, 1000, 0)});
  driver.Do(OutlookSaid{{JobId(1), 900}});
  driver.Give(1, 1, 0, 2);
  driver.Do(driver.Accumulated(driver.pieces()[0], absl::Milliseconds(20)));
  driver.Give(1, 2, 2, 20);
  for (const Report& report : driver.effects().reports) EXPECT_THAT(report.backlogs, IsEmpty());
  // 21 are known to the master: it hears of the first count of at most 10.
  std::vector<uint64_t> told;
  while (told.empty() && !driver.pieces().empty()) {
    driver.Do(driver.Accumulated(driver.pieces()[0], absl::Milliseconds(20)));
    for (const Report& report : driver.effects().reports) {
      for (const Backlog& backlog : report.backlogs) told.push_back(backlog.leaves);
    }
  }
  ASSERT_THAT(told, SizeIs(1));
  EXPECT_LE(told[0], 10u);
  EXPECT_GE(told[0], 5u) << "no later";
}

TEST(AccumulatorsTest, WithItsExecutorAnAccumulatorIsLostAndItsPiecesRunAgainWithoutBlame) {
  CoreDriver driver;
  driver.Attach({SumJob(1, 1000, 0)});
  driver.Give(1, 1, 0, 10);
  const RunPiece first = driver.pieces()[0];
  driver.Do(driver.Accumulated(first));
  driver.Do(ExecutorLost{first.executor, "SIGKILL", {}});
  for (const Report& report : driver.effects().reports) EXPECT_THAT(report.crashes, IsEmpty());
  EXPECT_EQ(driver.core().backlog_leaves(), 10u);
}

TEST(AccumulatorsTest, APartialWithAForeignPieceIsDroppedAndItsOwnPiecesRunAgain) {
  CoreDriver driver;
  driver.Attach({SumJob(1, 1000, 0)});
  driver.Give(1, 1, 0, 2);
  const auto pieces = driver.pieces();
  driver.DoAll({driver.Accumulated(pieces[0]), driver.Accumulated(pieces[1])});
  driver.Do(PartialFinished{
      pieces[0].executor, JobId(1), {pieces[0].piece, 9999}, {{0, "", 64, 1000}}, 2});
  EXPECT_THAT(driver.commits(), IsEmpty());
  EXPECT_THAT(driver.Of<ReleaseStaging>(), SizeIs(1));
  ASSERT_THAT(driver.pieces(), SizeIs(1));
  EXPECT_EQ(driver.pieces()[0].leaves, (LeafInterval{0, 1}));
}

TEST(AccumulatorsTest, ASuspectWaitsUntilTheAccumulatorIsClosed) {
  CoreDriver driver;
  driver.Attach({SumJob(1, 1000, 0)});
  driver.Do(OutlookSaid{{JobId(1), 500}});
  driver.Give(1, 1, 0, 1);
  const RunPiece first = driver.pieces()[0];
  driver.Give(1, 10, 10, 1, 0, /*suspect=*/true);
  driver.Do(driver.Accumulated(first));
  EXPECT_THAT(driver.pieces(), IsEmpty());
  EXPECT_THAT(driver.Of<FlushJob>(), SizeIs(1));
  driver.Do(PartialFinished{first.executor, JobId(1), {first.piece}, {{0, "sum", 0, 0}}, 1});
  ASSERT_THAT(driver.pieces(), SizeIs(1));
  EXPECT_TRUE(driver.pieces()[0].suspect);
}

TEST(AccumulatorsTest, MergesGoFirst) {
  CoreDriver driver;
  driver.Attach({SumJob(1, 1000, 0)});
  driver.Give(1, 1, 0, 10);
  const auto pieces = driver.pieces();
  driver.Do(MergeGranted{{JobId(1), 77, {Partial{}, Partial{}}}});
  driver.Do(driver.Accumulated(pieces[0]));
  ASSERT_THAT(driver.Of<RunMerge>(), SizeIs(1));
  EXPECT_THAT(driver.pieces(), IsEmpty());
  const RunMerge merge = driver.Of<RunMerge>()[0];
  driver.Do(MergeFinished{merge.executor, merge.piece, {{0, "sum", 0, 0}}, 5, 0, "", {}});
  ASSERT_THAT(driver.effects().reports, SizeIs(1));
  ASSERT_THAT(driver.effects().reports[0].merges, SizeIs(1));
  EXPECT_EQ(driver.effects().reports[0].merges[0].n, 77u);
}

TEST(AccumulatorsTest, AMergeThatCostsThreeExecutorsIsReportedAsFailed) {
  CoreDriver driver;
  driver.Attach({SumJob(1, 1000, 0)});
  driver.Do(MergeGranted{{JobId(1), 77, {}}});
  for (int i = 0; i < 3; ++i) {
    ASSERT_THAT(driver.Of<RunMerge>(), SizeIs(1));
    driver.Do(ExecutorLost{driver.Of<RunMerge>()[0].executor, "SIGKILL", {}});
    if (i < 2) driver.After(absl::Seconds(4));
  }
  ASSERT_THAT(driver.effects().reports, SizeIs(1));
  ASSERT_THAT(driver.effects().reports[0].merges, SizeIs(1));
  EXPECT_THAT(driver.effects().reports[0].merges[0].error, testing::HasSubstr("EXECUTOR_LOST"));
}

}  // namespace
}  // namespace tandem::worker
