// What a worker learns of its devices: over jobs, over its own restarts, and until it is told to
// forget.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/worker/core/core_driver.h"
#include "worker/core/worker_core.h"

namespace tandem::worker {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

constexpr char kDevice[] = "emulated:0", kTwin[] = "emulated:1";

JobDescribed JobThatRuns(DeviceChoice choice, uint64_t id = 1) {
  JobDescribed job = ConcatJob(id, 1 << 20, /*cost_ns=*/0);
  job.device = choice;
  return job;
}

// A former life of a worker that has run the kernel: a leaf takes `cpu` on a core group and `gpu`
// on its device, of which a fifth each way is copies.
std::vector<LearnedDevice> Life(absl::Duration cpu, absl::Duration gpu) {
  const MonoTime now = MonoTime::FromNanos(1);
  const ModelKey key = {"kernel@0", ""};
  std::vector<LearnedDevice> life = {{"cpu", 1, {}}, {kDevice, 1, {}}};
  DeviceModel model;
  BatchMeasured measured;
  measured.grid_seconds = absl::ToDoubleSeconds(cpu * 100);
  EXPECT_TRUE(model.Learn(key, {100, 0}, measured, now));
  life[0].model = model.State(now + absl::Seconds(60));
  model.Forget("");
  const double seconds = absl::ToDoubleSeconds(gpu * 100);
  measured = {0, seconds / 5, seconds * 3 / 5, seconds / 5, 800, 400};
  EXPECT_TRUE(model.Learn(key, {100, 0}, measured, now));
  life[1].model = model.State(now + absl::Seconds(60));
  return life;
}

class Learner {
 public:
  Learner() {
    driver.Do(DeviceFound{kDevice, DeviceKind::kEmulated, {"kernel@0"}, kBudgetMax, "emulated"});
    driver.Do(DeviceFound{kTwin, DeviceKind::kEmulated, {"kernel@0"}, kBudgetMax, "emulated"});
  }
  void Attach(std::vector<JobDescribed> jobs, uint64_t epoch = 1) {
    driver.Attach(std::move(jobs), {}, epoch);
    Take();
  }
  void Give(uint64_t job, uint64_t n, uint64_t leaves) {
    driver.Give(job, n, 0, leaves);
    Take();
  }
  void Do(Event event) {
    driver.Do(std::move(event));
    Take();
  }
  void Pass(absl::Duration time) {
    driver.After(time);
    Take();
  }
  // The pieces of `device` end after so long a leaf; those that follow do not.
  void Finish(const std::string& device, absl::Duration leaf) {
    for (const RunPiece& piece : std::exchange(running[device], {})) {
      Do(driver.Finished(piece, leaf * static_cast<double>(piece.leaves.count)));
    }
  }
  std::vector<KernelRate> Told() { return std::exchange(rates, {}); }
  std::vector<LearnedDevice> Learned() { return driver.core().Learned(driver.now()); }

  CoreDriver driver;
  std::map<ExecutorId, std::string> device_of;
  std::map<std::string, std::vector<RunPiece>> running;  // by device
  std::vector<KernelRate> rates;                         // told, until they are taken
  uint64_t forgot = 0;

