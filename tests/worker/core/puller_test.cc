#include "worker/core/puller.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "common/base/rng.h"

namespace tandem::worker {
namespace {

using Launch = Puller::Launch;

MonoTime At(double seconds) {
  return MonoTime::FromNanos(1'000'000'000 + static_cast<int64_t>(seconds * 1e9));
}

PullDevice Told(double seconds_per_leaf, double fixed = 0) {
  PullDevice device;
  device.seconds_per_leaf = seconds_per_leaf;
  device.fixed_seconds = fixed;
  return device;
}

// One piece of so many leaves that took as long as they should.
void Prove(Puller* puller, uint32_t device, double seconds_per_leaf, double at) {
  constexpr uint64_t kPiece = 1'000'000;
  puller->Took(device, kPiece + device, 100, At(at));
  puller->Finished(device, kPiece + device, At(at + 100 * seconds_per_leaf), Launch::kWarm);
}

TEST(PullerTest, WithoutAnyPredictionTheFirstPullIsOneLeaf) {
  Puller puller;
  const uint32_t cpu = puller.AddDevice({});
  EXPECT_EQ(puller.Ask(cpu, At(0), {1000, 0}).leaves, 1u);
}

TEST(PullerTest, TheFirstPullIsAProbeOfAMillisecond) {
  Puller puller;
  const uint32_t cpu = puller.AddDevice(Told(1e-5));
  EXPECT_EQ(puller.Ask(cpu, At(0), {100'000, 0}).leaves, 100u);
}

TEST(PullerTest, WhileItIsUnprovenADeviceHoldsOnePiece) {
  Puller puller;
  const uint32_t gpu = puller.AddDevice(Told(1e-5));
  puller.Took(gpu, 1, 100, At(0));
  EXPECT_EQ(puller.Ask(gpu, At(0.0005), {100'000, 0}).leaves, 0u);
  puller.Finished(gpu, 1, At(0.001), Launch::kWarm);
  puller.Took(gpu, 2, 100, At(0.001));
  EXPECT_GT(puller.Ask(gpu, At(0.001), {100'000, 0}).leaves, 0u);
  puller.Took(gpu, 3, 100, At(0.001));
  EXPECT_EQ(puller.Ask(gpu, At(0.001), {100'000, 0}).leaves, 0u);
}

TEST(PullerTest, AQuantumIsTwoPercentOfWhatRemains) {
  Puller puller;
  const uint32_t a = puller.AddDevice(Told(1e-5)), b = puller.AddDevice(Told(1e-5));
  Prove(&puller, a, 1e-5, 0);
  Prove(&puller, b, 1e-5, 0);
  // 10^5 leaves are half a second of both together; 10 ms are 1,000 leaves.
  EXPECT_NEAR(static_cast<double>(puller.Ask(a, At(1), {100'000, 0}).leaves), 1000, 2);
  // What is still to come counts like what is there.
  EXPECT_NEAR(static_cast<double>(puller.Ask(a, At(1), {50'000, 50'000}).leaves), 1000, 2);
}

TEST(PullerTest, AQuantumIsEightFixedCostsAndNeverOverHalfOfWhatRemains) {
  Puller puller;
  const uint32_t a = puller.AddDevice(Told(1e-5, 1e-3));
  puller.AddDevice({});  // of which nothing is known
  Prove(&puller, a, 1e-5, 0);
  const double slope = puller.SecondsPerLeaf(a);
  const auto leaves_of = [&](uint64_t rest) {
    return static_cast<double>(puller.Ask(a, At(1), {rest, 0}).leaves) * slope;
  };
  EXPECT_NEAR(leaves_of(10'000), 8e-3, 1e-4);
  const uint64_t rest = static_cast<uint64_t>(10e-3 / slope);
  EXPECT_NEAR(leaves_of(rest), 5e-3, 1e-4);
}

TEST(PullerTest, WhoPullsAloneTakesMoreAtATime) {
  Puller puller;
  const uint32_t alone = puller.AddDevice(Told(1e-5, 1e-3)), other = puller.AddDevice(Told(1e-5));
  puller.Lost(other);
  puller.Took(alone, 1, 100, At(0));
  puller.Finished(alone, 1, At(0.01), Launch::kWarm, /*measured=*/1e-3);
  // Nobody has to end together with it: half of the rest, and never under 32 fixed costs.
  EXPECT_NEAR(static_cast<double>(puller.Ask(alone, At(1), {100'000, 0}).leaves), 50'000, 2);
  EXPECT_EQ(puller.Ask(alone, At(1), {600, 0}).leaves, 600u);
  EXPECT_NEAR(static_cast<double>(puller.Ask(alone, At(1), {4'000, 0}).leaves), 3'200, 2);
}

TEST(PullerTest, WhatADeviceMeasuredItselfHasNoFixedCostInIt) {
  Puller puller;
  const uint32_t cpu = puller.AddDevice(Told(1e-5, 1e-4));
  for (int i = 0; i < 20; ++i) {
    puller.Took(cpu, 1, 10, At(i));
    puller.Finished(cpu, 1, At(i + 0.5), Launch::kWarm, /*measured=*/10e-9);
  }
  EXPECT_NEAR(puller.SecondsPerLeaf(cpu), 1e-9, 1e-12);
}

TEST(PullerTest, WhoeverWouldEndAfterTheOthersDoesNotPull) {
  Puller puller;
  const uint32_t slow = puller.AddDevice(Told(1)), fast = puller.AddDevice(Told(1e-3));
  Prove(&puller, fast, 1e-3, 0);
  const Puller::Decision decision = puller.Ask(slow, At(1), {100, 0});
  EXPECT_EQ(decision.leaves, 0u);
  // 100 ms from now the fast one should have ended: if not, it is to be asked again.
  EXPECT_NEAR(absl::ToDoubleSeconds(decision.look_again - At(1)), 0.1, 0.01);
  EXPECT_GT(puller.Ask(fast, At(1), {100, 0}).leaves, 0u);
  EXPECT_GT(puller.Ask(slow, At(1), {100'000, 0}).leaves, 0u);
}

TEST(PullerTest, ADeviceThatIsLateIsCountedOnForLess) {
  Puller puller;
  const uint32_t slow = puller.AddDevice(Told(1)), fast = puller.AddDevice(Told(1e-3));
  Prove(&puller, fast, 1e-3, 0);
  puller.Took(fast, 1, 10, At(1));
  EXPECT_EQ(puller.Ask(slow, At(1), {100, 0}).leaves, 0u);
  EXPECT_GT(puller.Ask(slow, At(4), {100, 0}).leaves, 0u);  // 3 s instead of 10 ms
}

TEST(PullerTest, ADeviceThatOtherJobsOccupyIsCountedOnForLater) {
  Puller puller;
  const uint32_t slow = puller.AddDevice(Told(0.1)), fast = puller.AddDevice(Told(1e-3));
  Prove(&puller, fast, 1e-3, 0);
  EXPECT_EQ(puller.Ask(slow, At(1), {20, 0}).leaves, 0u);
  puller.Occupied(fast, At(11));
  EXPECT_GT(puller.Ask(slow, At(1), {20, 0}).leaves, 0u);
  EXPECT_EQ(puller.Ask(slow, At(12), {20, 0}).leaves, 0u);
}

TEST(PullerTest, TheTimeOfOtherJobsIsNotTakenForItsOwn) {
  Puller puller;
  const uint32_t gpu = puller.AddDevice(Told(1e-3));
  puller.Took(gpu, 1, 100, At(0));
  puller.OtherEnded(gpu, At(5));
  puller.Finished(gpu, 1, At(5.2), Launch::kWarm);
  EXPECT_NEAR(puller.SecondsPerLeaf(gpu), 2e-3, 1e-5);
}

TEST(PullerTest, ALostDeviceIsCountedOnForNothing) {
  Puller puller;
  const uint32_t slow = puller.AddDevice(Told(1)), fast = puller.AddDevice(Told(1e-3));
  puller.Lost(fast);
  EXPECT_GT(puller.Ask(slow, At(1), {100, 0}).leaves, 0u);
  EXPECT_EQ(puller.Ask(fast, At(1), {100, 0}).leaves, 0u);
  puller.Back(fast, Told(1e-3));
  EXPECT_EQ(puller.Ask(slow, At(1), {100, 0}).leaves, 0u);
}

TEST(PullerTest, AStealMakesBothEndTogether) {
  Puller puller;
  PullDevice told = Told(1e-3);
  told.gives_back = true;
  const uint32_t victim = puller.AddDevice(told), thief = puller.AddDevice(Told(1e-3));
  Prove(&puller, victim, 1e-3, 0);
  Prove(&puller, thief, 1e-3, 0);
  puller.Took(victim, 7, 100, At(1));
  const auto steal = puller.AskSteal(thief, At(1.020));  // 80 leaves are left
  ASSERT_TRUE(steal.has_value());
  EXPECT_EQ(steal->victim, victim);
  EXPECT_EQ(steal->piece, 7u);
  EXPECT_NEAR(static_cast<double>(steal->leaves), 40, 1);
  puller.Stealing(*steal);
  EXPECT_FALSE(puller.AskSteal(thief, At(1.021)).has_value());  // it is under way
  puller.Shrunk(victim, 7, 60);
  puller.Took(thief, 8, 40, At(1.020));
  EXPECT_FALSE(puller.AskSteal(victim, At(1.030)).has_value());  // it is busy
}

TEST(PullerTest, WhatAGridHasBegunCannotBeStolenButItsNextPieceCan) {
  Puller puller;
  const uint32_t gpu = puller.AddDevice(Told(1e-3)), thief = puller.AddDevice(Told(1e-3));
  Prove(&puller, gpu, 1e-3, 0);
  Prove(&puller, thief, 1e-3, 0);
  puller.Took(gpu, 1, 100, At(1));
  EXPECT_FALSE(puller.AskSteal(thief, At(1)).has_value());
  puller.Took(gpu, 2, 100, At(1));
  const auto steal = puller.AskSteal(thief, At(1));
  ASSERT_TRUE(steal.has_value());
  EXPECT_EQ(steal->piece, 2u);
  EXPECT_NEAR(static_cast<double>(steal->leaves), 100, 1);
}

TEST(PullerTest, ThePieceBehindALateOneGoesBack) {
  Puller puller;
  const uint32_t late = puller.AddDevice(Told(1e-3)), other = puller.AddDevice(Told(1e-3));
  Prove(&puller, late, 1e-3, 0);
  Prove(&puller, other, 1e-3, 0);
  puller.Took(late, 1, 10, At(1));
  puller.Took(late, 2, 10, At(1));
  EXPECT_FALSE(puller.AskReturn(late, At(1.005), {5, 0}).has_value());
  const auto back = puller.AskReturn(late, At(1.5), {5, 0});
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->victim, late);
  EXPECT_EQ(back->piece, 2u);
  EXPECT_EQ(back->leaves, 10u);
  puller.Stealing(*back);
  EXPECT_FALSE(puller.AskReturn(late, At(1.6), {5, 0}).has_value());  // it is on its way
  puller.Shrunk(late, 2, 0);
  // It is not given out again to the same device.
  EXPECT_EQ(puller.Ask(late, At(1.6), {15, 0}).leaves, 0u);
  EXPECT_GT(puller.Ask(other, At(1.6), {15, 0}).leaves, 0u);
}

TEST(PullerTest, TheFirstLaunchTeachesOnlyThatItIsNoSlower) {
  Puller puller;
  const uint32_t gpu = puller.AddDevice(Told(1e-3));
  puller.Took(gpu, 1, 10, At(0));
  puller.Finished(gpu, 1, At(5), Launch::kFirst);  // the kernel was being loaded
  EXPECT_FALSE(puller.Proven(gpu));
  EXPECT_DOUBLE_EQ(puller.SecondsPerLeaf(gpu), 1e-3);
  puller.Took(gpu, 2, 10, At(5));
  puller.Finished(gpu, 2, At(5.001), Launch::kFirst);  // faster than predicted all the same
  EXPECT_NEAR(puller.SecondsPerLeaf(gpu), 1e-4, 1e-6);
}

TEST(PullerTest, ARateIsThatOfTheLastPieces) {
  Puller puller;
  const uint32_t gpu = puller.AddDevice(Told(1e-3));
  double now = 0;
  const auto run = [&](int pieces, double seconds_per_leaf) {
    for (int i = 0; i < pieces; ++i) {
      puller.Took(gpu, 1, 1000, At(now));
      now += 1000 * seconds_per_leaf;
      puller.Finished(gpu, 1, At(now), Launch::kWarm);
    }
  };
  run(100, 1e-5);
  EXPECT_NEAR(puller.SecondsPerLeaf(gpu), 1e-5, 1e-7);
  run(40, 1e-4);
  EXPECT_NEAR(puller.SecondsPerLeaf(gpu), 1e-4, 2e-5);
}

// Whatever they have measured and hold: as long as the pool has a leaf, one of the devices that
// hold nothing is given one, or a device that holds something will be asked again.
TEST(PullerTest, NobodyWaitsForEver) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    Rng rng(seed);
    Puller puller;
    const auto devices = static_cast<uint32_t>(rng.Between(1, 10));
    std::vector<std::vector<uint64_t>> held(devices);
    for (uint32_t i = 0; i < devices; ++i) {
      puller.AddDevice(
          Told(rng.Chance(0.2) ? 0 : 1e-6 * static_cast<double>(rng.Between(1, 100'000)),
               rng.NextDouble() * 1e-3));
    }
    double now = 0;
    uint64_t pool = rng.Between(1, 5000), piece = 0;
    while (pool > 0) {
      now += rng.NextDouble() * 0.01;
      bool holds = false;
      for (uint32_t i = 0; i < devices; ++i) {
        if (!held[i].empty() && rng.Chance(0.5)) {
          puller.Finished(i, held[i].front(), At(now),
                          rng.Chance(0.1) ? Launch::kFirst : Launch::kWarm);
          held[i].erase(held[i].begin());
        }
        const Puller::Decision pull = puller.Ask(i, At(now), {pool, rng.NextDouble() * 100});
        ASSERT_LE(pull.leaves, pool);
        if (pull.leaves > 0) {
          ASSERT_LT(held[i].size(), 2u);
          pool -= pull.leaves;
          held[i].push_back(++piece);
          puller.Took(i, piece, pull.leaves, At(now));
        }
        holds |= !held[i].empty();
      }
      ASSERT_TRUE(holds) << "seed " << seed << ": nobody pulls and nobody runs";
    }
  }
}

}  // namespace
}  // namespace tandem::worker
