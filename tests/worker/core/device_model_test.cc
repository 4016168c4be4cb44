#include "worker/core/device_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "common/base/rng.h"
#include "common/base/strings.h"

namespace tandem::worker {
namespace {

using ::testing::ElementsAre;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
const ModelKey kKey = {"saxpy@1", "k=2"};
const MonoTime kNow = MonoTime::FromNanos(int64_t{5'000'000'000});

// A device whose truth only the test knows; a task copies 8 bytes up and 4 down.
struct Truth {
  double host_slope = 2e-9, grid_fixed = 5e-6, grid_slope = 1e-9;
  double up_fixed = 8e-6, up_slope = 1 / 20e9, down_fixed = 8e-6, down_slope = 1 / 24e9;

  BatchMeasured Run(double tasks) const {
    BatchMeasured measured;
    measured.host_seconds = host_slope * tasks;
    measured.grid_seconds = grid_fixed + grid_slope * tasks;
    measured.bytes_up = 8 * tasks;
    measured.bytes_down = 4 * tasks;
    measured.up_seconds = up_fixed + up_slope * measured.bytes_up;
    measured.down_seconds = down_fixed + down_slope * measured.bytes_down;
    return measured;
  }
};

// The kernel's hint: none, or by its extents.
void Teach(DeviceModel* model, const ModelKey& key, const Truth& truth, uint64_t seed,
           double hint = 0) {
  Rng rng(seed);
  for (int i = 0; i < 60; ++i) {
    const auto tasks = static_cast<double>(rng.Between(1000, 10'000'000));
    EXPECT_TRUE(model->Learn(key, {tasks, hint}, truth.Run(tasks), kNow));
  }
}

BatchMeasured Grid(double seconds) {
  BatchMeasured measured;
  measured.grid_seconds = seconds;
  return measured;
}

double At(const Prediction& line, double tasks, double BatchSeconds::*stage) {
  return line.fixed.*stage + tasks * line.per_task.*stage;
}

TEST(DeviceModelTest, WhatWasNeverMeasuredIsNotPredicted) {
  DeviceModel model;
  Teach(&model, kKey, Truth(), 1);
  EXPECT_FALSE(model.Predict({"saxpy@2", "k=2"}, 0).has_value());
  EXPECT_FALSE(model.Predict({"saxpy@1", "k=3"}, 0).has_value());
  EXPECT_TRUE(model.Predict(kKey, 0).has_value());
}

TEST(DeviceModelTest, EveryStageIsPredictedAsItIs) {
  const Truth truth;
  for (const double hint : {0.0, 3e-8}) {
    DeviceModel model;
    Teach(&model, kKey, truth, 2, hint);
    const Prediction said = *model.Predict(kKey, hint);
    EXPECT_TRUE(said.same_extents);
    for (const double tasks : {1e3, 1e5, 3e6, 1e8}) {
      const BatchMeasured is = truth.Run(tasks);
      const auto near = [&](double BatchSeconds::*stage, double seconds) {
        EXPECT_NEAR(At(said, tasks, stage), seconds, 0.01 * seconds + 1e-7);
      };
      near(&BatchSeconds::host, is.host_seconds);
      near(&BatchSeconds::up, is.up_seconds);
      near(&BatchSeconds::grid, is.grid_seconds);
      near(&BatchSeconds::down, is.down_seconds);
    }
    EXPECT_DOUBLE_EQ(said.per_task.Alone(), said.per_task.host + said.per_task.up +
                                                said.per_task.grid + said.per_task.down);
  }
}

TEST(DeviceModelTest, TheSlowestStageBinds) {
  EXPECT_EQ((BatchSeconds{1, 2, 3, 2}).Binds(), Stage::kGrid);
  EXPECT_EQ((BatchSeconds{1, 4, 3, 2}).Binds(), Stage::kCopyUp);
  EXPECT_EQ((BatchSeconds{1, 2, 3, 5}).Binds(), Stage::kCopyDown);
  EXPECT_EQ((BatchSeconds{9, 2, 3, 5}).Binds(), Stage::kHost);
  EXPECT_DOUBLE_EQ((BatchSeconds{9, 2, 3, 5}).Streamed(), 9);
  EXPECT_EQ(StageName(Stage::kCopyUp), "copy up");
}

TEST(DeviceModelTest, OtherExtentsArePredictedByTheHintsProportion) {
  DeviceModel model;
  Teach(&model, {"kmer@1", "k=8"}, Truth(), 3, /*hint=*/1e-8);
  const Prediction same = *model.Predict({"kmer@1", "k=8"}, 1e-8);
  const Prediction other = *model.Predict({"kmer@1", "k=16"}, 4e-8);
  EXPECT_FALSE(other.same_extents);
  EXPECT_NEAR(other.per_task.grid, 4 * same.per_task.grid, 1e-6 * same.per_task.grid);
  EXPECT_NEAR(other.fixed.grid, same.fixed.grid, 1e-9);
  // Of two, the one that was measured last.
  ASSERT_TRUE(model.Learn({"kmer@1", "k=9"}, {1000, 2e-8}, Grid(1), kNow));
  EXPECT_NEAR(model.Predict({"kmer@1", "k=16"}, 4e-8)->per_task.grid, 2e-3, 1e-6);
  // With its own extents that makes no difference.
  EXPECT_NEAR(model.Predict({"kmer@1", "k=8"}, 1e-8)->per_task.grid, same.per_task.grid, 1e-15);
}

TEST(DeviceModelTest, AScalarThatTheHintKnowsIsToldApart) {
  DeviceModel model;
  ASSERT_TRUE(model.Learn(kKey, {1000, 1e-6}, Grid(1e-3), kNow));
  EXPECT_NEAR(model.Predict(kKey, 5e-6)->per_task.grid, 5e-6, 1e-9);
}

TEST(DeviceModelTest, WhatAGridTakesForItselfIsNoTasks) {
  // A task that takes a core 5 ns, in grids of 10 ms; two of them were in each.
  DeviceModel cores, grids;
  grids.RunsGrids();
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(cores.Learn(kKey, {2, 5e-9}, Grid(10e-3), kNow));
    ASSERT_TRUE(grids.Learn(kKey, {2, 5e-9}, Grid(10e-3), kNow));
  }
  EXPECT_NEAR(cores.Predict(kKey, 5e-9)->per_task.grid, 5e-3, 1e-9);
  const Prediction said = *grids.Predict(kKey, 5e-9);
  EXPECT_NEAR(said.per_task.grid, 500e-9, 1e-12);
  EXPECT_NEAR(At(said, 2, &BatchSeconds::grid), 10e-3, 1e-9) << "as it was measured";
  // One that is slow, or whose hint is wrong, is taken at its word.
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(grids.Learn({"slow@1", ""}, {1000, 1e-6}, Grid(20e-3), kNow));
  }
  EXPECT_NEAR(grids.Predict({"slow@1", ""}, 1e-6)->per_task.grid, 20e-6, 1e-9);
  // Without a hint there is nothing to tell them apart by.
  ASSERT_TRUE(grids.Learn({"sort@1", ""}, {1, 0}, Grid(10e-3), kNow));
  EXPECT_NEAR(grids.Predict({"sort@1", ""}, 0)->per_task.grid, 10e-3, 1e-9);
}

TEST(DeviceModelTest, CopiesAreTheDevicesWhateverTheKernel) {
  DeviceModel model;
  Teach(&model, kKey, Truth(), 4);
  // Another kernel whose operands lay there already, but whose outputs were copied.
  BatchMeasured resident = Grid(1e-3);
  resident.bytes_down = 1e6;
  ASSERT_TRUE(model.Learn({"sort@1", ""}, {1000, 0}, resident, kNow));
  const Prediction said = *model.Predict({"sort@1", ""}, 0);
  EXPECT_EQ(said.fixed.up + said.per_task.up, 0);
  EXPECT_NEAR(said.per_task.down, 1000 / 24e9, 1e-9);
}

TEST(DeviceModelTest, ANewRateReplacesAnOldOne) {
  DeviceModel model;
  Truth truth;
  Teach(&model, kKey, truth, 5);
  truth.grid_slope *= 4;  // throttled
  Teach(&model, kKey, truth, 6);
  EXPECT_NEAR(model.Predict(kKey, 0)->per_task.grid, 4e-9, 0.1e-9);
}

TEST(DeviceModelTest, WhatWasLearnedSurvivesARestart) {
  DeviceModel model;
  for (int i = 0; i < 5; ++i) Teach(&model, {StrCat("k@", i), ""}, Truth(), 8 + i, 1e-9 * i);
  const MonoTime later = kNow + absl::Seconds(10);
  const DeviceModelState state = model.State(later);
  ASSERT_EQ(state.kernels.size(), 5u);
  EXPECT_EQ(state.kernels[0].key.kernel, "k@0") << "the least recently used first";
  EXPECT_EQ(state.kernels[0].age, absl::Seconds(10));
  EXPECT_EQ(state.kernels[0].samples, 60u);
  DeviceModel again;
  ASSERT_TRUE(again.Restore(state, later));
  EXPECT_EQ(again.State(later), state);
  for (int i = 0; i < 5; ++i) {
    const ModelKey key = {StrCat("k@", i), ""};
    EXPECT_DOUBLE_EQ(again.Predict(key, 1e-9 * i)->per_task.Alone(),
                     model.Predict(key, 1e-9 * i)->per_task.Alone());
  }
  // It goes on learning as if nothing had happened.
  Teach(&model, kKey, Truth(), 20);
  Teach(&again, kKey, Truth(), 20);
  EXPECT_EQ(again.State(later), model.State(later));
}

TEST(DeviceModelTest, AKernelIsForgottenByItsNameOrItsIdentity) {
  DeviceModel model;
  for (const char* kernel : {"a@1", "a@2", "ab@1", "b@1"}) Teach(&model, {kernel, ""}, Truth(), 30);
  const auto known = [&] {
    std::vector<std::string> names;
    for (const auto& kernel : model.State(kNow).kernels) names.push_back(kernel.key.kernel);
    return names;
  };
  uint64_t version = model.version();
  model.Forget("a");
  EXPECT_THAT(known(), ElementsAre("ab@1", "b@1"));
  EXPECT_GT(model.version(), version);
  model.Forget("b@1");
  model.Forget("ab@2");
  EXPECT_THAT(known(), ElementsAre("ab@1"));
  EXPECT_GT(model.State(kNow).up.weight, 0);
  model.Forget("");
  EXPECT_EQ(model.State(kNow), DeviceModelState());
}

TEST(DeviceModelTest, ASpoiltStateIsNotTakenOver) {
  DeviceModel model;
  Teach(&model, kKey, Truth(), 9);
  const DeviceModelState state = model.State(kNow);
  std::vector<double DeviceModelState::Kernel::*> numbers = {
      &DeviceModelState::Kernel::hint, &DeviceModelState::Kernel::tasks,
      &DeviceModelState::Kernel::bytes_up, &DeviceModelState::Kernel::bytes_down};
  std::vector<double RateModel::Sums::*> sums = {&RateModel::Sums::weight, &RateModel::Sums::n,
                                                 &RateModel::Sums::s,      &RateModel::Sums::nn,
                                                 &RateModel::Sums::ns,     &RateModel::Sums::fixed};
  for (const double bad : {-1.0, kNan, kInfinity, 1e300}) {
    DeviceModelState spoilt = state;
    for (const auto number : numbers) {
      spoilt = state;
      spoilt.kernels[0].*number = bad;
      EXPECT_FALSE(model.Restore(spoilt, kNow));
    }
    for (const auto sum : sums) {
      for (RateModel::Sums* of : {&spoilt.up, &spoilt.down}) {
        spoilt = state;
        of->*sum = bad;
        EXPECT_FALSE(model.Restore(spoilt, kNow));
      }
      spoilt = state;
      spoilt.kernels[0].grid.*sum = bad;
      EXPECT_FALSE(model.Restore(spoilt, kNow));
    }
  }
  DeviceModelState spoilt = state;
  spoilt.kernels[0].grid = {};
  EXPECT_FALSE(model.Restore(spoilt, kNow)) << "measured, and never";
  spoilt = state;
  spoilt.kernels[0].key.kernel = "";
  EXPECT_FALSE(model.Restore(spoilt, kNow));
  spoilt = state;
  spoilt.kernels[0].age = absl::InfiniteDuration();
  EXPECT_FALSE(model.Restore(spoilt, kNow));
  EXPECT_EQ(model.State(kNow), state) << "it kept what it had";
}

TEST(DeviceModelTest, NonsenseTeachesNothing) {
  DeviceModel model;
  Teach(&model, kKey, Truth(), 10);
  const DeviceModelState before = model.State(kNow);
  const uint64_t version = model.version();
  for (const double bad : {kNan, -1.0, kInfinity, 1e300}) {
    EXPECT_FALSE(model.Learn(kKey, {100, 0}, Grid(bad), kNow));
    EXPECT_FALSE(model.Learn(kKey, {bad, 0}, Grid(1), kNow));
    EXPECT_FALSE(model.Learn(kKey, {100, bad}, Grid(1), kNow));
    BatchMeasured measured = Grid(1);
    measured.host_seconds = bad;
    EXPECT_FALSE(model.Learn(kKey, {100, 0}, measured, kNow));
    measured = Grid(1);
    measured.bytes_up = bad;
    EXPECT_FALSE(model.Learn(kKey, {100, 0}, measured, kNow));
    EXPECT_FALSE(model.Predict(kKey, bad).has_value());
  }
  EXPECT_FALSE(model.Learn(kKey, {0, 0}, Grid(1), kNow));
  EXPECT_EQ(model.State(kNow), before);
  EXPECT_EQ(model.version(), version);
}

// Numbers as they may come from anywhere: whatever is learned of them is finite, not negative, and
// can be kept.
TEST(DeviceModelTest, NoFitIsAbsurd) {
  Rng rng(77);
  const auto anything = [&rng] {
    if (rng.Below(4) == 0) return static_cast<double>(rng.Below(1000));
    const uint64_t bits = rng.Next();
    double number = 0;
    std::memcpy(&number, &bits, sizeof number);
    return rng.Below(2) == 0 ? std::abs(number)
                             : std::ldexp(1.0, static_cast<int>(rng.Below(80)) - 40);
  };
  int learned = 0;
  DeviceModel model;
  for (int i = 0; i < 100'000; ++i) {
    const ModelKey key = {StrCat("k@", rng.Below(8)), StrCat("m=", rng.Below(3))};
    const double hint = rng.Below(2) == 0 ? 0 : anything();
    const BatchMeasured measured = {anything(), anything(), anything(),
                                    anything(), anything(), anything()};
    learned += model.Learn(key, {anything(), hint}, measured, kNow) ? 1 : 0;
    const auto line = model.Predict(key, hint);
    if (!line.has_value()) continue;
    for (const BatchSeconds& seconds : {line->fixed, line->per_task}) {
      for (const double s : {seconds.host, seconds.up, seconds.grid, seconds.down}) {
        ASSERT_TRUE(std::isfinite(s) && s >= 0) << s;
      }
    }
    ASSERT_GT(line->per_task.Streamed(), 0);
    if (i % 1000 != 0) continue;
    DeviceModel again;
    ASSERT_TRUE(again.Restore(model.State(kNow), kNow)) << i;
    ASSERT_EQ(again.State(kNow), model.State(kNow));
  }
  EXPECT_GT(learned, 1000);
}

TEST(DeviceModelTest, TheLeastRecentlyUsedKernelIsForgotten) {
  DeviceModel model(3);
  for (const char* kernel : {"a", "b", "c", "a", "d"}) {
    ASSERT_TRUE(model.Learn({kernel, ""}, {10, 0}, Grid(1e-3), kNow));
  }
  EXPECT_EQ(model.size(), 3u);
  EXPECT_TRUE(model.Knows({"a", ""}));
  EXPECT_FALSE(model.Knows({"b", ""}));
}

TEST(DeviceModelTest, RowsSayWhatIsKnownInTheOrderOfUse) {
  DeviceModel model;
  Teach(&model, {"b@1", ""}, Truth(), 40);
  ASSERT_TRUE(model.Learn({"a@1", "k=3"}, {1000, 0}, Grid(1e-3), kNow + absl::Seconds(2)));
  const auto rows = model.Rows(kNow + absl::Seconds(3));
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].key->kernel, "b@1");
  EXPECT_EQ(rows[0].samples, 60u);
  EXPECT_EQ(rows[0].age, absl::Seconds(3));
  EXPECT_NEAR(rows[0].up_bytes_per_second, 20e9, 0.2e9);
  EXPECT_NEAR(rows[0].down_bytes_per_second, 24e9, 0.2e9);
  EXPECT_EQ(rows[1].key->extents, "k=3");
  EXPECT_EQ(rows[1].up_bytes_per_second, 0) << "it copies nothing";
  EXPECT_NEAR(rows[1].line.per_task.Alone(), 1e-6, 1e-12);
  EXPECT_EQ(rows[1].age, absl::Seconds(1));
}

}  // namespace
}  // namespace tandem::worker