 private:
  void Take() {
    for (const StartExecutor& start : driver.Of<StartExecutor>()) {
      device_of[start.executor] = start.device;
    }
    for (const RunPiece& run : driver.pieces()) running[device_of[run.executor]].push_back(run);
    for (const Report& report : driver.effects().reports) {
      rates.insert(rates.end(), report.rates.begin(), report.rates.end());
      if (report.forgot != 0) forgot = report.forgot;
    }
  }
};

TEST(WorkerLearningTest, ADeviceThatIsKnownIsNotProbedBlindly) {
  Learner blind;
  blind.Attach({JobThatRuns(DeviceChoice::kGpu)});
  blind.Give(1, 1, 10'000);
  EXPECT_EQ(blind.running[kDevice].at(0).leaves.count, 1u);
  // 100 µs a leaf by itself, copies and all: a millisecond is ten.
  Learner known;
  known.Do(LearnedBefore{Life(absl::Milliseconds(1), absl::Microseconds(100))});
  known.Attach({JobThatRuns(DeviceChoice::kGpu)});
  known.Give(1, 1, 10'000);
  EXPECT_EQ(known.running[kDevice].at(0).leaves.count, 10u);
  // A device that is like it, and that nothing was learned of, is taken for it.
  EXPECT_EQ(known.running[kTwin].at(0).leaves.count, 10u);
}

TEST(WorkerLearningTest, ADeviceThatWouldBeTheLastToEndIsNotEvenProbed) {
  Learner blind;
  blind.Attach({JobThatRuns(DeviceChoice::kAuto)});
  blind.Give(1, 1, 8);
  EXPECT_FALSE(blind.running[kDevice].empty());
  // Eight leaves are 8 µs for the CPU, and one is 10 ms for the device.
  Learner known;
  known.Do(LearnedBefore{Life(absl::Microseconds(1), absl::Milliseconds(10))});
  known.Attach({JobThatRuns(DeviceChoice::kAuto)});
  known.Give(1, 1, 8);
  EXPECT_THAT(known.running[kDevice], IsEmpty());
  EXPECT_THAT(known.running[kTwin], IsEmpty());
  EXPECT_FALSE(known.running["cpu"].empty());
  // Where it is the only one that may, it does.
  known.Attach({JobThatRuns(DeviceChoice::kAuto), JobThatRuns(DeviceChoice::kGpu, 2)},
               /*epoch=*/2);
  known.Give(2, 100, 8);
  EXPECT_FALSE(known.running[kDevice].empty());
}

TEST(WorkerLearningTest, WhatOneJobShowsOfADeviceIsKnownToTheNext) {
  Learner learner;
  learner.Attach({JobThatRuns(DeviceChoice::kGpu), JobThatRuns(DeviceChoice::kGpu, 2)});
  learner.Give(1, 1, 64);
  while (!learner.running[kDevice].empty() || !learner.running[kTwin].empty()) {
    learner.Finish(kDevice, absl::Microseconds(125));
    learner.Finish(kTwin, absl::Microseconds(125));
  }
  learner.Give(2, 100, 10'000);
  EXPECT_EQ(learner.running[kDevice].at(0).leaves.count, 8u);
}

TEST(WorkerLearningTest, RatesNameTheirDevice) {
  Learner learner;
  learner.Attach({JobThatRuns(DeviceChoice::kAuto)});
  learner.Give(1, 1, 10'000);
  PieceFinished done =
      learner.driver.Finished(learner.running[kDevice].at(0), absl::Microseconds(10));
  done.stages = {1e-6, 2e-6, 3e-6, 4e-6, 2000, 4000};
  learner.Do(done);
  ASSERT_THAT(learner.rates, SizeIs(1));
  const KernelRate& rate = learner.rates[0];
  EXPECT_EQ(rate.kernel, "kernel@0");
  EXPECT_EQ(rate.device, DeviceKind::kEmulated);
  EXPECT_EQ(rate.device_name, kDevice);
  EXPECT_NEAR(rate.seconds_per_task, 10e-6, 1e-9);
  EXPECT_NEAR(rate.up_bytes_per_second, 1e9, 1);
  EXPECT_NEAR(rate.down_bytes_per_second, 1e9, 1);
  EXPECT_EQ(rate.bound_by, "copy down");
  EXPECT_EQ(rate.samples, 1u);
  EXPECT_EQ(rate.age, absl::ZeroDuration());
  learner.Told();
  learner.Finish("cpu", absl::Milliseconds(1));
  ASSERT_FALSE(learner.rates.empty());
  EXPECT_EQ(learner.rates[0].device_name, "cpu");
  EXPECT_EQ(learner.rates[0].bound_by, "grid");
}

TEST(WorkerLearningTest, ARateThatIsOnlySurerIsToldSeldom) {
  Learner learner;
  learner.Attach({JobThatRuns(DeviceChoice::kCpu)});
  learner.Give(1, 1, 10'000);
  learner.Finish("cpu", absl::Milliseconds(1));
  learner.Told();
  for (int i = 0; i < 100; ++i) {  // 10 s
    learner.Pass(absl::Milliseconds(100));
    learner.Finish("cpu", absl::Milliseconds(1));
  }
  const std::vector<KernelRate> told = learner.Told();
  EXPECT_GE(told.size(), 1u);
  EXPECT_LE(told.size(), 3u);
  for (const KernelRate& rate : told) EXPECT_GT(rate.samples, 1u);
}

TEST(WorkerLearningTest, AFormerLifeIsToldToTheMasterAtOnce) {
  Learner learner;
  learner.Do(LearnedBefore{Life(absl::Milliseconds(1), absl::Microseconds(10))});
  learner.Attach({});
  std::vector<std::string> devices;
  for (const KernelRate& rate : learner.Told()) {
    devices.push_back(rate.device_name);
    EXPECT_GE(rate.age, absl::Seconds(60));
    EXPECT_GT(rate.tasks_per_second, 0);
  }
  EXPECT_THAT(devices, UnorderedElementsAre("cpu", kDevice));
  // So it is after a break of the stream.
  learner.Do(Disconnected{});
  learner.Attach({}, 2);
  EXPECT_THAT(learner.rates, SizeIs(2));
}

TEST(WorkerLearningTest, WhatIsLearnedIsAllThatANewLifeNeeds) {
  Learner first;
  first.Attach({JobThatRuns(DeviceChoice::kAuto)});
  first.Give(1, 1, 10'000);
  const uint64_t version = first.driver.core().learned_version();
  first.Finish(kDevice, absl::Microseconds(10));
  first.Finish("cpu", absl::Microseconds(100));
  EXPECT_GT(first.driver.core().learned_version(), version);
  const std::vector<LearnedDevice> kept = first.Learned();
  ASSERT_THAT(kept, SizeIs(2));
  Learner second;
  second.Do(LearnedBefore{kept});
  EXPECT_EQ(second.driver.core().Learned(first.driver.now()).at(1).model.kernels.at(0).grid,
            kept.at(1).model.kernels.at(0).grid);
}

TEST(WorkerLearningTest, OfADeviceThatIsGoneOrAStateThatIsSpoiltNothingIsTaken) {
  std::vector<LearnedDevice> life = Life(absl::Milliseconds(1), absl::Microseconds(10));
  life[0].device = "cuda:GPU-gone";
  life[1].model.kernels[0].grid.n = -1;
  Learner learner;
  learner.Do(LearnedBefore{life});
  EXPECT_THAT(learner.Learned(), IsEmpty());
}

TEST(WorkerLearningTest, ItForgetsWhenToldToAndSaysSo) {
  Learner learner;
  std::vector<LearnedDevice> life = Life(absl::Milliseconds(1), absl::Microseconds(10));
  life[0].model.kernels.push_back(life[0].model.kernels[0]);
  life[0].model.kernels.back().key.kernel = "other@5";
  learner.Do(LearnedBefore{life});
  learner.Attach({JobThatRuns(DeviceChoice::kGpu)});
  ASSERT_THAT(learner.Told(), SizeIs(3));
  const uint64_t version = learner.driver.core().learned_version();
  learner.Do(ForgetSaid{7, "kernel"});
  EXPECT_EQ(learner.forgot, 7u);
  ASSERT_THAT(learner.rates, SizeIs(1)) << "what is left is told again";
  EXPECT_EQ(learner.Told()[0].kernel, "other@5");
  EXPECT_GT(learner.driver.core().learned_version(), version);
  learner.Give(1, 1, 10'000);
  EXPECT_EQ(learner.running[kDevice].at(0).leaves.count, 1u) << "a blind probe";
  // Also where there is nothing.
  learner.Do(ForgetSaid{8, ""});
  EXPECT_EQ(learner.forgot, 8u);
  EXPECT_THAT(learner.rates, IsEmpty());
  EXPECT_THAT(learner.Learned(), IsEmpty());
}

}  // namespace
}  // namespace tandem::worker
