#include "worker/core/worker_core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/worker/core/core_driver.h"

namespace tandem::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

TEST(WorkerCoreTest, NoExecutorIsStartedBeforeThereIsWork) {
  CoreDriver driver;
  driver.Attach({ConcatJob(1, 100)});
  EXPECT_THAT(driver.Of<StartExecutor>(), IsEmpty());
  driver.Give(1, 1, 0, 1);
  EXPECT_THAT(driver.Of<StartExecutor>(), SizeIs(1));
  EXPECT_THAT(driver.Of<SetupJob>(), SizeIs(1));
  ASSERT_THAT(driver.pieces(), SizeIs(1));
  EXPECT_EQ(driver.pieces()[0].leaves, (LeafInterval{0, 1}));
}

TEST(WorkerCoreTest, AJobThatIsNotMeasuredRisksTwoSmallPieces) {
  CoreDriver driver;
  driver.Attach({ConcatJob(1, 1 << 20, /*cost_ns=*/0.001)});
  driver.Give(1, 1, 0, 1 << 20);
  const std::vector<RunPiece> first = driver.pieces();
  ASSERT_THAT(first, SizeIs(2));
  EXPECT_EQ(first[0].leaves, (LeafInterval{0, 16}));
  EXPECT_EQ(first[1].leaves, (LeafInterval{16, 16}));
  // It takes a second a task: the hint was wrong by twelve orders of magnitude.
  driver.Do(driver.Finished(first[0], absl::Seconds(16)));
  ASSERT_THAT(driver.pieces(), SizeIs(1));
  EXPECT_EQ(driver.pieces()[0].leaves.count, 1u);
}

TEST(WorkerCoreTest, TheFirstPieceIsAProbeOfAMillisecond) {
  CoreDriver driver(Believing());
  driver.Attach({ConcatJob(1, 1 << 20, /*cost_ns=*/1000)});
  driver.Give(1, 1, 0, 1, /*level=*/20);
  ASSERT_THAT(driver.pieces(), SizeIs(2));  // one to run, one to fetch meanwhile
  EXPECT_EQ(driver.pieces()[0].leaves, (LeafInterval{0, 512}));  // the largest node ≤ 1 ms
}

TEST(WorkerCoreTest, AfterAMeasurementPiecesFollowTheMeasuredRate) {
  CoreDriver driver;
  driver.Attach({ConcatJob(1, 1 << 20, /*cost_ns=*/1000)});
  driver.Give(1, 1, 0, 1, 20);
  // Twenty times slower than the hint: 20 s of work are left, of which a piece may take 2 %.
  std::vector<RunPiece> running = driver.pieces();
  uint64_t largest = 0;
  for (int i = 0; i < 12; ++i) {
    const RunPiece piece = running.front();
    running.erase(running.begin());
    driver.Do(driver.Finished(piece, absl::Microseconds(20 * piece.leaves.count)));
    for (const RunPiece& next : driver.pieces()) {
      largest = std::max(largest, next.leaves.count);
      running.push_back(next);
    }
  }
  const double two_percent = 0.02 * (1 << 20);
  EXPECT_LE(static_cast<double>(largest), two_percent);
  EXPECT_GE(static_cast<double>(largest), two_percent / 2);  // a power of two
}

TEST(WorkerCoreTest, OneTaskLeasesOfAGrantRunAsOnePieceAndBecomeOneCommit) {
  CoreDriver driver(Believing());
  driver.Attach({ConcatJob(1, 1 << 20, /*cost_ns=*/1)});
  driver.Give(1, 100, 5, 700);
  ASSERT_THAT(driver.pieces(), SizeIs(1));
  EXPECT_EQ(driver.pieces()[0].leaves, (LeafInterval{5, 700}));
  EXPECT_EQ(driver.pieces()[0].inline_bytes_max, 256u << 10);
  driver.Do(driver.Finished(driver.pieces()[0]));
  ASSERT_THAT(driver.commits(), SizeIs(1));
  EXPECT_THAT(driver.commits()[0].runs, ElementsAre(LeafRun{100, {5, 700}}));
}

