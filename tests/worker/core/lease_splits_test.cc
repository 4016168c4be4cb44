// How devices share out leases: each leaf of a range is accounted once, whatever is pulled, taken
// from one another and given back; and what the core tells of it.
#include "worker/core/lease_splits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/rng.h"
#include "tests/worker/core/core_driver.h"

namespace tandem::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

MonoTime At(int64_t nanos) { return MonoTime::FromNanos(nanos); }

LeaseRun GrantOf(uint64_t n, uint64_t first, uint64_t count, uint8_t level = 0) {
  return LeaseRun::Of({JobId(1), n, first, level, count, 1, false, {}}, Epoch(1),
                      uint64_t{1} << 40);
}

LeaseSplits::Share PieceOn(uint32_t device, uint64_t tasks, int64_t begin, int64_t end) {
  return {device, tasks, 1, At(begin), At(end), {.grid = 1e-9 * static_cast<double>(end - begin)}};
}

// What is known of one leaf, in a plain table: no sets, no sums.
struct LeafFate {
  enum { kMissing, kFinished, kGone } is = kMissing;
  uint32_t device = 0;
};

class SplitTable {
 public:
  explicit SplitTable(uint64_t seed) : rng_(seed) {}

  // Ranges of which random parts are finished by devices and given back, several at a time.
  void Run() {
    for (int step = 0; step < 400; ++step) {
      if (ranges_.size() < 4 && rng_.Chance(0.2)) Grant();
      if (!ranges_.empty()) Move();
    }
    while (!ranges_.empty()) Move();
    EXPECT_THAT(splits_.open(), IsEmpty());
  }

 private:
  struct Known {
    LeaseRun run;
    int64_t at = 0;
    std::vector<LeafFate> leaves;
    std::map<uint32_t, uint64_t> pieces;
    std::map<uint32_t, std::pair<int64_t, int64_t>> times;  // begin, end
  };

  void Grant() {
    const uint64_t level = rng_.Below(4), count = rng_.Between(1, 30);
    Known known;
    known.run = GrantOf(next_n_, next_leaf_, count, static_cast<uint8_t>(level));
    known.leaves.resize(known.run.count());
    known.at = now_;
    next_n_ += count;
    next_leaf_ += known.run.count();
    splits_.Granted(known.run, At(now_));
    ranges_.push_back(std::move(known));
  }

  // The next part of some range: a stretch of missing leaves, from anywhere in it.
  void Move() {
    const size_t which = rng_.Below(ranges_.size());
    Known& known = ranges_[which];
    uint64_t from = rng_.Below(known.leaves.size());
    while (known.leaves[from].is != LeafFate::kMissing) from = (from + 1) % known.leaves.size();
    uint64_t count = 0;
    const uint64_t most = rng_.Between(1, 12);
    const bool gone = rng_.Chance(0.15);
    const auto device = static_cast<uint32_t>(rng_.Below(3));
    for (uint64_t at = from; at < known.leaves.size() && count < most; ++at, ++count) {
      if (known.leaves[at].is != LeafFate::kMissing) break;
      known.leaves[at] = {gone ? LeafFate::kGone : LeafFate::kFinished, device};
    }
    const LeaseRun part = known.run.Part(known.run.first() + from, count);
    std::optional<LeaseSplits::Range> ended;
    if (gone) {
      ended = splits_.Left(part);
    } else {
      const int64_t begin = now_ - static_cast<int64_t>(rng_.Below(50));
      ++now_;
      ++known.pieces[device];
      // Nothing begins before it is there.
      const int64_t since = std::max(begin, known.at);
      const auto [it, is_new] = known.times.try_emplace(device, since, now_);
      it->second = {std::min(it->second.first, since), now_};
      ended = splits_.Finished(part, PieceOn(device, 10 * count, begin, now_));
    }
    Check(which, ended);
  }

