#include "master/policy/policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "common/base/rng.h"

namespace tandem::master {
namespace {

GrantView Measured(double leaf_seconds) {
  GrantView view;
  view.free_leaves = 1 << 30;
  view.measured = true;
  view.proven = true;
  view.leaf_seconds = leaf_seconds;
  view.max_leases = 2048;
  view.latency_seconds = 0.001;
  return view;
}

TEST(PolicyTest, AnUnmeasuredKernelStartsAtOneLeaf) {
  GrantView view = Measured(0);
  view.measured = false;
  view.leaf_seconds = 2e-4;
  EXPECT_EQ(PlanGrant({}, view).lease_leaves, 1u);
  view.probe_leaves = 8;
  EXPECT_EQ(PlanGrant({}, view).lease_leaves, 8u);
}

TEST(PolicyTest, OfAJobOfWhichNothingIsFinishedNoMoreIsOutThanBridgesTheLatency) {
  GrantView view = Measured(1e-6);
  view.proven = false;
  view.latency_seconds = 0.005;  // Four of them: 20 ms.
  const GrantPlan plan = PlanGrant({}, view);
  EXPECT_EQ(plan.bound, GrantBound::kUnproven);
  const double seconds = static_cast<double>(plan.leases * plan.lease_leaves) * 1e-6;
  EXPECT_GE(seconds, 0.010);
  EXPECT_LE(seconds, 0.040);
  view.leaf_seconds = 1;
  view.parallel = 4;
  EXPECT_EQ(PlanGrant({}, view).leases, 5u) << "each core has something to run";
}

TEST(PolicyTest, NoLeaseIsPredictedOverTheLongestTimeWhileASmallerNodeExists) {
  for (double leaf_seconds : {1e-9, 1e-6, 3e-4, 0.2, 0.9}) {
    const GrantPlan plan = PlanGrant({}, Measured(leaf_seconds));
    EXPECT_LE(static_cast<double>(plan.lease_leaves) * leaf_seconds, 1.0) << leaf_seconds;
    EXPECT_GT(2 * static_cast<double>(plan.lease_leaves) * leaf_seconds, 0.5) << leaf_seconds;
  }
  EXPECT_EQ(PlanGrant({}, Measured(30)).lease_leaves, 1u) << "a leaf cannot be cut";
}

TEST(PolicyTest, LeasesShrinkTowardsTheEnd) {
  GrantView view = Measured(0.001);
  view.share = 0.5;
  uint64_t last = UINT64_MAX;
  for (uint64_t free : {4000, 1000, 300, 64, 8, 1}) {
    view.free_leaves = free;
    const GrantPlan plan = PlanGrant({}, view);
    EXPECT_LE(plan.lease_leaves, last);
    EXPECT_LE(plan.lease_leaves, std::max<uint64_t>(1, free / 4)) << "half of half";
    last = plan.lease_leaves;
  }
  EXPECT_EQ(last, 1u);
}

TEST(PolicyTest, TheOnlyWorkerHasNobodyToShrinkFor) {
  GrantView view = Measured(0.001);
  view.share = 1;
  view.free_leaves = 4000;
  EXPECT_EQ(PlanGrant({}, view).lease_leaves, 512u) << "under a second";
  view.free_leaves = 300;
  EXPECT_EQ(PlanGrant({}, view).lease_leaves, 128u) << "half of it";
  view.free_leaves = 130;
  EXPECT_EQ(PlanGrant({}, view).lease_leaves, 64u) << "a power of two of 100";
  view.free_leaves = 64;
  EXPECT_EQ(PlanGrant({}, view).lease_leaves, 64u) << "all that there is";
}

TEST(PolicyTest, LeasesShrinkToALatencysWorthAndNoFurther) {
  GrantView view = Measured(1e-5);
  view.share = 0.5;
  view.latency_seconds = 0.005;  // 500 leaves; a power of two of them is 256
  for (uint64_t free : {1'000'000, 4000, 2000, 1030}) {
    view.free_leaves = free;
    const uint64_t leaves = PlanGrant({}, view).lease_leaves;
    EXPECT_GE(leaves, 256u) << free;
    EXPECT_LE(leaves, std::max<uint64_t>(256, free / 4)) << free;
  }
  view.free_leaves = 128;
  EXPECT_EQ(PlanGrant({}, view).lease_leaves, 64u) << "but never more than its share";
}

TEST(PolicyTest, NobodyTakesMoreThanItsShareOfWhatIsLeft) {
  GrantView view = Measured(1e-6);
  view.free_leaves = 100;
  view.share = 0.25;
  view.max_lease_leaves = 1;
  EXPECT_EQ(PlanGrant({}, view).leases, 25u);
}

TEST(PolicyTest, TheQueueBridgesFourLatencies) {
  GrantView view = Measured(1e-4);
  view.max_lease_leaves = 1;
  view.latency_seconds = 0.005;  // Four of them are 200 leases.
  EXPECT_EQ(PlanGrant({}, view).leases, 201u) << "one that runs, and the bridge";
  view.max_leases = 64;
  EXPECT_EQ(PlanGrant({}, view).leases, 64u) << "the worker's own bound";
}

TEST(PolicyTest, LongLeasesAreQueuedTwoDeep) {
  const GrantPlan plan = PlanGrant({}, Measured(1.0));
  EXPECT_EQ(plan.lease_leaves, 1u);
  EXPECT_EQ(plan.leases, 2u);
}

TEST(PolicyTest, HeavyLeavesFillEveryCore) {
  GrantView view = Measured(10.0 / 64);  // Ten seconds on one of 64 cores.
  view.parallel = 64;
  const GrantPlan plan = PlanGrant({}, view);
  EXPECT_GE(plan.leases * plan.lease_leaves, 64u);
}

TEST(PolicyTest, TheQueueIsToppedUpWhenHalfOfTheBridgeIsGone) {
  GrantView view = Measured(1e-4);
  view.max_lease_leaves = 1;
  view.latency_seconds = 0.005;
  view.queued_leases = view.held_leases = 150;
  view.queued_seconds = 0.0150;
  EXPECT_EQ(PlanGrant({}, view).bound, GrantBound::kQueueFull);
  view.queued_leases = view.held_leases = 100;
  view.queued_seconds = 0.0100;
  EXPECT_EQ(PlanGrant({}, view).leases, 101u);
}

TEST(PolicyTest, NothingBeyondTheWorkersBound) {
  Rng rng(1);
  for (int i = 0; i < 10'000; ++i) {
    GrantView view = Measured(std::exp2(-30 + 40 * rng.NextDouble()));
    view.measured = rng.Chance(0.8);
    view.free_leaves = rng.Below(uint64_t{1} << rng.Below(50));
    view.probe_leaves = uint64_t{1} << rng.Below(20);
    view.share = rng.NextDouble();
    view.parallel = 1 + rng.Below(128);
    view.latency_seconds = rng.NextDouble() * 0.1;
    view.max_leases = 1 + rng.Below(4096);
    view.held_leases = rng.Below(4096);
    view.queued_leases = rng.Below(view.held_leases + 1);
    view.queued_seconds = static_cast<double>(view.queued_leases) * view.leaf_seconds;
    const GrantPlan plan = PlanGrant({}, view);
    if (plan.leases == 0) continue;
    ASSERT_LE(view.held_leases + plan.leases, view.max_leases);
    ASSERT_GE(plan.lease_leaves, 1u);
    ASSERT_GT(view.free_leaves, 0u);
  }
}

TEST(PolicyTest, ADecisionIsExplainedInOneLine) {
  const std::string text = ExplainGrant({}, Measured(1.0));
  EXPECT_THAT(text, testing::HasSubstr("2 leases of 1 leaf"));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("\n")));
  GrantView none = Measured(1.0);
  none.free_leaves = 0;
  EXPECT_THAT(ExplainGrant({}, none), testing::StartsWith("nothing: no leaf is free"));
}

TEST(PolicyTest, PriorityThenLeastServedThenOldest) {
  EXPECT_TRUE((JobRank{5, 100, 9} < JobRank{0, 0, 1}));
  EXPECT_TRUE((JobRank{0, 1, 9} < JobRank{0, 2, 1}));
  EXPECT_TRUE((JobRank{0, 1, 1} < JobRank{0, 1, 2}));
}

TEST(StealTest, BothEndTogether) {
  StealView view{.victim_leaves = 300, .victim_leaf_seconds = 0.02, .thief_leaf_seconds = 0.01};
  EXPECT_EQ(PlanSteal({}, view), 200u) << "the thief is twice as fast";
}

TEST(StealTest, WhatMayHaveStartedOrEndsSoonStays) {
  StealView view{
      .victim_leaves = 4, .victim_leaf_seconds = 1, .victim_parallel = 4, .thief_leaf_seconds = 1};
  EXPECT_EQ(PlanSteal({}, view), 0u);
  view.victim_leaves = 5;
  EXPECT_EQ(PlanSteal({}, view), 1u);
  view.victim_leaf_seconds = 0.001;
  EXPECT_EQ(PlanSteal({}, view), 0u) << "over before a recall has gone round";
}

}  // namespace
}  // namespace tandem::master