TEST(WorkerCoreTest, AdjacentPiecesOfOneGrantFinishedTogetherBecomeOneCommit) {
  CoreDriver driver({}, /*groups=*/2);
  driver.Attach({ConcatJob(1, 1000, /*cost_ns=*/0)});  // no hint: pieces of a leaf
  driver.Give(1, 7, 0, 4);
  const auto pieces = driver.pieces();
  ASSERT_THAT(pieces, SizeIs(4));
  std::vector<Event> events;
  for (const RunPiece& piece : pieces) events.push_back(driver.Finished(piece));
  driver.DoAll(std::move(events));
  ASSERT_THAT(driver.commits(), SizeIs(1));
  EXPECT_THAT(driver.commits()[0].runs, ElementsAre(LeafRun{7, {0, 4}}));
  EXPECT_EQ(std::get<std::string>(driver.commits()[0].outputs->front().where), "xxxx");
  EXPECT_EQ(driver.commits()[0].tasks, 4u);
}

TEST(WorkerCoreTest, RaggedOutputsAreNotJoined) {
  JobDescribed job = ConcatJob(1, 1000, 0);
  job.appends = false;
  CoreDriver driver;
  driver.Attach({job});
  driver.Give(1, 7, 0, 2);
  const auto pieces = driver.pieces();
  std::vector<Event> events;
  for (const RunPiece& piece : pieces) events.push_back(driver.Finished(piece));
  driver.DoAll(std::move(events));
  EXPECT_THAT(driver.commits(), SizeIs(2));
}

TEST(WorkerCoreTest, AGroupHoldsTwoPiecesAndEachGroupGetsOneFirst) {
  CoreDriver driver({}, /*groups=*/3);
  driver.Attach({ConcatJob(1, 1000, 0)});
  driver.Give(1, 1, 0, 4);
  std::vector<uint32_t> groups;
  for (const RunPiece& piece : driver.pieces()) groups.push_back(piece.group);
  EXPECT_THAT(groups, ElementsAre(0, 1, 2, 0));
  driver.Give(1, 5, 4, 10);
  EXPECT_THAT(driver.pieces(), SizeIs(2));
}

TEST(WorkerCoreTest, ManySmallJobsFillAGroupTogetherSoThatTheyRunInOneBatch) {
  CoreDriver driver;
  std::vector<JobDescribed> jobs;
  for (uint64_t id = 1; id <= 100; ++id) jobs.push_back(ConcatJob(id, 10, /*cost_ns=*/100));
  driver.Attach(std::move(jobs));
  std::vector<Event> events;
  for (uint64_t id = 1; id <= 100; ++id) {
    events.push_back(Granted{{JobId(id), id * 100, 0, 0, 10, 1, false, {}}});
  }
  driver.DoAll(std::move(events));
  EXPECT_THAT(driver.pieces(), SizeIs(100));  // 100 µs in all
}

// Two jobs of one kernel, hinted at 1 µs a leaf: the first has run to its end at `first` a leaf.
class SecondJob {
 public:
  SecondJob(double cost_ns, absl::Duration first, const std::string& extents = "") {
    JobDescribed second = ConcatJob(2, 1 << 20, cost_ns);
    second.extents = extents;
    driver.Attach({ConcatJob(1, 1 << 20, cost_ns), second});
    driver.Give(1, 1, 0, 1, /*level=*/10);
    running = driver.pieces();
    while (!running.empty()) FinishFirst(first);
    driver.Give(2, 100, 0, 1, /*level=*/20);
    running = driver.pieces();
  }
  // The first piece ends; what is handed out then joins the others.
  void FinishFirst(absl::Duration leaf) {
    const RunPiece piece = running.front();
    running.erase(running.begin());
    driver.Do(driver.Finished(piece, leaf * static_cast<double>(piece.leaves.count)));
    for (const RunPiece& next : driver.pieces()) running.push_back(next);
  }
  uint64_t RunningLeaves() const {
    uint64_t leaves = 0;
    for (const RunPiece& piece : running) leaves += piece.leaves.count;
    return leaves;
  }

