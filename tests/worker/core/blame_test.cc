// Executors that end: who is blamed, who runs again, and when a job is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/model/former_life.h"
#include "tests/worker/core/core_driver.h"
#include "worker/core/worker_core.h"

namespace tandem::worker {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

// An executor that ends again and again, and a start page that names what it had begun.
class CrashLoop {
 public:
  explicit CrashLoop(CoreDriver* driver) : driver_(driver) {}

  // Lets the executor end until `until` says so, at most so many times; how often it ended.
  template <class Until>
  int Run(std::vector<Suspect> suspects, int most, Until until) {
    for (int i = 0; i < most; ++i) {
      if (until()) return i;
      driver_->Do(ExecutorLost{Executor(), "SIGSEGV", suspects});
      Note();
      for (int waits = 0; waits < 20 && faults_.empty() && driver_->Of<StartExecutor>().empty();
           ++waits) {
        driver_->After(absl::Seconds(1));
        Note();
      }
    }
    return most;
  }
  const std::vector<JobFault>& faults() const { return faults_; }
  const std::vector<Crash>& crashes() const { return crashes_; }

 private:
  ExecutorId Executor() {
    for (const StartExecutor& start : driver_->Of<StartExecutor>()) last_ = start.executor;
    return last_;
  }
  void Note() {
    for (const Report& report : driver_->effects().reports) {
      faults_.insert(faults_.end(), report.job_faults.begin(), report.job_faults.end());
      crashes_.insert(crashes_.end(), report.crashes.begin(), report.crashes.end());
    }
  }
  CoreDriver* driver_;
  ExecutorId last_ = 1;
  std::vector<JobFault> faults_;
  std::vector<Crash> crashes_;
};

TEST(WorkerBlameTest, CrashesThatAStartPageExplainsNeverGetAJobRefused) {
  CoreDriver driver;
  driver.Attach({ConcatJob(1, 100, /*cost_ns=*/0)});
  driver.Give(1, 1, 0, 40);
  CrashLoop loop(&driver);
  for (uint64_t leaf = 0; leaf < 30; ++leaf) {
    loop.Run({{JobId(1), {leaf, 1}}}, 1, [] { return false; });
  }
  EXPECT_THAT(loop.crashes(), SizeIs(30));
  EXPECT_THAT(loop.faults(), IsEmpty());
}

TEST(WorkerBlameTest, AJobThatEndsItsExecutorBeforeItBeginsIsRefusedForAWhile) {
  CoreDriver driver;
  driver.Attach({ConcatJob(1, 100, /*cost_ns=*/0)});
  driver.Give(1, 1, 0, 4);
  CrashLoop loop(&driver);
  loop.Run({}, 20, [&] { return !loop.faults().empty(); });
  ASSERT_THAT(loop.faults(), SizeIs(1));
  EXPECT_FALSE(loop.faults()[0].fatal);
  EXPECT_THAT(loop.faults()[0].reason, StartsWith("CRASH_LIMIT"));
  driver.Give(1, 10, 0, 1);
  EXPECT_THAT(driver.returns(), SizeIs(1)) << "too early";
  // The refusal is over, and so is the wait for an executor.
  for (int second = 0; second < 12; ++second) driver.After(absl::Seconds(1));
  driver.Give(1, 20, 0, 1);
  EXPECT_THAT(driver.pieces(), SizeIs(1)) << "tried again";
}

TEST(WorkerBlameTest, AJobThatEndsExecutorsIsRunApartFromOthers) {
  CoreDriver driver;
  driver.Attach({ConcatJob(1, 100, /*cost_ns=*/0), ConcatJob(2, 100, /*cost_ns=*/0)});
  driver.Give(1, 1, 0, 1);
  driver.Give(2, 10, 0, 1);
  CrashLoop loop(&driver);
  loop.Run({}, 2, [] { return false; });
  ASSERT_THAT(driver.pieces(), SizeIs(1)) << "one of them alone";
  driver.Do(driver.Finished(driver.pieces()[0]));
  ASSERT_THAT(driver.pieces(), SizeIs(1)) << "then the other";
}

TEST(WorkerBlameTest, AFormerLifeIsReportedOnEachStreamUntilItIsAcknowledged) {
  CoreDriver driver;
  driver.Do(FormerLife{{{JobId(7), {3, 2}, true, 4}}});
  const auto told = [&] {
    std::vector<Crash> crashes;
    for (const Report& report : driver.effects().reports) {
      crashes.insert(crashes.end(), report.crashes.begin(), report.crashes.end());
    }
    return crashes;
  };
  for (int stream = 0; stream < 2; ++stream) {
    driver.Attach({});
    ASSERT_THAT(told(), SizeIs(1));
    EXPECT_EQ(told()[0].job, JobId(7));
    EXPECT_EQ(told()[0].run, (LeafRun{kFormerLife, {3, 2}}));
    EXPECT_EQ(told()[0].task, 4u);
    EXPECT_FALSE(driver.effects().former_life_told);
  }
  const uint64_t number = driver.effects().reports.at(0).number;
  driver.Do(ReportAcked{number});
  EXPECT_TRUE(driver.effects().former_life_told);
  driver.Attach({}, {}, 2);
  EXPECT_THAT(told(), IsEmpty());
}

TEST(WorkerBlameTest, ATimeLimitIsOfOneTaskAndLargerPiecesAreAllowedWhatIsPredicted) {
  CoreDriver driver;
  JobDescribed limited = ConcatJob(1, 1 << 20, /*cost_ns=*/1e6);
  limited.time_limit = absl::Seconds(10);
  driver.Attach({limited, ConcatJob(2, 100)});
  EXPECT_EQ(driver.core().ShortestLimit(), absl::InfiniteDuration()) << "nothing runs";
  driver.Give(1, 1, 0, 1);
  EXPECT_EQ(driver.core().ShortestLimit(), absl::Seconds(10));
  EXPECT_EQ(driver.core().TimeAllowed(JobId(1), {0, 1000}, true), absl::Seconds(10));
  // A second is predicted for a thousand tasks of a millisecond; four times that is allowed.
  EXPECT_EQ(driver.core().TimeAllowed(JobId(1), {0, 1000}, false), absl::Seconds(14));
  EXPECT_EQ(driver.core().TimeAllowed(JobId(2), {0, 1000}, false), absl::InfiniteDuration());
}

TEST(WorkerBlameTest, ACrashBlamesTheSuspectsAndRunsTheRestAgain) {
  CoreDriver driver(Believing());
  driver.Attach({ConcatJob(1, 1 << 20, /*cost_ns=*/10'000)});
  driver.Give(1, 50, 0, 100);
  const RunPiece piece = driver.pieces()[0];
  ASSERT_EQ(piece.leaves, (LeafInterval{0, 100}));
  driver.Do(ExecutorLost{piece.executor, "SIGSEGV", {{JobId(1), {40, 2}, true, 41}}});
  ASSERT_THAT(driver.effects().reports, SizeIs(1));
  const auto& crashes = driver.effects().reports[0].crashes;
  ASSERT_THAT(crashes, SizeIs(1));
  EXPECT_EQ(crashes[0].run, (LeafRun{90, {40, 2}}));
  EXPECT_EQ(crashes[0].signal, "SIGSEGV");
  EXPECT_TRUE(crashes[0].task_known);
  EXPECT_EQ(crashes[0].task, 41u);
  EXPECT_EQ(driver.core().backlog_leaves(), 98u);
  EXPECT_THAT(driver.Of<StartExecutor>(), IsEmpty());  // after a moment
  driver.After(absl::Milliseconds(200));
  EXPECT_THAT(driver.Of<StartExecutor>(), SizeIs(1));
  ASSERT_THAT(driver.pieces(), SizeIs(2));
  EXPECT_EQ(driver.pieces()[0].leaves, (LeafInterval{0, 40}));
  EXPECT_EQ(driver.pieces()[1].leaves, (LeafInterval{42, 58}));
}

TEST(WorkerBlameTest, EachCrashSaysHowManyAreSuspectedOfTheLoss) {
  CoreDriver driver({}, /*groups=*/2);
  driver.Attach({ConcatJob(1, 100, 0), ConcatJob(2, 100, 0)});
  driver.DoAll({Granted{{JobId(1), 1, 0, 4, 1, 1, false, {}}},
                Granted{{JobId(2), 2, 0, 2, 1, 1, false, {}}}});
  ASSERT_FALSE(driver.pieces().empty());
  uint64_t leaves = 0;
  std::vector<Suspect> running;
  for (const RunPiece& piece : driver.pieces()) {
    running.push_back({piece.job, piece.leaves});
    leaves += piece.leaves.count;
  }
  driver.Do(ExecutorLost{driver.pieces()[0].executor, "SIGTRAP", running});
  ASSERT_THAT(driver.effects().reports, SizeIs(1));
  const auto& crashes = driver.effects().reports[0].crashes;
  ASSERT_THAT(crashes, SizeIs(running.size()));
  for (const Crash& crash : crashes) EXPECT_EQ(crash.suspected_leaves, leaves);
}

TEST(WorkerBlameTest, AnExecutorThatNeverFinishesAnythingEndsInARefusalOfItsJobs) {
  CoreDriver driver;
  driver.Attach({ConcatJob(1, 100, 0)});
  driver.Give(1, 1, 0, 3);
  std::vector<JobFault> faults;
  for (int i = 0; i < 20 && faults.empty(); ++i) {
    ASSERT_FALSE(driver.pieces().empty());
    driver.Do(ExecutorLost{driver.pieces()[0].executor, "exit 1", {}});
    for (const Report& report : driver.effects().reports) {
      faults.insert(faults.end(), report.job_faults.begin(), report.job_faults.end());
    }
    for (int second = 0; second < 15 && faults.empty() && driver.pieces().empty(); ++second) {
      driver.After(absl::Seconds(1));
    }
  }
  ASSERT_THAT(faults, SizeIs(1));
  EXPECT_THAT(faults[0].reason, HasSubstr("CRASH_LIMIT"));
  EXPECT_FALSE(faults[0].fatal);
  uint64_t back = 0;
  for (const Return& one : driver.returns()) back += one.run.leaves.count;
  EXPECT_EQ(back, 3u);
}

}  // namespace
}  // namespace tandem::worker
