// What the core makes of a job's puller: bounds of its own, other jobs on the same groups, and what
// goes back when a group is late.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/worker/core/core_driver.h"
#include "worker/core/worker_core.h"

namespace tandem::worker {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(WorkerPullsTest, APieceIsAtMostSoManyTimesTheLargestThatHasFinished) {
  CoreDriver driver;
  // Hinted at a second a leaf, so that pieces are of one leaf; they take a nanosecond.
  driver.Attach({ConcatJob(1, 1 << 30, /*cost_ns=*/1e9)});
  driver.Give(1, 1, 0, 1 << 20);
  std::vector<RunPiece> running = driver.pieces();
  uint64_t largest = 1;
  ASSERT_THAT(running, SizeIs(2));
  for (int i = 0; i < 4; ++i) {
    const RunPiece piece = running.front();
    running.erase(running.begin());
    ASSERT_LE(piece.leaves.count, 16 * largest) << i;
    largest = std::max(largest, piece.leaves.count);
    // A millisecond a leaf: beyond a probe nothing may be larger than by the factor.
    driver.Do(driver.Finished(piece, absl::Milliseconds(1) * piece.leaves.count));
    for (const RunPiece& next : driver.pieces()) running.push_back(next);
  }
  EXPECT_GT(largest, 1u);
}

// Two groups; the first leaf of each is measured at `leaf`.
class TwoGroups {
 public:
  explicit TwoGroups(absl::Duration leaf) : driver({}, /*groups=*/2) {
    JobDescribed other = ConcatJob(2, 1 << 20, /*cost_ns=*/0);
    other.kernel = "other@0";
    driver.Attach({ConcatJob(1, 1 << 20, /*cost_ns=*/0), other});
    Give(1, 0, 4);
    Pass(leaf);
    while (!running.empty()) Finish(running.front(), leaf);
  }
  void Pass(absl::Duration time) {
    driver.After(time);
    Take();
  }
  void Finish(RunPiece piece, absl::Duration leaf) {
    std::erase_if(running, [&](const RunPiece& run) { return run.piece == piece.piece; });
    driver.Do(driver.Finished(piece, leaf * piece.leaves.count));
    Take();
  }
  void Give(uint64_t first_n, uint64_t first, uint64_t count) {
    driver.Give(1, first_n, first, count);
    Take();
  }
  std::vector<RunPiece> On(uint32_t group) const {
    std::vector<RunPiece> found;
    for (const RunPiece& run : running) {
      if (run.group == group) found.push_back(run);
    }
    return found;
  }

  CoreDriver driver;
  std::vector<RunPiece> running;
  std::vector<PieceId> cancelled;

 private:
  void Take() {
    for (const RunPiece& next : driver.pieces()) running.push_back(next);
    for (const CancelPiece& cancel : driver.Of<CancelPiece>()) cancelled.push_back(cancel.piece);
  }
};

TEST(WorkerPullsTest, AGroupThatIsLateGivesItsNextPieceToOneThatIsFree) {
  TwoGroups two(absl::Milliseconds(10));
  two.Give(100, 100, 4);
  ASSERT_THAT(two.On(0), SizeIs(2));
  ASSERT_THAT(two.On(1), SizeIs(2));
  // The second group goes on as before; the first does not end.
  const PieceId stuck_behind = two.On(0)[1].piece;
  const RunPiece running = two.On(0)[0];
  two.Pass(absl::Milliseconds(10));
  two.Finish(two.On(1)[0], absl::Milliseconds(10));
  two.Pass(absl::Milliseconds(10));
  two.Finish(two.On(1)[0], absl::Milliseconds(10));
  for (int i = 0; i < 10 && two.cancelled.empty(); ++i) two.Pass(absl::Milliseconds(10));
  ASSERT_THAT(two.cancelled, SizeIs(1));
  EXPECT_EQ(two.cancelled[0], stuck_behind);
  two.Pass(absl::Milliseconds(10));
  EXPECT_THAT(two.cancelled, SizeIs(1)) << "asked for once";
  two.driver.Do(PieceReturned{running.executor, stuck_behind});
  ASSERT_THAT(two.driver.pieces(), SizeIs(1));
  EXPECT_EQ(two.driver.pieces()[0].group, 1u);
  EXPECT_THAT(two.driver.returns(), IsEmpty()) << "it stays here";
}

TEST(WorkerPullsTest, TheLastLeafIsPulledByTheGroupThatWillBeFreeFirst) {
  TwoGroups two(absl::Milliseconds(10));
  two.Give(100, 100, 2);
  ASSERT_THAT(two.On(0), SizeIs(1));
  ASSERT_THAT(two.On(1), SizeIs(1));
  two.Pass(absl::Milliseconds(9));
  const RunPiece first = two.On(1)[0];
  two.Finish(first, absl::Milliseconds(9));
  two.Give(200, 200, 1);
  ASSERT_THAT(two.On(1), SizeIs(1)) << "it is free now";
  two.Give(300, 300, 1);
  ASSERT_THAT(two.On(0), SizeIs(2)) << "it will be free in a millisecond, the other in ten";
}

TEST(WorkerPullsTest, WhatAnotherJobKeepsAGroupWithIsCountedIn) {
  TwoGroups two(absl::Milliseconds(10));
  // Something that may take any time runs on group 0.
  two.driver.Give(2, 1000, 0, 1);
  ASSERT_THAT(two.driver.pieces(), SizeIs(1));
  ASSERT_EQ(two.driver.pieces()[0].group, 0u);
  two.Give(100, 100, 2);
  EXPECT_THAT(two.On(0), IsEmpty()) << "nothing waits behind it";
  EXPECT_THAT(two.On(1), SizeIs(2));
}

TEST(WorkerPullsTest, AGroupThatDeclinesIsAskedAgainInTime) {
  TwoGroups two(absl::Milliseconds(10));
  two.driver.Give(2, 1000, 0, 1);  // may take any time, on group 0
  two.Give(100, 100, 3);
  ASSERT_THAT(two.On(1), SizeIs(2));
  ASSERT_THAT(two.On(0), IsEmpty());
  EXPECT_GT(two.driver.effects().next_deadline, two.driver.now());
  EXPECT_LE(two.driver.effects().next_deadline, two.driver.now() + absl::Milliseconds(100));
}

}  // namespace
}  // namespace tandem::worker