  CoreDriver driver;
  std::vector<RunPiece> running;
};

TEST(WorkerCoreTest, WhatOtherJobsOfItsKernelTookMakesNoPieceOfANewJobLong) {
  SecondJob second(/*cost_ns=*/1000, absl::Nanoseconds(1));
  EXPECT_LE(second.RunningLeaves(), 6000u) << "milliseconds by the hint, not all there is";
  EXPECT_GE(second.running.size(), 2u);
  for (const RunPiece& piece : second.running) EXPECT_LE(piece.leaves.count, 1000u);
  // It takes 250 µs a leaf: no piece is over half a second then.
  for (int i = 0; i < 20; ++i) {
    second.FinishFirst(absl::Microseconds(250));
    EXPECT_LE(second.running.back().leaves.count, 2000u);
  }
}

TEST(WorkerCoreTest, WithoutAHintANewJobWithOtherExtentsStartsAtOneLeafAGroup) {
  SecondJob second(/*cost_ns=*/0, absl::Nanoseconds(1), "k=3");
  ASSERT_THAT(second.running, SizeIs(2));  // one to run, one to fetch meanwhile
  EXPECT_EQ(second.RunningLeaves(), 2u);
}

TEST(WorkerCoreTest, ANewJobWithExtentsThatWereMeasuredStartsByWhatTheyTook) {
  SecondJob second(/*cost_ns=*/0, absl::Microseconds(100));
  EXPECT_EQ(second.running.front().leaves.count, 8u) << "the largest node of a millisecond";
  // Its data may be other: a piece is no longer than that many of its leaves.
  SecondJob fast(/*cost_ns=*/0, absl::Nanoseconds(1));
  EXPECT_EQ(fast.running.front().leaves.count, CoreOptions().pull.unproven_leaves_max);
}

TEST(WorkerCoreTest, AfterADearJobACheapOneGrowsInAFewPieces) {
  SecondJob second(/*cost_ns=*/1000, absl::Milliseconds(1));
  EXPECT_LE(second.running.front().leaves.count, 2u) << "by the kernel's rate";
  int pieces = 0;
  for (; !second.running.empty(); ++pieces) second.FinishFirst(absl::Nanoseconds(1));
  EXPECT_LE(pieces, 40);
}

TEST(WorkerCoreTest, SmallJobsOfAKnownKernelStillFillAGroupTogether) {
  CoreDriver driver;
  std::vector<JobDescribed> jobs;
  for (uint64_t id = 1; id <= 101; ++id) jobs.push_back(ConcatJob(id, 10, /*cost_ns=*/1000));
  driver.Attach(std::move(jobs));
  driver.Give(101, 1, 0, 10);
  driver.Do(driver.Finished(driver.pieces().at(0), absl::Nanoseconds(100)));
  std::vector<Event> events;
  for (uint64_t id = 1; id <= 100; ++id) {
    events.push_back(Granted{{JobId(id), id * 100, 0, 0, 10, 1, false, {}}});
  }
  driver.DoAll(std::move(events));
  EXPECT_THAT(driver.pieces(), SizeIs(100));  // 1 ms by the hint, likely 10 µs
}

TEST(WorkerCoreTest, ALongJobThatIsToppedUpHoldsUpNoShortOne) {
  CoreDriver driver;
  driver.Attach({ConcatJob(1, 1 << 20, /*cost_ns=*/0), ConcatJob(2, 10, /*cost_ns=*/0)});
  driver.Give(1, 1, 0, 8);
  std::vector<RunPiece> running = driver.pieces();
  driver.Give(2, 1000, 0, 2);
  uint64_t next = 8;
  bool ran = false;
  for (int i = 0; i < 4 && !ran; ++i) {
    ASSERT_FALSE(running.empty());
    const RunPiece piece = running.front();
    running.erase(running.begin());
    driver.Do(driver.Finished(piece));
    for (const RunPiece& more : driver.pieces()) running.push_back(more);
    ran = std::any_of(running.begin(), running.end(),
                      [](const RunPiece& run) { return run.job == JobId(2); });
    driver.Give(1, 1 + next, next, 1);  // The pool of the first job is never empty.
    for (const RunPiece& more : driver.pieces()) running.push_back(more);
    ++next;
  }
  EXPECT_TRUE(ran);
}

