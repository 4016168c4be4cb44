// The tables of legal moves, written down a second time from what they are to mean.
#include <gtest/gtest.h>

#include "master/core/job_phase.h"
#include "master/core/worker.h"

namespace tandem::master {
namespace {

TEST(JobPhaseTest, NothingFollowsAnEndAndNothingGoesBack) {
  for (size_t from = 0; from < kJobPhases; ++from) {
    for (size_t to = 0; to < kJobPhases; ++to) {
      const bool end = from >= static_cast<size_t>(JobState::kSucceeded);
      EXPECT_EQ(kJobMoves[from][to], !end && from < to) << from << " -> " << to;
    }
  }
}

TEST(JobPhaseTest, AlternativesAreInTheOrderOfJobState) {
  EXPECT_EQ(StateOf(JobPhase(Pending{})), JobState::kPending);
  EXPECT_EQ(StateOf(JobPhase(Running{})), JobState::kRunning);
  EXPECT_EQ(StateOf(JobPhase(Merging{})), JobState::kMerging);
  EXPECT_EQ(StateOf(JobPhase(Succeeded{})), JobState::kSucceeded);
  EXPECT_EQ(StateOf(JobPhase(Failed{})), JobState::kFailed);
  EXPECT_EQ(StateOf(JobPhase(Cancelled{})), JobState::kCancelled);
}

TEST(JobPhaseDeathTest, AnIllegalMoveDies) {
  JobPhase phase = Cancelled{};
  EXPECT_DEATH(Move(&phase, Succeeded{}), "kJobMoves");
}

TEST(WorkerPhaseTest, EveryPhaseLeadsToAttachedAndOnlyAttachedToDetached) {
  const WorkerPhase phases[] = {Expected{}, Attached{}, Detached{}, Lost{}};
  for (const WorkerPhase& from : phases) {
    EXPECT_TRUE(kWorkerMoves[from.index()][WorkerPhase(Attached{}).index()]);
    EXPECT_FALSE(kWorkerMoves[from.index()][WorkerPhase(Expected{}).index()]);
    EXPECT_EQ(kWorkerMoves[from.index()][WorkerPhase(Detached{}).index()],
              std::holds_alternative<Attached>(from));
    EXPECT_EQ(kWorkerMoves[from.index()][WorkerPhase(Lost{}).index()],
              !std::holds_alternative<Lost>(from));
  }
}

TEST(QueueLoadTest, SumsByPriority) {
  QueueLoad load;
  load.Add(0, 2, 1.0);
  load.Add(5, 3, 2.0);
  EXPECT_EQ(load.AtLeast(0).leases, 5);
  EXPECT_EQ(load.AtLeast(1).leases, 3);
  EXPECT_EQ(load.Below(5).leases, 2);
  EXPECT_DOUBLE_EQ(load.Below(5).seconds, 1.0);
  load.Add(5, -3, -1.9999);
  EXPECT_EQ(load.leases(), 2);
  EXPECT_DOUBLE_EQ(load.AtLeast(1).seconds, 0) << "an empty queue takes no time";
}

}  // namespace
}  // namespace tandem::master
