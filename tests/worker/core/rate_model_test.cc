#include "worker/core/rate_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "common/base/rng.h"

namespace tandem::worker {
namespace {

double Predict(const RateModel& model, double units) {
  return model.fixed() + units * model.slope();
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
  EXPECT_NEAR(Predict(model, 5000), 50e-6 + 5000 * 2e-6, 5e-4);
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
  EXPECT_NEAR(Predict(model, 1300), 6.5e-3, 0.5e-3);
}

TEST(RateModelTest, NoMeasurementMakesARateThatIsNotPositive) {
  RateModel model;
  model.Add(1000, 0);
  EXPECT_GT(model.slope(), 0);
  for (int i = 1; i < 50; ++i) model.Add(i * 100, 1.0 / i);  // more is faster: nonsense
  EXPECT_GT(model.slope(), 0);
  EXPECT_GE(model.fixed(), 0);
}

TEST(RateModelTest, WhatIsNoMeasurementChangesNothing) {
  RateModel model;
  EXPECT_TRUE(model.Add(1000, 1e-3));
  const RateModel::Sums before = model.sums();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double bad : {nan, infinity, -1.0, 1e300}) {
    EXPECT_FALSE(model.Add(bad, 1e-3));
    EXPECT_FALSE(model.Add(1000, bad));
  }
  EXPECT_FALSE(model.Add(0, 1e-3));
  EXPECT_EQ(model.sums(), before);
}

TEST(RateModelTest, WhatWasLearnedIsSoundAndGoesOnAsItWas) {
  Rng rng(9);
  RateModel model;
  EXPECT_TRUE(model.sums().Sound());
  for (int i = 0; i < 1000; ++i) {
    // Sizes and times over all their orders of magnitude.
    model.Add(std::pow(10, 33 * rng.NextDouble() - 15), std::pow(10, 27 * rng.NextDouble() - 20));
    ASSERT_TRUE(model.sums().Sound()) << i;
    RateModel again(model.sums());
    ASSERT_DOUBLE_EQ(again.slope(), model.slope());
    ASSERT_DOUBLE_EQ(again.fixed(), model.fixed());
    ASSERT_GT(model.slope(), 0);
    ASSERT_GE(model.fixed(), 0);
  }
  RateModel::Sums spoilt = model.sums();
  spoilt.weight = 11;  // more than can be remembered
  EXPECT_FALSE(spoilt.Sound());
  spoilt = model.sums();
  spoilt.nn =
      spoilt.n * spoilt.n / spoilt.weight / 2;  // no sizes have such a mean and such squares
  EXPECT_FALSE(spoilt.Sound());
}

// Two probes that a slow start made equally long: what is a hundred times larger costs something.
TEST(RateModelTest, SizesThatSeemNotToMatterStillCost) {
  RateModel model;
  model.Add(256, 1e-3);
  model.Add(1024, 0.9e-3);
  EXPECT_GT(Predict(model, 65536), 5e-3);
}

}  // namespace
}  // namespace tandem::worker