  void Check(size_t which, const std::optional<LeaseSplits::Range>& ended) {
    const Known& known = ranges_[which];
    uint64_t missing = 0;
    std::map<uint32_t, uint64_t> leaves;
    std::vector<LeafRange> kept;
    for (uint64_t i = 0; i < known.leaves.size(); ++i) {
      const LeafFate& leaf = known.leaves[i];
      missing += leaf.is == LeafFate::kMissing ? 1 : 0;
      if (leaf.is != LeafFate::kFinished) continue;
      ++leaves[leaf.device];
      const uint64_t at = known.run.first() + i;
      if (kept.empty() || kept.back().end != at) kept.push_back({at, at});
      ++kept.back().end;
    }
    ASSERT_EQ(ended.has_value(), missing == 0 && !leaves.empty());
    if (missing > 0) return;
    if (ended.has_value()) {
      EXPECT_EQ(ended->first, known.run.base);
      EXPECT_EQ(ended->leases, known.run.Leases());
      EXPECT_EQ(ended->granted, (LeafRange{known.run.first(), known.run.end()}));
      EXPECT_EQ(ended->Kept(), kept);
      ASSERT_EQ(ended->shares.size(), leaves.size());
      for (const LeaseSplits::Share& share : ended->shares) {
        EXPECT_EQ(share.tasks, 10 * leaves[share.device]);
        EXPECT_EQ(share.pieces, known.pieces.at(share.device));
        EXPECT_EQ(share.begin, At(known.times.at(share.device).first));
        EXPECT_EQ(share.end, At(known.times.at(share.device).second));
      }
    }
    ranges_.erase(ranges_.begin() + static_cast<long>(which));
  }

  Rng rng_;
  LeaseSplits splits_;
  std::vector<Known> ranges_;
  uint64_t next_n_ = 1, next_leaf_ = 0;
  int64_t now_ = 1000;
};

TEST(LeaseSplitsTest, EachLeafOfARangeIsAccountedOnce) {
  for (uint64_t seed = 1; seed <= 200 && !testing::Test::HasFailure(); ++seed)
    SplitTable(seed).Run();
}

TEST(LeaseSplitsTest, StagesAreSummedOverPieces) {
  LeaseSplits splits;
  splits.Granted(GrantOf(1, 0, 2), At(0));
  LeaseSplits::Share piece = PieceOn(0, 1, 0, 1);
  piece.stages = {.host = 1, .up = 2, .grid = 3, .down = 4};
  EXPECT_FALSE(splits.Finished(GrantOf(1, 0, 2).Part(0, 1), piece).has_value());
  const auto ended = splits.Finished(GrantOf(1, 0, 2).Part(1, 1), piece);
  ASSERT_TRUE(ended.has_value());
  const BatchSeconds& stages = ended->shares[0].stages;
  EXPECT_THAT((std::vector<double>{stages.host, stages.up, stages.grid, stages.down}),
              ElementsAre(2, 4, 6, 8));
}

TEST(LeaseSplitsTest, OfMoreRangesThanItsBoundNothingIsKnown) {
  LeaseSplits splits;
  for (uint64_t n = 1; splits.has_room(); ++n) splits.Granted(GrantOf(n, n, 1), At(0));
  ASSERT_THAT(splits.open(), SizeIs(LeaseSplits::kOpenMax));
  const uint64_t beyond = LeaseSplits::kOpenMax + 1;
  EXPECT_FALSE(splits.Finished(GrantOf(beyond, beyond, 1), PieceOn(0, 1, 0, 1)).has_value());
  EXPECT_TRUE(splits.Finished(GrantOf(1, 1, 1), PieceOn(0, 1, 0, 1)).has_value());
  EXPECT_THAT(splits.open(), SizeIs(LeaseSplits::kOpenMax - 1));
}

TEST(LeaseSplitsTest, ARangeOfWhichTooManyPartsWentAwayIsForgotten) {
  LeaseSplits splits;
  const LeaseRun grant = GrantOf(1, 0, 100);
  splits.Granted(grant, At(0));
  for (uint64_t i = 0; i + 1 < LeaseSplits::kRangesMax; ++i) splits.Left(grant.Part(2 * i, 1));
  EXPECT_THAT(splits.open(), SizeIs(1));
  splits.Left(grant.Part(98, 1));
  EXPECT_THAT(splits.open(), IsEmpty());
}