TEST(WorkerCoreTest, FoldedPartialsArePiecesOfOneNode) {
  JobDescribed job = SumJob(1, 1000, /*cost_ns=*/1);
  job.accumulates = false;
  CoreOptions options = Believing();
  options.pull.pieces_per_group = 8;
  CoreDriver driver(options);
  driver.Attach({job});
  driver.Give(1, 1, 5, 100);  // one-leaf leases from an odd place
  std::vector<LeafInterval> pieces;
  for (const RunPiece& piece : driver.pieces()) pieces.push_back(piece.leaves);
  EXPECT_THAT(pieces, ElementsAre(LeafInterval{5, 1}, LeafInterval{6, 2}, LeafInterval{8, 8},
                                  LeafInterval{16, 16}, LeafInterval{32, 32}, LeafInterval{64, 32},
                                  LeafInterval{96, 8}, LeafInterval{104, 1}));
}

TEST(WorkerCoreTest, LargeOutputsArePushedThenCommittedThenReleased) {
  CoreDriver driver;
  driver.Attach({ConcatJob(1, 100, 0)});
  driver.Give(1, 1, 0, 1);
  const RunPiece piece = driver.pieces()[0];
  PieceFinished done = driver.Finished(piece);
  done.outputs = {{0, "", 4096, 1000}};
  driver.Do(done);
  EXPECT_THAT(driver.commits(), IsEmpty());
  ASSERT_THAT(driver.effects().pushes, SizeIs(1));
  EXPECT_EQ(driver.effects().pushes[0].offset, 4096u);
  const PushId push = driver.effects().pushes[0].push;
  const Region region{SegmentId(3), 77, 1000, 5};
  driver.Do(PushDone{push, region});
  ASSERT_THAT(driver.commits(), SizeIs(1));
  EXPECT_EQ(std::get<Region>(driver.commits()[0].outputs->front().where), region);
  EXPECT_THAT(driver.Of<ReleaseStaging>(), IsEmpty());
  driver.Do(ReportAcked{driver.effects().reports[0].number});
  ASSERT_THAT(driver.Of<ReleaseStaging>(), SizeIs(1));
  EXPECT_EQ(driver.Of<ReleaseStaging>()[0].offset, 4096u);
}

TEST(WorkerCoreTest, AFailedPushIsTriedAgainAfterAMoment) {
  CoreDriver driver;
  driver.Attach({ConcatJob(1, 100, 0)});
  driver.Give(1, 1, 0, 1);
  PieceFinished done = driver.Finished(driver.pieces()[0]);
  done.outputs = {{0, "", 64, 1000}};
  driver.Do(done);
  driver.Do(PushFailed{driver.effects().pushes[0].push});
  EXPECT_THAT(driver.effects().pushes, IsEmpty());
  EXPECT_LE(driver.effects().next_deadline, driver.now() + absl::Milliseconds(500));
  driver.After(absl::Milliseconds(500));
  EXPECT_THAT(driver.effects().pushes, SizeIs(1));
}

TEST(WorkerCoreTest, ASuspectRunsAloneAndOneLeafAtATime) {
  CoreDriver driver({}, /*groups=*/2);
  driver.Attach({ConcatJob(1, 1000, 0)});
  driver.Give(1, 1, 0, 1);
  const RunPiece normal = driver.pieces()[0];
  driver.Give(1, 10, 10, 2, 0, /*suspect=*/true);
  driver.Give(1, 20, 20, 5);
  EXPECT_THAT(driver.pieces(), IsEmpty());  // waits until nothing else runs
  driver.Do(driver.Finished(normal));
  ASSERT_THAT(driver.pieces(), SizeIs(1));
  EXPECT_TRUE(driver.pieces()[0].suspect);
  EXPECT_EQ(driver.pieces()[0].leaves, (LeafInterval{10, 1}));
  driver.Do(driver.Finished(driver.pieces()[0]));
  ASSERT_THAT(driver.pieces(), SizeIs(1));
  EXPECT_EQ(driver.pieces()[0].leaves, (LeafInterval{11, 1}));
  driver.Do(driver.Finished(driver.pieces()[0]));
  EXPECT_THAT(driver.pieces(), SizeIs(4));  // everybody again
}

