#include "worker/core/device_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "common/base/rng.h"

namespace tandem::worker {
namespace {

const ModelKey kKey = {"saxpy@1", "n"};

// A device whose truth only the test knows.
struct Truth {
  double host_slope = 2e-9, grid_fixed = 5e-6, grid_slope = 1e-9;
  double up_fixed = 8e-6, up_slope = 1 / 20e9, down_fixed = 8e-6, down_slope = 1 / 24e9;

  BatchMeasured Run(const BatchSize& size) const {
    BatchMeasured measured;
    measured.host_seconds = host_slope * size.tasks;
    measured.grid_seconds = grid_fixed + grid_slope * size.tasks;
    measured.up_seconds = up_fixed + up_slope * size.bytes_up;
    measured.down_seconds = down_fixed + down_slope * size.bytes_down;
    return measured;
  }
};

BatchSize Size(double tasks) { return {tasks, tasks * 8, tasks * 4}; }

void Teach(DeviceModel* model, const ModelKey& key, const Truth& truth, uint64_t seed) {
  Rng rng(seed);
  for (int i = 0; i < 60; ++i) {
    const BatchSize size = Size(static_cast<double>(rng.Between(1000, 10'000'000)));
    model->Learn(key, size, truth.Run(size));
  }
}

TEST(DeviceModelTest, WhatWasNeverMeasuredIsNotPredicted) {
  DeviceModel model("emulated");
  Teach(&model, kKey, Truth(), 1);
  EXPECT_FALSE(model.Predict({"saxpy@2", "n"}, Size(10)).has_value());
  EXPECT_FALSE(model.Predict({"saxpy@1", "m=3"}, Size(10)).has_value());
  EXPECT_TRUE(model.Predict(kKey, Size(10)).has_value());
}

TEST(DeviceModelTest, EveryStageIsPredictedAsItIs) {
  const Truth truth;
  DeviceModel model("emulated");
  Teach(&model, kKey, truth, 2);
  for (const double tasks : {1e3, 1e5, 3e6, 1e8}) {
    const BatchMeasured is = truth.Run(Size(tasks));
    const BatchSeconds said = *model.Predict(kKey, Size(tasks));
    EXPECT_NEAR(said.host, is.host_seconds, 0.01 * is.host_seconds + 1e-7);
    EXPECT_NEAR(said.up, is.up_seconds, 0.01 * is.up_seconds + 1e-7);
    EXPECT_NEAR(said.grid, is.grid_seconds, 0.01 * is.grid_seconds + 1e-7);
    EXPECT_NEAR(said.down, is.down_seconds, 0.01 * is.down_seconds + 1e-7);
    EXPECT_DOUBLE_EQ(said.Alone(), said.host + said.up + said.grid + said.down);
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

TEST(DeviceModelTest, TheFirstLaunchIsNotLearned) {
  DeviceModel model("emulated");
  BatchMeasured loading = Truth().Run(Size(1000));
  loading.grid_seconds = 0.8;
  loading.first_launch = true;
  model.Learn(kKey, Size(1000), loading);
  EXPECT_FALSE(model.Predict(kKey, Size(1000)).has_value());
  Teach(&model, kKey, Truth(), 3);
  EXPECT_LT(model.Predict(kKey, Size(1000))->grid, 1e-4);
}

TEST(DeviceModelTest, CopiesAreTheDevicesWhateverTheKernel) {
  DeviceModel model("emulated");
  Teach(&model, kKey, Truth(), 4);
  BatchMeasured resident;  // another kernel, whose operands lay there already
  resident.grid_seconds = 1e-3;
  model.Learn({"sort@1", ""}, {1000, 0, 0}, resident);
  const BatchSeconds said = *model.Predict({"sort@1", ""}, {1000, 1e9, 0});
  EXPECT_NEAR(said.up, 0.05, 0.001);
  EXPECT_EQ(said.down, 0);
}

TEST(DeviceModelTest, UntilACopyWasMeasuredItIsAsTheOptionsSay) {
  DeviceModelOptions options;
  options.copy_seconds_per_byte = 1 / 4e9;
  options.copy_fixed_seconds = 20e-6;
  DeviceModel model("emulated", options);
  BatchMeasured measured;
  measured.grid_seconds = 1e-3;
  model.Learn(kKey, {1000, 0, 0}, measured);
  EXPECT_NEAR(model.Predict(kKey, {1, 4e9, 0})->up, 1.0, 1e-3);
  EXPECT_NEAR(model.Predict(kKey, {1, 4000, 0})->up, 21e-6, 1e-6);
}

TEST(DeviceModelTest, ANewRateReplacesAnOldOne) {
  DeviceModel model("emulated");
  Truth truth;
  Teach(&model, kKey, truth, 5);
  truth.grid_slope *= 4;  // throttled
  Teach(&model, kKey, truth, 6);
  EXPECT_NEAR(model.Predict(kKey, Size(1e6))->grid, 4e-3, 0.1e-3);
}

TEST(DeviceModelTest, TheFirstPullTakesAsLongAsItShould) {
  const Truth truth;
  DeviceModel model("emulated");
  Teach(&model, kKey, truth, 7);
  for (const double seconds : {1e-3, 20e-3, 0.5}) {
    const auto tasks = static_cast<double>(*model.TasksFor(kKey, {1, 8, 4}, seconds));
    const BatchMeasured is = truth.Run(Size(tasks));
    EXPECT_NEAR(is.host_seconds + is.up_seconds + is.grid_seconds + is.down_seconds, seconds,
                0.02 * seconds);
  }
  EXPECT_EQ(model.TasksFor(kKey, {1, 8, 4}, 1e-9), 1u);  // less than one task takes
  EXPECT_FALSE(model.TasksFor({"other@1", ""}, {1, 8, 4}, 1e-3).has_value());
}

TEST(DeviceModelTest, WhatWasLearnedSurvivesARestart) {
  DeviceModel model("emulated");
  for (int i = 0; i < 5; ++i) Teach(&model, {"k@" + std::to_string(i), ""}, Truth(), 8 + i);
  DeviceModel again("emulated");
  ASSERT_TRUE(again.Restore(model.State()));
  EXPECT_EQ(again.State(), model.State());
  for (int i = 0; i < 5; ++i) {
    const ModelKey key = {"k@" + std::to_string(i), ""};
    EXPECT_DOUBLE_EQ(again.Predict(key, Size(12345))->Alone(),
                     model.Predict(key, Size(12345))->Alone());
  }
  // It goes on learning as if nothing had happened.
  Teach(&model, kKey, Truth(), 20);
  Teach(&again, kKey, Truth(), 20);
  EXPECT_EQ(again.State(), model.State());
  again.Reset();
  EXPECT_EQ(again.State(), DeviceModel("emulated").State());
}

TEST(DeviceModelTest, AnotherDevicesOrASpoiltStateIsNotTakenOver) {
  DeviceModel model("emulated");
  Teach(&model, kKey, Truth(), 9);
  DeviceModelState state = model.State();
  EXPECT_FALSE(DeviceModel("another model").Restore(state));
  for (const double bad :
       {-1.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    DeviceModelState spoilt = state;
    spoilt.kernels[0].grid.slope = bad;
    EXPECT_FALSE(model.Restore(spoilt));
    spoilt = state;
    spoilt.up.weight = bad;
    EXPECT_FALSE(model.Restore(spoilt));
  }
  EXPECT_EQ(model.State(), state);  // it kept what it had
}

TEST(DeviceModelTest, NonsenseTeachesNothing) {
  DeviceModel model("emulated");
  Teach(&model, kKey, Truth(), 10);
  const DeviceModelState before = model.State();
  const double kNan = std::numeric_limits<double>::quiet_NaN();
  BatchMeasured measured;
  measured.grid_seconds = kNan;
  model.Learn(kKey, {100, 0, 0}, measured);
  measured.grid_seconds = -1;
  model.Learn(kKey, {100, 0, 0}, measured);
  measured.grid_seconds = 1;
  model.Learn(kKey, {0, 0, 0}, measured);
  model.Learn(kKey, {kNan, 0, 0}, measured);
  EXPECT_EQ(model.State(), before);
}

TEST(DeviceModelTest, TheLeastRecentlyUsedKernelIsForgotten) {
  DeviceModelOptions options;
  options.kernels_max = 3;
  DeviceModel model("emulated", options);
  BatchMeasured measured;
  measured.grid_seconds = 1e-3;
  for (const char* kernel : {"a", "b", "c", "a", "d"}) {
    model.Learn({kernel, ""}, {10, 0, 0}, measured);
  }
  EXPECT_EQ(model.size(), 3u);
  EXPECT_TRUE(model.Predict({"a", ""}, {1, 0, 0}).has_value());
  EXPECT_FALSE(model.Predict({"b", ""}, {1, 0, 0}).has_value());
}

TEST(DeviceModelTest, ABatchIsAsLargeAsMemoryAllows) {
  EXPECT_EQ(TasksThatFit({1000, 24, 8}, 2000), 122u);
  EXPECT_EQ(TasksThatFit({1000, 24, 8}, 1031), 0u);
  EXPECT_EQ(TasksThatFit({1000, 24, 8}, 100), 0u);
  EXPECT_EQ(TasksThatFit({std::numeric_limits<uint64_t>::max(), 24, 8}, 100), 0u);
  EXPECT_EQ(TasksThatFit({0, 0, 0}, 0), std::numeric_limits<uint64_t>::max());
  Rng rng(11);
  for (int i = 0; i < 1000; ++i) {
    const MemoryNeed need = {rng.Below(1000), rng.Below(1000), rng.Between(1, 100)};
    const uint64_t budget = rng.Below(10'000);
    const uint64_t tasks = TasksThatFit(need, budget);
    const uint64_t once = need.resident_bytes + need.fixed_bytes;
    if (tasks > 0) {
      EXPECT_LE(once + tasks * need.bytes_per_task, budget);
    }
    EXPECT_GT(once + (tasks + 1) * need.bytes_per_task, budget);
  }
}

}  // namespace
}  // namespace tandem::worker