TEST(NoteBudgetTest, IsFullAtFirstAndFillsUpWithTime) {
  NoteBudget budget;
  const NoteLimit limit{.burst = 2, .per_second = 10};
  EXPECT_TRUE(budget.Has(limit, 2, At(1'000)));
  budget.Take();
  budget.Take();
  EXPECT_FALSE(budget.Has(limit, 1, At(1'000)));
  EXPECT_FALSE(budget.Has(limit, 1, At(90'000'000)));
  EXPECT_TRUE(budget.Has(limit, 1, At(101'000'000)));
  EXPECT_FALSE(budget.Has(limit, 2.1, At(900'000'000'000)));  // never more than a burst
  EXPECT_TRUE(budget.Has(limit, 2, At(900'000'000'000)));
}

constexpr char kSplitDevice[] = "emulated:0";

// A core with one core group and one emulated device, of which the test finishes what it likes.
class SplitCore {
 public:
  explicit SplitCore(JobDescribed job, CoreOptions options = {}, bool device = true)
      : driver_(options) {
    if (device) driver_.Do(DeviceFound{kSplitDevice, DeviceKind::kEmulated, {"kernel@0"}});
    driver_.Attach({std::move(job)});
    Take();
  }
  void Give(uint64_t n, uint64_t first, uint64_t count, uint8_t level = 0) {
    driver_.Give(1, n, first, count, level);
    Take();
  }
  void Do(Event event) {
    driver_.Do(std::move(event));
    Take();
  }
  void Pass(absl::Duration time) {
    driver_.After(time);
    Take();
  }
  void Finish(RunPiece piece, BatchMeasured stages = {}) {
    std::erase_if(running, [&](const RunPiece& run) { return run.piece == piece.piece; });
    PieceFinished done = driver_.Finished(piece);
    done.stages = stages;
    Do(std::move(done));
  }
  // Until all has run; each piece takes a millisecond.
  void FinishAll() {
    for (int i = 0; i < 10'000 && driver_.core().backlog_leaves() > 0; ++i) {
      Pass(absl::Milliseconds(1));
      if (!running.empty()) Finish(running.front());
    }
    EXPECT_EQ(driver_.core().backlog_leaves(), 0u);
  }
  MonoTime now() const { return driver_.now(); }

  std::vector<RunPiece> running;
  std::vector<LeaseSplit> told;

 private:
  void Take() {
    for (const RunPiece& run : driver_.pieces()) running.push_back(run);
    for (const Report& report : driver_.effects().reports) {
      told.insert(told.end(), report.splits.begin(), report.splits.end());
    }
  }

  CoreDriver driver_;
};

TEST(LeaseSplitsCoreTest, ALeaseThatTwoDevicesSharedIsToldWithBothParts) {
  JobDescribed job = ConcatJob(1, 1000, /*cost_ns=*/1e6);
  job.task_count = 9'995;  // the last leaf is shorter
  job.grain = 10;
  SplitCore core(job);
  core.Give(5, 0, 1, /*level=*/10);
  core.FinishAll();
  ASSERT_THAT(core.told, SizeIs(1));
  const LeaseSplit& split = core.told[0];
  EXPECT_EQ(split.job, JobId(1));
  EXPECT_EQ(split.lease, 5u);
  EXPECT_EQ(split.leases, 1u);
  EXPECT_EQ(split.granted, (TaskRange{0, 9'995}));
  EXPECT_THAT(split.kept, ElementsAre(TaskRange{0, 9'995}));
  ASSERT_THAT(split.shares, SizeIs(2));
  EXPECT_EQ(split.shares[0].tasks + split.shares[1].tasks, 9'995u);
  EXPECT_NE(split.shares[0].device, split.shares[1].device);
  for (const LeaseShare& share : split.shares) {
    const bool cpu = share.device == DeviceKind::kCpu;
    EXPECT_EQ(share.device_name, cpu ? "cpu" : kSplitDevice);
    EXPECT_EQ(share.bound_by, cpu ? "cpu" : "grid");
    EXPECT_GT(share.tasks, 0u);
    EXPECT_EQ(share.begin, absl::ZeroDuration());
    EXPECT_GT(share.end, share.begin);
    EXPECT_LE(share.end, core.now() - MonoTime::FromNanos(1'000'000'000));
  }
}

TEST(LeaseSplitsCoreTest, TheStageThatTookLongestBindsAShare) {
  JobDescribed job = ConcatJob(1, 1, 0);
  job.device = DeviceChoice::kGpu;
  SplitCore core(job);
  core.Give(1, 0, 1);
  ASSERT_THAT(core.running, SizeIs(1));
  core.Finish(core.running[0], {.host_seconds = 1, .up_seconds = 5, .grid_seconds = 3});
  ASSERT_THAT(core.told, SizeIs(1));
  ASSERT_THAT(core.told[0].shares, SizeIs(1));
  EXPECT_EQ(core.told[0].shares[0].bound_by, "copy up");
  EXPECT_EQ(core.told[0].shares[0].up, absl::Seconds(5));
  EXPECT_EQ(core.told[0].shares[0].device, DeviceKind::kEmulated);
}

TEST(LeaseSplitsCoreTest, WhatWasRecalledIsNotInTheRangeThatIsTold) {
  SplitCore core(ConcatJob(1, 1 << 20, /*cost_ns=*/1e6));
  core.Give(1, 0, 100);
  // Unstarted leaves of the middle go at once.
  core.Do(Recalled{{JobId(1), {40, 20}}});
  core.FinishAll();
  ASSERT_THAT(core.told, SizeIs(1));
  EXPECT_EQ(core.told[0].granted, (TaskRange{0, 100}));
  EXPECT_THAT(core.told[0].kept, ElementsAre(TaskRange{0, 40}, TaskRange{60, 100}));
  uint64_t tasks = 0;
  for (const LeaseShare& share : core.told[0].shares) tasks += share.tasks;
  EXPECT_EQ(tasks, 80u);
}

TEST(LeaseSplitsCoreTest, APieceThatComesBackUnstartedGoesToWhoRunsIt) {
  SplitCore core(ConcatJob(1, 2, /*cost_ns=*/1e6));
  core.Give(1, 0, 2);
  ASSERT_FALSE(core.running.empty());
  const RunPiece first = core.running[0];
  // Its executor hands it back; it goes to the pool, and is pulled again.
  core.running.erase(core.running.begin());
  core.Do(PieceReturned{first.executor, first.piece});
  core.FinishAll();
  ASSERT_THAT(core.told, SizeIs(1));
  uint64_t tasks = 0;
  for (const LeaseShare& share : core.told[0].shares) tasks += share.tasks;
  EXPECT_EQ(tasks, 2u);
}

TEST(LeaseSplitsCoreTest, ALeaseThatRunsAgainBecauseItsAccumulatorWasLostIsNotTold) {
  JobDescribed job = SumJob(1, 4, /*cost_ns=*/1e6);
  job.device = DeviceChoice::kCpu;
  CoreDriver driver;
  driver.Attach({job});
  driver.Give(1, 1, 0, 4);
  const std::vector<RunPiece> pieces = driver.pieces();
  ASSERT_FALSE(pieces.empty());
  ASSERT_LT(pieces[0].leaves.count, 4u);
  driver.Do(driver.Accumulated(pieces[0]));
  driver.Do(ExecutorLost{pieces[0].executor, "SIGKILL", {}});
  uint64_t leaves = 0;
  std::vector<RunPiece> running;
  for (int i = 0; i < 100 && leaves < 4; ++i) {
    driver.After(absl::Seconds(1));  // until an executor may start again
    for (const RunPiece& piece : driver.pieces()) running.push_back(piece);
    while (!running.empty()) {
      const RunPiece piece = running.back();
      running.pop_back();
      leaves += piece.leaves.count;
      driver.Do(driver.Accumulated(piece));
      for (const Report& report : driver.effects().reports) EXPECT_THAT(report.splits, IsEmpty());
      for (const RunPiece& next : driver.pieces()) running.push_back(next);
    }
  }
  EXPECT_EQ(leaves, 4u);
}

TEST(LeaseSplitsCoreTest, LeavesByThemselvesAreToldWhileThereIsPlenty) {
  CoreOptions options;
  options.notes = {.job = {.burst = 100, .per_second = 0}, .worker = {.burst = 8, .per_second = 0}};
  JobDescribed job = ConcatJob(1, 1 << 20, /*cost_ns=*/1);
  job.device = DeviceChoice::kCpu;
  SplitCore core(job, options);
  for (uint64_t n = 1; n <= 50; ++n) {
    core.Give(n, n - 1, 1);
    core.FinishAll();
  }
  EXPECT_THAT(core.told, SizeIs(5));  // down to less than half of the burst
  core.Give(51, 50, 2);
  core.FinishAll();
  EXPECT_THAT(core.told, SizeIs(6));
  for (const LeaseSplit& split : core.told) EXPECT_THAT(split.shares, SizeIs(1));
}

TEST(LeaseSplitsCoreTest, ManyLeasesCostFewNotes) {
  SplitCore core(ConcatJob(1, 1 << 20, /*cost_ns=*/1), {}, /*device=*/false);
  const MonoTime begin = core.now();
  for (uint64_t n = 1; n <= 500; ++n) {
    core.Give(n, n - 1, 1);
    core.FinishAll();
  }
  const double seconds = absl::ToDoubleSeconds(core.now() - begin);
  const NoteLimit limit = CoreOptions().notes.job;
  EXPECT_LE(core.told.size(), limit.burst + limit.per_second * seconds + 1);
  EXPECT_GE(core.told.size(), limit.burst);
}

}  // namespace
}  // namespace tandem::worker