TEST(WorkerCoreTest, ALeaseOfSuspectsIsOnePieceWithNothingBesideIt) {
  CoreDriver driver({}, /*groups=*/2);
  driver.Attach({ConcatJob(1, 1000, 0)});
  driver.Give(1, 10, 64, 2, /*level=*/5, /*suspect=*/true);
  const std::vector<RunPiece> first = driver.pieces();
  ASSERT_THAT(first, SizeIs(1));
  EXPECT_EQ(first[0].leaves, (LeafInterval{64, 32}));
  EXPECT_FALSE(first[0].suspect) << "not task by task";
  driver.Give(1, 20, 0, 5);
  EXPECT_THAT(driver.pieces(), IsEmpty());
  driver.Do(driver.Finished(first[0]));
  const std::vector<RunPiece> second = driver.pieces();
  ASSERT_THAT(second, SizeIs(1));
  EXPECT_EQ(second[0].leaves, (LeafInterval{96, 32}));
  driver.Do(driver.Finished(second[0]));
  EXPECT_THAT(driver.pieces(), Not(IsEmpty())) << "the others again";
}

TEST(WorkerCoreTest, SuspectsOfOneSetRunBesideEachOtherAndNothingElseDoes) {
  CoreDriver driver({}, /*groups=*/2);
  driver.Attach({ConcatJob(1, 100, 0), ConcatJob(2, 100, 0), ConcatJob(3, 100, 0)});
  const auto suspect = [](uint64_t job, uint64_t n, uint64_t first, uint64_t set) {
    return Granted{{JobId(job), n, first, 0, 1, 2, true, {}, set}};
  };
  driver.DoAll({suspect(1, 10, 0, 10), suspect(2, 11, 0, 10), suspect(2, 12, 7, 12),
                Granted{{JobId(3), 20, 0, 0, 4, 1, false, {}}}});
  const std::vector<RunPiece> set = driver.pieces();
  ASSERT_THAT(set, SizeIs(2));
  for (const RunPiece& piece : set) {
    EXPECT_NE(piece.job, JobId(3));
    EXPECT_EQ(piece.leaves, (LeafInterval{0, 1}));
    EXPECT_FALSE(piece.suspect) << "in company there is no name to be had";
  }
  driver.Do(driver.Finished(set[0]));
  EXPECT_THAT(driver.pieces(), IsEmpty()) << "one of the set still runs";
  driver.Do(driver.Finished(set[1]));
  EXPECT_THAT(driver.pieces(), Not(IsEmpty()));
}

TEST(WorkerCoreTest, RecalledLeavesGoBackUnlessTheyRun) {
  CoreDriver driver;
  driver.Attach({ConcatJob(1, 1000, 0)});
  driver.Give(1, 1, 0, 10);
  const auto pieces = driver.pieces();
  ASSERT_THAT(pieces, SizeIs(2));
  driver.Do(Recalled{{JobId(1), {1, 5}}});
  ASSERT_THAT(driver.returns(), SizeIs(1));
  EXPECT_EQ(driver.returns()[0].run, (LeafRun{3, {2, 4}}));
  ASSERT_THAT(driver.Of<CancelPiece>(), SizeIs(1));  // leaf 1 is queued: perhaps not started
  EXPECT_EQ(driver.Of<CancelPiece>()[0].piece, pieces[1].piece);
  driver.Do(PieceReturned{pieces[1].executor, pieces[1].piece});
  ASSERT_THAT(driver.returns(), SizeIs(1));
  EXPECT_EQ(driver.returns()[0].run, (LeafRun{2, {1, 1}}));
}

