#include "master/core/lease_table.h"

#include <gtest/gtest.h>

#include <map>
#include <utility>
#include <vector>

#include "common/base/rng.h"

namespace tandem::master {
namespace {

constexpr WorkerId kAnn(1), kBob(2);

LeaseRun RunFor(uint64_t begin, uint64_t end, uint64_t n, WorkerId worker, uint8_t level = 0) {
  LeaseRun run;
  run.begin = run.first_leaf = begin;
  run.end = end;
  run.first_n = n;
  run.level = level;
  run.worker = worker;
  return run;
}

uint64_t TakeCount(LeaseTable& table, WorkerId w, LeafRun run) {
  return table.Take(w, run, [](LeafRange, const LeaseRun&, int64_t) {});
}

TEST(LeaseTableTest, TakesOnlyWhatTheWorkerHoldsUnderThatNumber) {
  LeaseTable table;
  table.Add(RunFor(0, 10, 100, kAnn));
  EXPECT_EQ(TakeCount(table, kBob, {100, {0, 10}}), 0u);
  EXPECT_EQ(TakeCount(table, kAnn, {99, {0, 10}}), 0u);
  EXPECT_EQ(TakeCount(table, kAnn, {103, {3, 2}}), 2u);
  EXPECT_EQ(TakeCount(table, kAnn, {103, {3, 2}}), 0u) << "taken once";
  EXPECT_EQ(TakeCount(table, kAnn, {100, {0, 10}}), 8u) << "the rest, around the hole";
  EXPECT_TRUE(table.empty());
}

TEST(LeaseTableTest, CountsLeasesThatEndAsTheirLastLeafGoes) {
  LeaseTable table;
  table.Add(RunFor(0, 12, 5, kAnn, 2));  // Three leases of four leaves.
  std::vector<int64_t> ended;
  const auto take = [&](LeafRun run) {
    table.Take(kAnn, run, [&](LeafRange, const LeaseRun&, int64_t n) { ended.push_back(n); });
  };
  take({5, {0, 2}});  // Half of the first lease.
  take({5, {2, 2}});  // The other half.
  take({7, {8, 4}});
  take({6, {4, 4}});
  EXPECT_EQ(ended, (std::vector<int64_t>{0, 1, 1, 1}));
}

// Against a map from leaf to (worker, number).
TEST(LeaseTableTest, AgreesWithAMapOfLeavesForRandomTraffic) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Rng rng(seed);
    LeaseTable table;
    std::map<uint64_t, std::pair<WorkerId, uint64_t>> oracle;
    uint64_t next_n = 1;
    for (int step = 0; step < 60; ++step) {
      const uint64_t begin = rng.Below(64);
      const uint64_t end = begin + 1 + rng.Below(16);
      const WorkerId worker = rng.Chance(0.5) ? kAnn : kBob;
      if (rng.Chance(0.5)) {
        bool free = true;
        for (uint64_t leaf = begin; leaf < end; ++leaf) free = free && !oracle.contains(leaf);
        if (!free) continue;
        const LeaseRun run = RunFor(begin, end, next_n, worker, static_cast<uint8_t>(rng.Below(3)));
        next_n += static_cast<uint64_t>(run.Leases());
        table.Add(run);
        for (uint64_t leaf = begin; leaf < end; ++leaf) {
          oracle[leaf] = {worker, run.NumberOf(leaf)};
        }
      } else if (const auto at = oracle.find(begin); at != oracle.end()) {
        const WorkerId holder = at->second.first;
        const uint64_t n = at->second.second;
        // What the holder could name so: leaves of the run that `begin` lies in.
        uint64_t expected = 0;
        table.ForEachIn({begin, end}, [&](const LeaseRun& run, LeafRange overlap) {
          if (run.Names(holder, {n, {begin, end - begin}})) expected += overlap.size();
        });
        const bool holds = table.Holds(holder, {n, {begin, end - begin}});
        uint64_t taken = 0;
        table.Take(holder, {n, {begin, end - begin}},
                   [&](LeafRange leaves, const LeaseRun& run, int64_t) {
                     for (uint64_t leaf = leaves.begin; leaf < leaves.end; ++leaf) {
                       ASSERT_EQ(oracle.at(leaf), std::make_pair(holder, run.NumberOf(leaf)));
                       oracle.erase(leaf);
                       ++taken;
                     }
                   });
        EXPECT_EQ(taken, expected);
        EXPECT_GE(taken, 1u);
        EXPECT_EQ(holds, taken == end - begin);
      }
      table.CheckInvariants();
      uint64_t count = 0;
      for (const LeaseRun& run : table) {
        for (uint64_t leaf = run.begin; leaf < run.end; ++leaf, ++count) {
          ASSERT_EQ(oracle.at(leaf), std::make_pair(run.worker, run.NumberOf(leaf)));
        }
      }
      ASSERT_EQ(count, oracle.size());
    }
  }
}

TEST(LeaseTableTest, CommitsFromEitherEndKeepOneEntry) {
  LeaseTable table;
  table.Add(RunFor(0, 1000, 1, kAnn));
  for (uint64_t i = 0; i < 400; ++i) {
    ASSERT_EQ(TakeCount(table, kAnn, {1 + i, {i, 1}}), 1u);
    ASSERT_EQ(TakeCount(table, kAnn, {1000 - i, {999 - i, 1}}), 1u);
    ASSERT_EQ(table.entries(), 1u);
  }
}

}  // namespace
}  // namespace tandem::master
