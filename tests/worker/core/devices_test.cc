// Several devices on one lease: which of them may run a job, from which end they pull, what goes to
// another when one is late, lost or out of service.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/worker/core/core_driver.h"
#include "worker/core/worker_core.h"

namespace tandem::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

constexpr char kGpu[] = "emulated:0";

JobDescribed JobFor(DeviceChoice choice, double cost_ns = 0) {
  JobDescribed job = ConcatJob(1, 1 << 20, cost_ns);
  job.device = choice;
  return job;
}

// A core with one core group and one other device, and what runs on either.
class Hybrid {
 public:
  explicit Hybrid(DeviceChoice choice, std::vector<std::string> kernels = {"kernel@0"},
                  bool shrinks = false) {
    driver.shrinks = shrinks;
    driver.Do(DeviceFound{kGpu, DeviceKind::kEmulated, std::move(kernels)});
    driver.Attach({JobFor(choice)});
  }
  void Give(uint64_t first_n, uint64_t first, uint64_t count) {
    driver.Give(1, first_n, first, count);
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
  // All of what it was asked for comes back.
  void Shrink(const ShrinkPiece& shrink) {
    std::erase_if(running, [&](RunPiece& run) {
      if (run.piece == shrink.piece) run.leaves.count = shrink.leaves;
      return run.leaves.count == 0;
    });
    Do(PieceShrunk{shrink.executor, shrink.piece, shrink.leaves});
  }
  void Finish(RunPiece piece, absl::Duration leaf = absl::Milliseconds(1)) {
    std::erase_if(running, [&](const RunPiece& run) { return run.piece == piece.piece; });
    Do(driver.Finished(piece, leaf * piece.leaves.count));
  }
  std::vector<RunPiece> On(const std::string& device) const {
    std::vector<RunPiece> found;
    for (const RunPiece& run : running) {
      if (device_of.at(run.executor) == device) found.push_back(run);
    }
    return found;
  }
  std::set<std::string> devices() const {
    std::set<std::string> names;
    for (const auto& [id, device] : device_of) names.insert(device);
    return names;
  }
  // Both have run leaves of a millisecond, and nothing is left.
  void Measure() {
    Give(1, 0, 2);
    Pass(absl::Milliseconds(1));
    while (!running.empty()) Finish(running.front());
  }

  CoreDriver driver;
  std::map<ExecutorId, std::string> device_of;
  std::vector<RunPiece> running;

 private:
  void Take() {
    for (const StartExecutor& start : driver.Of<StartExecutor>()) {
      device_of[start.executor] = start.device;
    }
    for (const RunPiece& run : driver.pieces()) running.push_back(run);
  }
};

TEST(WorkerDevicesTest, AJobThatMayRunAnywhereRunsOnAllDevicesFromBothEnds) {
  Hybrid hybrid(DeviceChoice::kAuto);
  hybrid.Give(1, 0, 100);
  EXPECT_THAT(hybrid.devices(), UnorderedElementsAre("cpu", kGpu));
  ASSERT_THAT(hybrid.On(kGpu), SizeIs(1)) << "one at a time until it is measured";
  EXPECT_EQ(hybrid.On(kGpu)[0].leaves, (LeafInterval{0, 1}));
  ASSERT_FALSE(hybrid.On("cpu").empty());
  EXPECT_EQ(hybrid.On("cpu")[0].leaves, (LeafInterval{99, 1}));
}

TEST(WorkerDevicesTest, OfShortPiecesADeviceHoldsAsManyAsKeepItBusyMeanwhile) {
  Hybrid hybrid(DeviceChoice::kAuto);
  hybrid.Measure();
  for (uint64_t i = 0; i < 100; ++i) hybrid.Give(100 + i, 10 + 2 * i, 1);  // No two make one piece.
  EXPECT_GT(hybrid.On(kGpu).size(), 4u) << "some milliseconds";
  EXPECT_LT(hybrid.On(kGpu).size(), 16u);
  EXPECT_LE(hybrid.On("cpu").size(), 2u) << "a core group is near";
}

TEST(WorkerDevicesTest, WithoutAnotherDeviceTheCpuRunsLeavesInOrder) {
  Hybrid hybrid(DeviceChoice::kCpu);
  hybrid.Give(1, 0, 100);
  EXPECT_THAT(hybrid.devices(), ElementsAre("cpu"));
  EXPECT_EQ(hybrid.On("cpu").at(0).leaves, (LeafInterval{0, 1}));
}

TEST(WorkerDevicesTest, AJobForAGpuRunsOnThatAlone) {
  Hybrid hybrid(DeviceChoice::kGpu);
  hybrid.Give(1, 0, 100);
  EXPECT_THAT(hybrid.devices(), ElementsAre(kGpu));
  EXPECT_THAT(hybrid.On(kGpu), SizeIs(1));
  EXPECT_THAT(hybrid.driver.faults(), IsEmpty());
}

TEST(WorkerDevicesTest, AJobForAGpuWhereThereIsNoneGoesBackWithTheReason) {
  CoreDriver driver;
  driver.Attach({JobFor(DeviceChoice::kGpu)});
  driver.Give(1, 1, 0, 10);
  EXPECT_THAT(driver.Of<StartExecutor>(), IsEmpty());
  ASSERT_THAT(driver.faults(), testing::Not(IsEmpty()));
  EXPECT_THAT(driver.faults()[0].reason, StartsWith("NO_GPU: "));
  EXPECT_FALSE(driver.faults()[0].fatal) << "another worker may have one";
  ASSERT_THAT(driver.returns(), SizeIs(1));
  EXPECT_EQ(driver.returns()[0].run.leaves.count, 10u);
}

TEST(WorkerDevicesTest, ADeviceThatHasNoFormOfTheKernelIsLeftOut) {
  Hybrid hybrid(DeviceChoice::kAuto, {"another@0"});
  hybrid.Give(1, 0, 100);
  EXPECT_THAT(hybrid.devices(), ElementsAre("cpu"));
  Hybrid only(DeviceChoice::kGpu, {"another@0"});
  only.Give(1, 0, 100);
  EXPECT_THAT(only.devices(), IsEmpty());
  ASSERT_THAT(only.driver.faults(), testing::Not(IsEmpty()));
  EXPECT_THAT(only.driver.faults()[0].reason, HasSubstr("no form of kernel@0"));
}

TEST(WorkerDevicesTest, WhatADeviceThatIsLostHeldIsRunByTheCpu) {
  Hybrid hybrid(DeviceChoice::kAuto);
  hybrid.Give(1, 0, 2);
  const RunPiece lost = hybrid.On(kGpu).at(0);
  const RunPiece other = hybrid.On("cpu").at(0);
  hybrid.running.clear();
  hybrid.Do(ExecutorLost{lost.executor, "SIGKILL", {}});
  hybrid.Finish(other);
  hybrid.Pass(absl::Milliseconds(10));
  ASSERT_THAT(hybrid.On("cpu"), SizeIs(1));
  EXPECT_EQ(hybrid.On("cpu")[0].leaves, lost.leaves);
}

TEST(WorkerDevicesTest, ADeviceOutOfServiceIsEndedAndUsedAgainWhenItIsWell) {
  Hybrid hybrid(DeviceChoice::kAuto);
  hybrid.Give(1, 0, 100);
  const RunPiece held = hybrid.On(kGpu).at(0);
  hybrid.Do(DeviceTroubled{kGpu, "Xid 79"});
  ASSERT_THAT(hybrid.driver.Of<KillExecutor>(), SizeIs(1));
  EXPECT_EQ(hybrid.driver.Of<KillExecutor>()[0].executor, held.executor);
  hybrid.Do(ExecutorLost{held.executor, "SIGKILL", {{JobId(1), held.leaves, false, 0}}});
  for (const Report& report : hybrid.driver.effects().reports) {
    EXPECT_THAT(report.crashes, IsEmpty()) << "the device is to blame";
  }
  for (int second = 0; second < 20; ++second) {
    hybrid.Pass(absl::Seconds(1));
    EXPECT_THAT(hybrid.driver.Of<StartExecutor>(), IsEmpty());
  }
  hybrid.Do(DeviceTroubled{kGpu, ""});
  ASSERT_THAT(hybrid.driver.Of<StartExecutor>(), SizeIs(1));
  EXPECT_EQ(hybrid.driver.Of<StartExecutor>()[0].device, kGpu);
}

TEST(WorkerDevicesTest, AJobForAGpuThatGoesOutOfServiceGoesBack) {
  Hybrid hybrid(DeviceChoice::kGpu);
  hybrid.Give(1, 0, 10);
  const RunPiece held = hybrid.On(kGpu).at(0);
  hybrid.Do(DeviceTroubled{kGpu, "Xid 79"});
  ASSERT_THAT(hybrid.driver.faults(), SizeIs(1));
  EXPECT_THAT(hybrid.driver.faults()[0].reason, HasSubstr("Xid 79"));
  EXPECT_EQ(hybrid.driver.returns().at(0).run.leaves.count, 9u);
  hybrid.Do(ExecutorLost{held.executor, "SIGKILL", {}});
  EXPECT_EQ(hybrid.driver.returns().at(0).run.leaves.count, 1u);
}

TEST(WorkerDevicesTest, AJobThatADeviceRefusesIsRunByTheCpu) {
  Hybrid hybrid(DeviceChoice::kAuto);
  hybrid.Give(1, 0, 1);
  ASSERT_THAT(hybrid.running, SizeIs(1));
  // Whoever got it: the other device is given the next one.
  hybrid.Give(2, 1, 1);
  const RunPiece refused = hybrid.On(kGpu).at(0);
  std::erase_if(hybrid.running, [&](const RunPiece& run) { return run.piece == refused.piece; });
  hybrid.Do(JobErrored{refused.executor, JobId(1), "GPU_OOM: 9 GiB", false, {refused.piece}});
  EXPECT_THAT(hybrid.driver.faults(), IsEmpty());
  EXPECT_THAT(hybrid.driver.returns(), IsEmpty());
  hybrid.Give(3, 2, 20);
  EXPECT_THAT(hybrid.On(kGpu), IsEmpty());
  while (!hybrid.running.empty()) hybrid.Finish(hybrid.running.front());
  EXPECT_EQ(hybrid.driver.core().backlog_leaves(), 0u);
}

// A core group and two devices, of which the second may use more memory.
class TwoDevices : public Hybrid {
 public:
  explicit TwoDevices(DeviceChoice choice, uint64_t budget = 100, uint64_t large_budget = 200)
      : Hybrid(choice) {
    driver.Do(DeviceFound{kGpu, DeviceKind::kEmulated, {"kernel@0"}, budget});
    driver.Do(DeviceFound{"large", DeviceKind::kEmulated, {"kernel@0"}, large_budget});
  }
  // The first piece on the device comes back.
  void Refuse(const std::string& device, uint64_t need, uint64_t budget) {
    const RunPiece piece = On(device).at(0);
    std::erase_if(running, [&](const RunPiece& run) { return run.piece == piece.piece; });
    Do(PieceTooLarge{piece.executor, piece.piece, need, budget, "GPU_OOM: too large"});
  }
};

TEST(WorkerDevicesTest, ALeafThatIsTooLargeGoesToTheCpuAndTheDeviceGoesOn) {
  TwoDevices devices(DeviceChoice::kAuto);
  devices.Give(1, 0, 20);
  ASSERT_FALSE(devices.On(kGpu).empty());
  const LeafInterval large = devices.On(kGpu)[0].leaves;
  devices.Refuse(kGpu, 300, 100);
  EXPECT_THAT(devices.driver.faults(), IsEmpty());
  EXPECT_THAT(devices.driver.returns(), IsEmpty());
  bool on_cpu = false, more = false;
  for (int i = 0; i < 100 && !devices.running.empty(); ++i) {
    for (const RunPiece& run : devices.On("cpu")) on_cpu |= run.leaves == large;
    for (const char* device : {kGpu, "large"}) {
      for (const RunPiece& run : devices.On(device)) EXPECT_NE(run.leaves, large) << device;
    }
    more |= !devices.On(kGpu).empty();
    devices.Finish(devices.running.front());
    devices.Pass(absl::Milliseconds(1));
  }
  EXPECT_TRUE(on_cpu);
  EXPECT_TRUE(more) << "one leaf bars no device";
  EXPECT_EQ(devices.driver.core().backlog_leaves(), 0u);
}

TEST(WorkerDevicesTest, WithoutTheCpuALargerDeviceHasItsChance) {
  TwoDevices devices(DeviceChoice::kGpu);
  devices.Give(1, 0, 20);
  const LeafInterval large = devices.On(kGpu).at(0).leaves;
  devices.Refuse(kGpu, 150, 100);
  EXPECT_THAT(devices.driver.returns(), IsEmpty());
  bool found = false;
  for (int i = 0; i < 100 && !devices.running.empty(); ++i) {
    for (const RunPiece& run : devices.On("large")) found |= run.leaves == large;
    for (const RunPiece& run : devices.On(kGpu)) EXPECT_NE(run.leaves, large);
    devices.Finish(devices.running.front());
    devices.Pass(absl::Milliseconds(1));
  }
  EXPECT_TRUE(found);
  EXPECT_EQ(devices.driver.core().backlog_leaves(), 0u);
}

TEST(WorkerDevicesTest, ALeafThatIsTooLargeForEveryDeviceGoesBackWithItsNeed) {
  TwoDevices devices(DeviceChoice::kGpu);
  devices.Give(1, 0, 20);
  const LeafInterval large = devices.On(kGpu).at(0).leaves;
  devices.Refuse(kGpu, 250, 100);
  ASSERT_THAT(devices.driver.returns(), SizeIs(1));
  EXPECT_EQ(devices.driver.returns()[0].run.leaves, large);
  EXPECT_EQ(devices.driver.returns()[0].gpu_need_bytes, 250u);
  EXPECT_EQ(devices.driver.returns()[0].gpu_budget_bytes, 100u);
  EXPECT_THAT(devices.driver.faults(), IsEmpty()) << "the others go on";
  while (!devices.running.empty()) devices.Finish(devices.running.front());
}

TEST(WorkerDevicesTest, ARefusalRaisesTheNeedAboveTheBudgetThatRefused) {
  // The executor's own budget was smaller than what the worker was told of the device.
  TwoDevices devices(DeviceChoice::kGpu, 200, 200);
  devices.Give(1, 0, 1);
  const std::string device = devices.On(kGpu).empty() ? "large" : kGpu;
  devices.Refuse(device, 150, 90);
  ASSERT_THAT(devices.driver.returns(), SizeIs(1)) << "no device here is larger";
  EXPECT_EQ(devices.driver.returns()[0].gpu_need_bytes, 201u);
}

TEST(WorkerDevicesTest, WhatALargerDeviceHeldGoesBackWhenThatIsOutOfService) {
  TwoDevices devices(DeviceChoice::kGpu);
  devices.Give(1, 0, 3);
  while (devices.On("large").empty()) devices.Pass(absl::Milliseconds(1));
  const ExecutorId large = devices.On("large")[0].executor;
  const LeafInterval moved = devices.On(kGpu).at(0).leaves;
  devices.Refuse(kGpu, 150, 100);
  ASSERT_THAT(devices.On("large"), SizeIs(2)) << "behind what it runs";
  devices.Do(DeviceTroubled{"large", "Xid 79"});
  std::erase_if(devices.running, [&](const RunPiece& run) { return run.executor == large; });
  devices.Do(ExecutorLost{large, "SIGKILL", {}});
  ASSERT_THAT(devices.driver.returns(), SizeIs(1)) << "the small one runs the rest";
  EXPECT_EQ(devices.driver.returns()[0].run.leaves, moved);
  EXPECT_EQ(devices.driver.returns()[0].gpu_need_bytes, 150u);
}

TEST(WorkerDevicesTest, WhatWaitsForALargerDeviceGoesBackWhenThatIsOutOfService) {
  TwoDevices devices(DeviceChoice::kGpu);
  devices.Give(1, 0, 10);
  // As many as the larger one holds, and one more.
  for (int i = 0; i < 3; ++i) {
    while (devices.On(kGpu).empty()) devices.Pass(absl::Milliseconds(1));
    devices.Refuse(kGpu, 150, 100);
    EXPECT_THAT(devices.driver.returns(), IsEmpty());
  }
  devices.Do(DeviceTroubled{"large", "Xid 79"});
  ASSERT_FALSE(devices.driver.returns().empty());
  for (const Return& back : devices.driver.returns()) EXPECT_EQ(back.gpu_need_bytes, 150u);
}

TEST(WorkerDevicesTest, MemoryThatOthersHaveNowRefusesAJobForAGpuForAWhile) {
  TwoDevices devices(DeviceChoice::kGpu);
  devices.Give(1, 0, 20);
  devices.Refuse(kGpu, 50, 100);
  ASSERT_THAT(devices.driver.faults(), SizeIs(1));
  EXPECT_THAT(devices.driver.faults()[0].reason, StartsWith("GPU_OOM"));
  ASSERT_FALSE(devices.driver.returns().empty());
  for (const Return& back : devices.driver.returns()) EXPECT_EQ(back.gpu_need_bytes, 0u);
}

TEST(WorkerDevicesTest, ADeviceThatIsTooSmallAgainAndAgainGetsNoMoreOfTheJob) {
  TwoDevices devices(DeviceChoice::kGpu);
  devices.Give(1, 0, 100);
  const uint32_t most = PullOptions().too_large_max;
  for (uint32_t i = 0; i < most; ++i) {
    for (int wait = 0; wait < 100 && devices.On(kGpu).empty(); ++wait) {
      devices.Pass(absl::Milliseconds(1));
    }
    devices.Refuse(kGpu, 150, 100);
  }
  for (int i = 0; i < 1000 && !devices.running.empty(); ++i) {
    EXPECT_THAT(devices.On(kGpu), IsEmpty());
    devices.Finish(devices.running.front());
    devices.Pass(absl::Milliseconds(1));
  }
  EXPECT_EQ(devices.driver.core().backlog_leaves(), 0u);
}

TEST(WorkerDevicesTest, ADeviceWithLessThanTheJobAsksForIsLeftOut) {
  JobDescribed job = JobFor(DeviceChoice::kGpu);
  job.gpu_memory_bytes = 150;
  CoreDriver driver;
  driver.Do(DeviceFound{kGpu, DeviceKind::kEmulated, {"kernel@0"}, 100});
  driver.Attach({job});
  driver.Give(1, 1, 0, 10);
  EXPECT_THAT(driver.Of<StartExecutor>(), IsEmpty());
  ASSERT_FALSE(driver.faults().empty());
  EXPECT_THAT(driver.faults()[0].reason, StartsWith("NO_GPU: "));
  EXPECT_THAT(driver.faults()[0].reason, HasSubstr("150B"));
  EXPECT_THAT(driver.faults()[0].reason, HasSubstr("100B, of emulated:0"));
  CoreDriver able;
  able.Do(DeviceFound{kGpu, DeviceKind::kEmulated, {"kernel@0"}, 150});
  able.Attach({job});
  able.Give(1, 1, 0, 10);
  EXPECT_THAT(able.pieces(), SizeIs(1));
}

TEST(WorkerDevicesTest, AnIdleDeviceTakesWhatHasNotBegunOfAnothersPiece) {
  Hybrid hybrid(DeviceChoice::kAuto, {"kernel@0"}, /*shrinks=*/true);
  hybrid.Measure();
  hybrid.Give(100, 1000, 64);
  // The CPU does as expected, the other device stands still.
  for (int i = 0; i < 200 && hybrid.driver.Of<ShrinkPiece>().empty(); ++i) {
    hybrid.Pass(absl::Milliseconds(1));
    if (hybrid.driver.Of<ShrinkPiece>().empty() && !hybrid.On("cpu").empty()) {
      hybrid.Finish(hybrid.On("cpu")[0]);
    }
  }
  ASSERT_THAT(hybrid.driver.Of<ShrinkPiece>(), SizeIs(1));
  const ShrinkPiece shrink = hybrid.driver.Of<ShrinkPiece>()[0];
  ASSERT_GE(hybrid.On(kGpu).size(), 2u);
  const RunPiece next = hybrid.On(kGpu).back();  // What it would begin last.
  ASSERT_EQ(shrink.piece, next.piece);
  EXPECT_LT(shrink.leaves, next.leaves.count);
  hybrid.Shrink(shrink);
  const uint64_t first = next.leaves.first + shrink.leaves;
  const uint64_t end = next.leaves.first + next.leaves.count;
  uint64_t stolen = 0;
  for (int i = 0; i < 100; ++i) {
    hybrid.Pass(absl::Milliseconds(1));
    if (hybrid.On("cpu").empty()) continue;
    const LeafInterval leaves = hybrid.On("cpu")[0].leaves;
    if (first <= leaves.first && leaves.first + leaves.count <= end) stolen += leaves.count;
    hybrid.Finish(hybrid.On("cpu")[0]);
    const auto again = hybrid.driver.Of<ShrinkPiece>();
    if (!again.empty()) hybrid.Shrink(again[0]);
  }
  EXPECT_EQ(stolen, end - first) << "the CPU runs them while the other stands still";
}

TEST(WorkerDevicesTest, WhatIsLeftOfAShrunkPieceIsCommitted) {
  Hybrid hybrid(DeviceChoice::kCpu, {"kernel@0"}, /*shrinks=*/true);
  CoreDriver& driver = hybrid.driver;
  hybrid.Give(1, 0, 1);
  hybrid.Finish(hybrid.running.at(0));
  hybrid.Give(2, 10, 64);
  RunPiece piece = hybrid.running.at(0);
  ASSERT_GT(piece.leaves.count, 2u);
  driver.Do(PieceShrunk{piece.executor, piece.piece, 2});
  piece.leaves.count = 2;
  driver.Do(driver.Finished(piece));
  ASSERT_THAT(driver.commits(), SizeIs(1));
  EXPECT_THAT(driver.commits()[0].runs, ElementsAre(LeafRun{2, {10, 2}}));
}

TEST(WorkerDevicesTest, ARecallTakesWhatHasNotBegunOfAPieceThatRuns) {
  Hybrid hybrid(DeviceChoice::kCpu, {"kernel@0"}, /*shrinks=*/true);
  CoreDriver& driver = hybrid.driver;
  hybrid.Give(1, 0, 1);
  hybrid.Finish(hybrid.running.at(0));
  hybrid.Give(2, 10, 64);
  RunPiece piece = hybrid.running.at(0);
  const uint64_t count = piece.leaves.count;
  ASSERT_GT(count, 4u);
  // All but three leaves of it; what waits behind it wholly.
  driver.Do(Recalled{{JobId(1), {13, 61}}});
  for (const ShrinkPiece& asked : driver.Of<ShrinkPiece>()) {
    EXPECT_EQ(asked.leaves, asked.piece == piece.piece ? 3u : 0u);
  }
  EXPECT_THAT(driver.Of<CancelPiece>(), IsEmpty());
  // While it is on its way nothing is asked for twice.
  driver.Do(Recalled{{JobId(1), {12, 62}}});
  EXPECT_THAT(driver.Of<ShrinkPiece>(), IsEmpty());
  // Four had begun.
  driver.Do(PieceShrunk{piece.executor, piece.piece, 4});
  ASSERT_THAT(driver.returns(), SizeIs(1));
  EXPECT_EQ(driver.returns()[0].run, (LeafRun{6, {14, count - 4}}));
  // What is left may be recalled again; this time there is nothing to take.
  driver.Do(Recalled{{JobId(1), {10, 4}}});
  ASSERT_THAT(driver.Of<ShrinkPiece>(), SizeIs(1));
  driver.Do(PieceShrunk{piece.executor, piece.piece, 4});
  EXPECT_THAT(driver.returns(), IsEmpty());
  piece.leaves.count = 4;
  driver.Do(driver.Finished(piece));
  ASSERT_THAT(driver.commits(), SizeIs(1));
  EXPECT_THAT(driver.commits()[0].runs, ElementsAre(LeafRun{2, {10, 4}}));
}

TEST(WorkerDevicesTest, AFirstLaunchTeachesNoRate) {
  Hybrid hybrid(DeviceChoice::kGpu);
  hybrid.Give(1, 0, 100);
  PieceFinished first = hybrid.driver.Finished(hybrid.running.at(0), absl::Seconds(1));
  first.first_launch = true;
  hybrid.running.clear();
  hybrid.Do(first);
  const auto rates = [&] {
    std::vector<KernelRate> found;
    for (const Report& report : hybrid.driver.effects().reports) {
      found.insert(found.end(), report.rates.begin(), report.rates.end());
    }
    return found;
  };
  EXPECT_THAT(rates(), IsEmpty());
  hybrid.Finish(hybrid.running.at(0), absl::Milliseconds(1));
  ASSERT_THAT(rates(), SizeIs(1));
  EXPECT_EQ(rates()[0].device, DeviceKind::kEmulated);
  EXPECT_NEAR(rates()[0].tasks_per_second, 1000, 1);
}

TEST(WorkerDevicesTest, EachDeviceKeepsAnAccumulatorOfItsOwn) {
  CoreDriver driver;
  driver.Do(DeviceFound{kGpu, DeviceKind::kEmulated, {"kernel@0"}});
  JobDescribed sum = SumJob(1, 100, /*cost_ns=*/0);
  driver.Attach({sum});
  driver.Give(1, 1, 0, 2);
  const auto pieces = driver.pieces();
  ASSERT_THAT(pieces, SizeIs(2));
  ASSERT_NE(pieces[0].executor, pieces[1].executor);
  driver.DoAll({driver.Accumulated(pieces[0]), driver.Accumulated(pieces[1])});
  std::set<ExecutorId> flushed;
  for (const FlushJob& flush : driver.Of<FlushJob>()) flushed.insert(flush.executor);
  EXPECT_THAT(flushed, UnorderedElementsAre(pieces[0].executor, pieces[1].executor));
  // One of them is lost before it says its partial: its leaf runs again, the other's counts.
  driver.Do(ExecutorLost{pieces[0].executor, "SIGKILL", {}});
  driver.Do(
      PartialFinished{pieces[1].executor, JobId(1), {pieces[1].piece}, {{0, "12345678", 0, 0}}, 1});
  ASSERT_THAT(driver.commits(), SizeIs(1));
  EXPECT_EQ(driver.commits()[0].runs.at(0).leaves, pieces[1].leaves);
  EXPECT_EQ(driver.core().backlog_leaves(), 1u);
}

}  // namespace
}  // namespace tandem::worker