TEST(WorkerCoreTest, ADrainReturnsWhatHasNotStartedAndWhatComesLater) {
  CoreDriver driver;
  driver.Attach({ConcatJob(1, 1000, 0)});
  driver.Give(1, 1, 0, 10);
  const auto pieces = driver.pieces();
  driver.Do(DrainSaid{true});
  ASSERT_THAT(driver.returns(), SizeIs(1));
  EXPECT_EQ(driver.returns()[0].run.leaves.count, 8u);
  driver.Give(1, 100, 500, 3);
  ASSERT_THAT(driver.returns(), SizeIs(1));
  driver.Do(driver.Finished(pieces[0]));
  EXPECT_THAT(driver.commits(), SizeIs(1));
  driver.Do(DrainSaid{false});
  driver.Give(1, 200, 600, 1);
  EXPECT_THAT(driver.pieces(), SizeIs(1));
}

TEST(WorkerCoreTest, AJobThatIsDroppedLeavesNothingBehind) {
  CoreDriver driver;
  driver.Attach({ConcatJob(1, 1000, 0)});
  driver.Give(1, 1, 0, 10);
  const auto pieces = driver.pieces();
  PieceFinished staged = driver.Finished(pieces[0]);
  staged.outputs = {{0, "", 64, 1000}};
  driver.Do(staged);
  const PushId push = driver.effects().pushes[0].push;
  driver.Do(JobDropped{JobId(1)});
  EXPECT_THAT(driver.Of<ForgetJob>(), SizeIs(1));
  EXPECT_THAT(driver.Of<ReleaseStaging>(), IsEmpty());  // it is still being read
  driver.Do(PushDone{push, Region{SegmentId(1), 0, 1000, 1}});
  EXPECT_THAT(driver.Of<ReleaseStaging>(), SizeIs(1));
  EXPECT_THAT(driver.commits(), IsEmpty());
  driver.Do(driver.Finished(pieces[1]));
  EXPECT_THAT(driver.commits(), IsEmpty());
  EXPECT_THAT(driver.core().Held(), IsEmpty());
}

TEST(WorkerCoreTest, ADroppedPieceThatDoesNotEndCostsItsExecutorAndBlamesNobody) {
  CoreDriver driver;
  driver.Attach({ConcatJob(1, 1000, 0), ConcatJob(2, 1000, 0)});
  driver.Give(1, 1, 0, 1);
  const RunPiece stuck = driver.pieces()[0];
  driver.Give(2, 10, 0, 1);
  ASSERT_THAT(driver.pieces(), SizeIs(1));  // queued behind it
  driver.Do(JobDropped{JobId(1)});
  driver.After(CoreOptions().void_max - absl::Milliseconds(1));
  EXPECT_THAT(driver.Of<KillExecutor>(), IsEmpty());
  driver.After(absl::Milliseconds(1));
  ASSERT_THAT(driver.Of<KillExecutor>(), SizeIs(1));
  driver.Do(ExecutorLost{stuck.executor, "SIGKILL", {{JobId(2), {0, 1}, true, 0}}});
  for (const Report& report : driver.effects().reports) EXPECT_THAT(report.crashes, IsEmpty());
  EXPECT_THAT(driver.Of<StartExecutor>(), SizeIs(1));  // at once
  ASSERT_THAT(driver.pieces(), SizeIs(1));
  EXPECT_EQ(driver.pieces()[0].job, JobId(2));
}

TEST(WorkerCoreTest, NothingIsGivenToALaneOnWhichADroppedPieceRuns) {
  CoreDriver driver;
  driver.Attach({ConcatJob(1, 1000, 0), ConcatJob(2, 1000, 0)});
  driver.Give(1, 1, 0, 1);
  const RunPiece dropped = driver.pieces()[0];
  driver.Do(JobDropped{JobId(1)});
  driver.Give(2, 10, 0, 1);
  EXPECT_THAT(driver.pieces(), IsEmpty());
  driver.Do(driver.Finished(dropped));
  ASSERT_THAT(driver.pieces(), SizeIs(1));
  EXPECT_EQ(driver.pieces()[0].job, JobId(2));
}

