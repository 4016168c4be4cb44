#include "worker/core/pull.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "common/base/rng.h"
#include "worker/core/rate_model.h"

namespace tandem::worker {
namespace {

using Source = PullEstimate::Source;

TEST(PullTest, WithoutAnyHintAPieceIsOneTask) {
  EXPECT_EQ(PullTasks({}, {0, 0, Source::kHint}, 1e9, 1), 1u);
}

TEST(PullTest, WithAHintOnlyItIsAProbe) {
  EXPECT_EQ(PullTasks({}, {1e-6, 0, Source::kHint}, 1e9, 4), 1000u);
}

TEST(PullTest, AQuantumIsTwoPercentOfAGroupsShareOfTheRest) {
  // 1 µs a task, 10^6 tasks, 2 groups: a share is 0.5 s.
  EXPECT_EQ(PullTasks({}, {1e-6, 0, Source::kJob}, 1e6, 2), 10'000u);
}

TEST(PullTest, APieceIsLargeEnoughForItsFixedCost) {
  // 1 ms fixed: eight of them, for 2 % of the share are less.
  EXPECT_EQ(PullTasks({}, {1e-6, 1e-3, Source::kJob}, 2e5, 2), 8'000u);
}

TEST(PullTest, TowardsTheEndPiecesBecomeHalvesButNeverTinier) {
  EXPECT_EQ(PullTasks({}, {1e-6, 1e-3, Source::kJob}, 20'000, 2), 5'000u);
  EXPECT_EQ(PullTasks({}, {1e-6, 1e-3, Source::kJob}, 100, 2), 2'000u);  // all there is
}

TEST(PullTest, WhoPullsAloneTakesMoreAtATime) {
  // Nobody has to end together with it: a tenth of the rest, and never under eight fixed costs.
  EXPECT_EQ(PullTasks({}, {1e-6, 0, Source::kJob}, 1e6, 1), 100'000u);
  EXPECT_EQ(PullTasks({}, {1e-6, 1e-3, Source::kJob}, 10'000, 1), 8'000u);
}

TEST(PullTest, NoPieceIsOverTheLongest) {
  EXPECT_EQ(PullTasks({}, {1e-3, 0, Source::kJob}, 1e12, 1), 500u);
}

TEST(PullTest, UntilTheJobIsMeasuredAPieceIsAProbeByTheLargerOfHintAndKernel) {
  const auto pull = [](double kernel, double hint) {
    return PullTasks({}, {kernel, 0, Source::kKernel, hint}, 1e12, 1);
  };
  EXPECT_EQ(pull(1e-9, 1e-6), 1000u) << "the kernel's other jobs may have been cheap";
  EXPECT_EQ(pull(1e-6, 1e-9), 1000u) << "the hint may be";
  EXPECT_EQ(pull(1e-9, 0), 1u) << "without a hint a task may take any time";
}

TEST(PullTest, APieceIsAtMostSoManyTimesTheLargestThatHasFinished) {
  EXPECT_EQ(PullTasks({}, {1e-6, 0, Source::kJob, 1e-6, 100}, 1e12, 1), 1600u);
  EXPECT_EQ(PullTasks({}, {1e-9, 0, Source::kJob, 1e-6, 100}, 1e12, 1), 1'000'000u) << "a probe";
  EXPECT_EQ(PullTasks({}, {1e-3, 0, Source::kJob, 1e-6, 100}, 1e12, 1), 500u) << "the longest";
}

// Pulling against the ideal: how much longer the whole takes than with perfect division.
double TotalOverIdeal(uint32_t groups, double seconds_per_task, double fixed, uint64_t tasks,
                      double seed_error, Rng* rng) {
  std::vector<double> speed(groups), free_at(groups, 0);
  for (double& s : speed) s = seconds_per_task * (0.8 + 0.4 * rng->NextDouble());
  double capacity = 0;
  for (const double s : speed) capacity += 1 / s;
  std::vector<RateModel> models(groups);
  RateModel job;
  uint64_t left = tasks;
  double end = 0;
  while (left > 0) {
    const auto next =
        static_cast<size_t>(std::min_element(free_at.begin(), free_at.end()) - free_at.begin());
    const PullEstimate estimate =
        job.known() ? PullEstimate{job.slope(), job.fixed(), Source::kJob}
                    : PullEstimate{seconds_per_task * seed_error, 0, Source::kHint};
    const uint64_t pull =
        std::min(left, PullTasks({}, estimate, static_cast<double>(left), groups));
    const double busy = fixed + static_cast<double>(pull) * speed[next];
    job.Add(static_cast<double>(pull), busy);
    free_at[next] += busy;
    end = std::max(end, free_at[next]);
    left -= pull;
  }
  return end / (static_cast<double>(tasks) / capacity);
}

TEST(PullTest, TheWholeTakesLittleLongerThanWithPerfectDivision) {
  Rng rng(3);
  for (const double seed_error : {0.05, 1.0, 20.0}) {
    for (const uint32_t groups : {1u, 4u, 16u}) {
      const double ratio = TotalOverIdeal(groups, 1e-6, 30e-6, 5'000'000, seed_error, &rng);
      EXPECT_LE(ratio, 1.08) << "groups " << groups << " seed error " << seed_error;
    }
  }
}

TEST(RateModelTest, FixedCostAndSlopeAreFoundApart) {
  RateModel model;
  Rng rng(5);
  for (int i = 0; i < 100; ++i) {
    const double n = 100 + 10'000 * rng.NextDouble();
    model.Add(n, 50e-6 + n * 2e-6 * (0.98 + 0.04 * rng.NextDouble()));
  }
  EXPECT_NEAR(model.slope(), 2e-6, 0.1e-6);
  EXPECT_NEAR(model.fixed(), 50e-6, 150e-6);
  EXPECT_NEAR(model.Predict(5000), 50e-6 + 5000 * 2e-6, 5e-4);
}

TEST(RateModelTest, EqualSizesLeaveTheFixedPartAlone) {
  RateModel model;
  for (int i = 0; i < 50; ++i) model.Add(1000, 1e-3);
  EXPECT_DOUBLE_EQ(model.fixed(), 0);
  EXPECT_NEAR(model.slope(), 1e-6, 1e-9);
}

TEST(RateModelTest, ANewRateReplacesAnOldOneWithinSomeTensOfMeasurements) {
  RateModel model;
  for (int i = 0; i < 100; ++i) model.Add(1000 + 10 * i, (1000 + 10 * i) * 1e-6);
  for (int i = 0; i < 40; ++i) model.Add(1000 + 10 * i, (1000 + 10 * i) * 5e-6);
  EXPECT_NEAR(model.Predict(1300), 6.5e-3, 0.5e-3);
}

TEST(RateModelTest, NoMeasurementMakesARateThatIsNotPositive) {
  RateModel model;
  model.Add(1000, 0);
  EXPECT_GT(model.slope(), 0);
  for (int i = 1; i < 50; ++i) model.Add(i * 100, 1.0 / i);  // more is faster: nonsense
  EXPECT_GT(model.slope(), 0);
  EXPECT_GE(model.fixed(), 0);
}

}  // namespace
}  // namespace tandem::worker