TEST(WorkerCoreTest, ADroppedPieceThatEndsInTimeCostsNothing) {
  CoreDriver driver;
  driver.Attach({ConcatJob(1, 1000, 0)});
  driver.Give(1, 1, 0, 1);
  const RunPiece slow = driver.pieces()[0];
  driver.Do(JobDropped{JobId(1)});
  for (int second = 0; second < 9; ++second) driver.After(absl::Seconds(1));
  driver.Do(driver.Finished(slow));
  for (int second = 0; second < 20; ++second) {
    driver.After(absl::Seconds(1));
    EXPECT_THAT(driver.Of<KillExecutor>(), IsEmpty());
  }
}

TEST(WorkerCoreTest, AJobThatCannotRunHereIsReportedAndGoesBack) {
  CoreDriver driver;
  driver.Attach({ConcatJob(1, 1000, 0)});
  driver.Give(1, 1, 0, 10);
  const auto pieces = driver.pieces();
  driver.Do(JobErrored{pieces[0].executor,
                       JobId(1),
                       "PATH_CHANGED: the file is another",
                       true,
                       {pieces[0].piece, pieces[1].piece}});
  ASSERT_THAT(driver.effects().reports, SizeIs(1));
  ASSERT_THAT(driver.effects().reports[0].job_faults, SizeIs(1));
  EXPECT_TRUE(driver.effects().reports[0].job_faults[0].fatal);
  uint64_t back = 0;
  for (const Return& one : driver.returns()) back += one.run.leaves.count;
  EXPECT_EQ(back, 10u);
}

TEST(WorkerCoreTest, WhatAnExecutorSaysOfAnotherOwnersPiecesCountsForNothing) {
  CoreDriver driver({}, /*groups=*/2);
  JobDescribed bobs = ConcatJob(2, 10, 0);
  bobs.owner = "bob";
  driver.Attach({ConcatJob(1, 10, 0), bobs});
  driver.Give(1, 1, 0, 1);
  const RunPiece adas = driver.pieces()[0];
  driver.Give(2, 9, 0, 1);
  ASSERT_THAT(driver.pieces(), SizeIs(1));
  const RunPiece piece = driver.pieces()[0];
  ASSERT_EQ(piece.job, JobId(2));
  PieceFinished stolen = driver.Finished(piece);
  stolen.executor = adas.executor;
  driver.DoAll({stolen, PieceReturned{adas.executor, piece.piece},
                JobErrored{adas.executor, JobId(2), "BAD_FILE: no", true, {piece.piece}}});
  EXPECT_THAT(driver.commits(), IsEmpty());
  EXPECT_THAT(driver.returns(), IsEmpty());
  driver.Do(driver.Finished(piece));  // its own executor's word still counts
  ASSERT_THAT(driver.commits(), SizeIs(1));
  EXPECT_EQ(driver.commits()[0].job, JobId(2));
}

TEST(WorkerCoreTest, FailuresTooManyForOneMessageRunAgainInHalves) {
  CoreDriver driver(Believing());
  driver.Attach({ConcatJob(1, 1 << 20, /*cost_ns=*/1)});
  driver.Give(1, 1, 0, 1, /*level=*/17);
  const RunPiece piece = driver.pieces()[0];
  ASSERT_EQ(piece.leaves.count, 1u << 17);
  PieceFinished done = driver.Finished(piece);
  for (uint64_t task = 0; task < piece.leaves.count; ++task) {
    done.failures.push_back({task, 1, "a reason of some length"});
  }
  driver.Do(done);
  EXPECT_THAT(driver.commits(), IsEmpty());
  ASSERT_FALSE(driver.pieces().empty());
  EXPECT_LE(driver.pieces()[0].leaves.count, 1u << 16);
}

TEST(WorkerCoreTest, AHeartbeatGoesOutEachInterval) {
  CoreDriver driver;
  driver.Attach({});
  EXPECT_FALSE(driver.effects().heartbeat);
  driver.After(absl::Milliseconds(999));
  EXPECT_FALSE(driver.effects().heartbeat);
  EXPECT_LE(driver.effects().next_deadline, driver.now() + absl::Milliseconds(1));
  driver.After(absl::Milliseconds(1));
  EXPECT_TRUE(driver.effects().heartbeat);
}

TEST(WorkerCoreTest, RatesAreLearnedAndToldOnceUntilTheyChange) {
  CoreDriver driver;
  driver.Attach({ConcatJob(1, 1 << 20, 1000)});
  driver.Give(1, 1, 0, 1, 20);
  const auto rates = [&] {
    std::vector<KernelRate> found;
    for (const Report& report : driver.effects().reports) {
      found.insert(found.end(), report.rates.begin(), report.rates.end());
    }
    return found;
  };
  RunPiece piece = driver.pieces()[0];
  const RunPiece next = driver.pieces()[1];
  driver.Do(driver.Finished(piece, absl::Microseconds(2 * piece.leaves.count)));
  ASSERT_THAT(rates(), SizeIs(1));
  EXPECT_NEAR(rates()[0].tasks_per_second, 500'000, 50'000);
  driver.Do(driver.Finished(next, absl::Microseconds(2 * next.leaves.count)));
  EXPECT_THAT(rates(), IsEmpty());
}

TEST(WorkerCoreTest, TwoOwnersTakeTurnsOnAGroupAndNeverShareIt) {
  JobDescribed bobs = ConcatJob(2, 1000, 0);
  bobs.owner = "bob";
  CoreDriver driver;
  driver.Attach({ConcatJob(1, 1000, 0), bobs});
  driver.Give(1, 1, 0, 100);
  const auto first = driver.pieces();
  ASSERT_THAT(first, SizeIs(2));
  driver.Give(2, 1000, 0, 100);
  EXPECT_THAT(driver.Of<StartExecutor>(), SizeIs(1));
  driver.Do(driver.Finished(first[0]));
  ASSERT_THAT(driver.pieces(), SizeIs(1));  // still in its turn
  EXPECT_EQ(driver.pieces()[0].job, JobId(1));
  const RunPiece last = driver.pieces()[0];
  driver.After(absl::Milliseconds(60));
  driver.Do(driver.Finished(first[1]));
  EXPECT_THAT(driver.pieces(), IsEmpty());  // the group empties for the other
  driver.Do(driver.Finished(last));
  ASSERT_FALSE(driver.pieces().empty());
  EXPECT_EQ(driver.pieces()[0].job, JobId(2));
}

TEST(WorkerCoreTest, AnIdleExecutorIsEndedAfterAWhile) {
  CoreDriver driver;
  driver.Attach({ConcatJob(1, 1000, 0)});
  driver.Give(1, 1, 0, 1);
  driver.Do(driver.Finished(driver.pieces()[0]));
  for (int i = 0; i < 299; ++i) driver.After(absl::Seconds(1));
  EXPECT_THAT(driver.Of<KillExecutor>(), IsEmpty());
  driver.After(absl::Seconds(1));
  EXPECT_THAT(driver.Of<KillExecutor>(), SizeIs(1));
}

TEST(WorkerCoreTest, AShutdownEndsWhenEverythingIsReportedAndAcknowledged) {
  CoreDriver driver;
  driver.Attach({ConcatJob(1, 1000, 0)});
  driver.Give(1, 1, 0, 3);
  const auto pieces = driver.pieces();
  driver.Do(Shutdown{});
  EXPECT_FALSE(driver.effects().leaving);
  driver.DoAll({driver.Finished(pieces[0]), PieceReturned{pieces[1].executor, pieces[1].piece}});
  EXPECT_FALSE(driver.effects().leaving);
  driver.Do(ReportAcked{driver.effects().reports.back().number});
  EXPECT_TRUE(driver.effects().leaving);
  EXPECT_THAT(driver.Of<KillExecutor>(), SizeIs(1));
}

TEST(WorkerCoreTest, AShutdownWithoutAMasterLeavesAtOnce) {
  CoreDriver driver;
  driver.Attach({ConcatJob(1, 1000, 0)});
  driver.Give(1, 1, 0, 3);
  driver.Do(Disconnected{});
  driver.Do(Shutdown{});
  EXPECT_TRUE(driver.effects().leaving);
}

}  // namespace
}  // namespace tandem::worker
