#include "worker/device/emulated/emulated_gpu.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "absl/synchronization/notification.h"
#include "common/base/clock.h"
#include "common/base/rng.h"
#include "tests/support/fake_kernels.h"
#include "tests/worker/device/emulated_fixture.h"
#include "worker/device/emulated/grid.h"

namespace tandem::worker {
namespace {

using ::tandem::testing::FakeKernel;

struct DoubleArgs {
  const float* x;
  float* y;
};

// One copy up, a grid, one copy down, as the engine does it; against the definition.
TEST_F(EmulatedGpuTest, AGridComputesWhatTheKernelSays) {
  for (const int64_t n : {int64_t{1}, int64_t{255}, int64_t{257}, int64_t{40'001}}) {
    EmulatedOptions options;
    options.seed = static_cast<uint64_t>(n);
    Make(options);
    const auto count = static_cast<size_t>(n);
    auto* host = Pinned<float>(2 * count);
    auto* faults = Pinned<uint8_t>(count);
    Rng rng(options.seed);
    for (size_t i = 0; i < count; ++i) host[i] = static_cast<float>(rng.NextDouble() - 0.25);
    const DeviceAddress slab = Must(gpu_->Allocate(2 * count * sizeof(float)));
    const DeviceAddress fault = Must(gpu_->Allocate(count));
    const DeviceAddress y = slab + count * sizeof(float);
    ASSERT_TRUE(gpu_->CopyUp(stream_, slab, host, count * sizeof(float)).ok());
    const DoubleArgs args = {static_cast<const float*>(slab.ForKernel()),
                             static_cast<float*>(y.ForKernel())};
    const TandemPart part = {&args, {0, 0}, n, static_cast<uint8_t*>(fault.ForKernel()), nullptr};
    ASSERT_TRUE(gpu_->LaunchGrid(stream_, {FakeKernel("double_it"), {&part, 1}}).ok());
    ASSERT_TRUE(gpu_->CopyDown(stream_, host + count, y, count * sizeof(float)).ok());
    ASSERT_TRUE(gpu_->CopyDown(stream_, faults, fault, count).ok());
    ASSERT_EQ(Drain(), absl::OkStatus());
    for (size_t i = 0; i < count; ++i) {
      ASSERT_EQ(host[count + i], host[i] + host[i]);
      ASSERT_EQ(faults[i], host[i] < 0 ? 1 : 0);
    }
    EXPECT_EQ(gpu_->counters().bytes_up, count * sizeof(float));
    EXPECT_EQ(gpu_->counters().bytes_down, count * (sizeof(float) + 1));
    EXPECT_EQ(gpu_->counters().launches, 1u);
  }
}

TEST_F(EmulatedGpuTest, PartsOfSeveralJobsShareALaunchWithTheirOwnScalars) {
  Make();
  struct Args {
    int32_t step;
  };
  const Args args[] = {{3}, {5}};
  constexpr size_t kTally = 128;
  const DeviceAddress partial = Must(gpu_->Allocate(2 * kTally));
  ASSERT_TRUE(gpu_->Fill(stream_, partial, 0, 2 * kTally).ok());
  const TandemPart parts[] = {{&args[0], {0, 0}, 1000, nullptr, partial.ForKernel()},
                              {&args[1], {1000, 0}, 3, nullptr, (partial + kTally).ForKernel()}};
  ASSERT_TRUE(gpu_->LaunchGrid(stream_, {FakeKernel("tally"), parts}).ok());
  auto* host = Pinned<uint64_t>(2 * kTally / 8);
  ASSERT_TRUE(gpu_->CopyDown(stream_, host, partial, 2 * kTally).ok());
  ASSERT_EQ(Drain(), absl::OkStatus());
  EXPECT_EQ(host[0], 750u);  // 250 tasks of each residue, three each
  EXPECT_EQ(host[8], 1000u);
  EXPECT_EQ(host[16], 5u);
  EXPECT_EQ(host[16 + 3], 0u);
  EXPECT_EQ(host[24], 3u);
}

TEST_F(EmulatedGpuTest, AWholeLeafIsOneCallWhateverItsSize) {
  Make();
  constexpr int64_t kTasks = 5000;
  auto* host = Pinned<float>(kTasks + 1);
  float expected = 0;
  for (int64_t i = 0; i < kTasks; ++i) {
    host[i] = 1.0f / static_cast<float>(i + 1);  // the order of additions shows
    expected += host[i];
  }
  const DeviceAddress x = Must(gpu_->Allocate(kTasks * 4)), total = Must(gpu_->Allocate(4));
  ASSERT_TRUE(gpu_->CopyUp(stream_, x, host, kTasks * 4).ok());
  ASSERT_TRUE(gpu_->Fill(stream_, total, 0, 4).ok());
  const void* args = x.ForKernel();
  const TandemPart part = {&args, {0, 0}, kTasks, nullptr, total.ForKernel()};
  ASSERT_TRUE(gpu_->LaunchGrid(stream_, {FakeKernel("float_sum"), {&part, 1}}).ok());
  ASSERT_TRUE(gpu_->CopyDown(stream_, host + kTasks, total, 4).ok());
  ASSERT_EQ(Drain(), absl::OkStatus());
  EXPECT_EQ(host[kTasks], expected);
}

TEST(GridShapeTest, BlocksComeFromTasksAndStrideBeyondAFewWaves) {
  GpuProperties device;
  device.multiprocessors = 4;
  device.threads_a_multiprocessor = 2048;  // 32 blocks of 256 at a time
  EXPECT_EQ(ShapeOf(1, 1, device).blocks, 1u);
  EXPECT_EQ(ShapeOf(256, 1, device).blocks, 1u);
  EXPECT_EQ(ShapeOf(257, 1, device).blocks, 2u);
  const GridShape large = ShapeOf(1'000'000'000'000, 1, device);
  EXPECT_EQ(large.blocks, 128u);
  EXPECT_GE(large.blocks * large.rounds * large.tasks_a_block, 1'000'000'000'000u);
  EXPECT_EQ(ShapeOf(100, 256, device).tasks_a_block, 1u);
  EXPECT_EQ(ShapeOf(100, 32, device).tasks_a_block, 8u);
}

// Two streams, with the event between them or without it: whoever leaves it out is found out by
// some seed.
TEST_F(EmulatedGpuTest, WhatIsLeftOpenHappensInAnyOrder) {
  const auto run = [&](uint64_t seed, bool ordered) {
    EmulatedOptions options;
    options.seed = seed;
    Make(options);
    const StreamId other = Must(gpu_->NewStream());
    const EventId event = Must(gpu_->NewEvent());
    const DeviceAddress place = Must(gpu_->Allocate(1));
    auto* host = Pinned<uint8_t>(2);
    host[0] = 42;
    EXPECT_TRUE(gpu_->Fill(stream_, place, 0, 1).ok());
    EXPECT_EQ(Drain(), absl::OkStatus());
    absl::Notification go;
    // Nothing begins before everything is there.
    EXPECT_TRUE(gpu_->Call(stream_, [&](const absl::Status&) { go.WaitForNotification(); }).ok());
    EXPECT_TRUE(gpu_->CopyUp(stream_, place, host, 1).ok());
    EXPECT_TRUE(gpu_->Record(stream_, event).ok());
    if (ordered) {
      EXPECT_TRUE(gpu_->Wait(other, event).ok());
    }
    EXPECT_TRUE(gpu_->CopyDown(other, host + 1, place, 1).ok());
    go.Notify();
    EXPECT_EQ(Drain(), absl::OkStatus());
    EXPECT_EQ(Drain(other), absl::OkStatus());
    return host[1];
  };
  int found = 0;
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    EXPECT_EQ(run(seed, true), 42);
    found += run(seed, false) != 42;
  }
  EXPECT_GT(found, 0);
}

TEST_F(EmulatedGpuTest, ACopyReadsItsSourceWhenItsTurnComes) {
  Make();
  const DeviceAddress place = Must(gpu_->Allocate(1));
  auto* host = Pinned<uint8_t>(2);
  absl::Notification go;
  ASSERT_TRUE(gpu_->Call(stream_, [&](const absl::Status&) { go.WaitForNotification(); }).ok());
  host[0] = 1;
  ASSERT_TRUE(gpu_->CopyUp(stream_, place, host, 1).ok());
  ASSERT_TRUE(gpu_->CopyDown(stream_, host + 1, place, 1).ok());
  host[0] = 2;  // too early: the stream has not passed it
  go.Notify();
  ASSERT_EQ(Drain(), absl::OkStatus());
  EXPECT_EQ(host[1], 2);
}

TEST_F(EmulatedGpuTest, AnEventIsReachedWhenTheStreamHasPassedIt) {
  Make();
  const EventId event = Must(gpu_->NewEvent());
  EXPECT_FALSE(Must(gpu_->Reached(event)));
  absl::Notification go;
  ASSERT_TRUE(gpu_->Call(stream_, [&](const absl::Status&) { go.WaitForNotification(); }).ok());
  ASSERT_TRUE(gpu_->Record(stream_, event).ok());
  EXPECT_FALSE(Must(gpu_->Reached(event)));
  go.Notify();
  ASSERT_EQ(Drain(), absl::OkStatus());
  EXPECT_TRUE(Must(gpu_->Reached(event)));
  // The exact clock has no speed to tell.
  EXPECT_FALSE(gpu_->Between(event, event).ok());
}

const TandemPart kNothing = {nullptr, {0, 0}, 0, nullptr, nullptr};

GridLaunch Empty() {
  static const TandemKernelV1* const kernel = [] {
    static TandemKernelV1 table = *FakeKernel("double_it");
    table.args_bytes = 0;
    return &table;
  }();
  return {kernel, {&kNothing, 1}};
}

TEST_F(EmulatedGpuTest, AScriptedAllocationFailsAndHarmsNothing) {
  Make({}, "oom@2");
  EXPECT_TRUE(gpu_->Allocate(10).ok());
  EXPECT_EQ(gpu_->Allocate(10).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(gpu_->Allocate(10).ok());
}

TEST_F(EmulatedGpuTest, AStickyErrorStays) {
  Make({}, "sticky@2");
  ASSERT_TRUE(gpu_->LaunchGrid(stream_, Empty()).ok());
  ASSERT_EQ(Drain(), absl::OkStatus());
  ASSERT_TRUE(gpu_->LaunchGrid(stream_, Empty()).ok());
  const absl::Status status = Drain();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(gpu_->LaunchGrid(stream_, Empty()), status);
  EXPECT_EQ(gpu_->NewEvent().status(), status);
}

TEST_F(EmulatedGpuTest, ALostDeviceIsUnavailable) {
  Make({}, "lost@1");
  ASSERT_TRUE(gpu_->LaunchGrid(stream_, Empty()).ok());
  EXPECT_EQ(Drain().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(gpu_->health().code(), absl::StatusCode::kUnavailable);
}

TEST_F(EmulatedGpuTest, AHungLaunchHoldsUpItsStreamAndNothingElse) {
  Make({}, "hang@1");
  const EventId event = Must(gpu_->NewEvent());
  const StreamId other = Must(gpu_->NewStream());
  const DeviceAddress place = Must(gpu_->Allocate(8));
  auto* host = Pinned<uint8_t>(8);
  ASSERT_TRUE(gpu_->LaunchGrid(stream_, Empty()).ok());
  ASSERT_TRUE(gpu_->Record(stream_, event).ok());
  ASSERT_TRUE(gpu_->CopyUp(other, place, host, 8).ok());
  EXPECT_EQ(Drain(other), absl::OkStatus());
  EXPECT_FALSE(Must(gpu_->Reached(event)));
  gpu_.reset();  // does not wait for it
}

TEST(FaultScriptTest, WhatIsNoFaultIsRefused) {
  for (const char* text :
       {"oom", "oom@", "oom@0", "oom@-1", "oom@x", "sticky@1:2", "slow@1", "slow@1:0", "slow@1:nan",
        "slow@1:inf", "boom@1", "oom@1,,lost@2", "@"}) {
    EXPECT_FALSE(FaultScript::Parse(text).ok()) << text;
  }
  const FaultScript script = Must(FaultScript::Parse("slow@9:8,hang@3,slow@5:4,oom@2"));
  EXPECT_EQ(script.OfLaunch(3), LaunchFault::kHang);
  EXPECT_EQ(script.OfLaunch(2), LaunchFault::kNone);
  EXPECT_EQ(script.SlowdownAt(4), 1);
  EXPECT_EQ(script.SlowdownAt(5), 4);
  EXPECT_EQ(script.SlowdownAt(9), 8);
}

TEST_F(EmulatedGpuTest, VirtualTimeIsWhatTheModelSays) {
  EmulatedOptions options;
  options.clock = EmulatedClock::kVirtual;
  options.speed = {8, 1e-5, 2e-5, 1e9, 1e-6};
  Make(options, "slow@2:3");
  const EventId marks[] = {Must(gpu_->NewEvent()), Must(gpu_->NewEvent()), Must(gpu_->NewEvent())};
  const DeviceAddress slab = Must(gpu_->Allocate(1'000'000));
  auto* host = Pinned<uint8_t>(1'000'000);
  host[0] = 7;
  ASSERT_TRUE(gpu_->Record(stream_, marks[0]).ok());
  ASSERT_TRUE(gpu_->CopyUp(stream_, slab, host, 1'000'000).ok());
  ASSERT_TRUE(gpu_->Record(stream_, marks[1]).ok());
  GridLaunch launch = Empty();
  launch.expected_ns = 8e6;  // 8 ms on one core: 1 ms on eight
  ASSERT_TRUE(gpu_->LaunchGrid(stream_, launch).ok());
  ASSERT_TRUE(gpu_->Record(stream_, marks[2]).ok());
  bool called = false;
  ASSERT_TRUE(gpu_->Call(stream_, [&](const absl::Status&) { called = true; }).ok());
  gpu_->AdvanceTo(0.002);
  EXPECT_FALSE(called);
  EXPECT_NEAR(gpu_->next(), 0.00203, 1e-9);
  gpu_->AdvanceTo(1);
  EXPECT_TRUE(called);
  EXPECT_NEAR(absl::ToDoubleSeconds(Must(gpu_->Between(marks[0], marks[1]))), 0.00102, 1e-9);
  EXPECT_NEAR(absl::ToDoubleSeconds(Must(gpu_->Between(marks[1], marks[2]))), 0.00101, 1e-9);
  // From the second launch on everything takes three times as long.
  ASSERT_TRUE(gpu_->LaunchGrid(stream_, launch).ok());
  ASSERT_TRUE(gpu_->Record(stream_, marks[0]).ok());
  gpu_->AdvanceTo(2);
  EXPECT_EQ(gpu_->next(), Timeline::kNever);
  ASSERT_TRUE(gpu_->Record(stream_, marks[1]).ok());
  gpu_->AdvanceTo(3);
  EXPECT_NEAR(absl::ToDoubleSeconds(Must(gpu_->Between(marks[2], marks[0]))), 1 - 0.00203 + 0.00303,
              1e-9);
}

// Double-buffered pieces: copies up, grids and copies down of different pieces at the same time.
TEST_F(EmulatedGpuTest, CopiesAndGridsOverlapInVirtualTime) {
  EmulatedOptions options;
  options.clock = EmulatedClock::kVirtual;
  options.speed.copy_bytes_per_second = 1e9;
  Make(options);
  constexpr int kPieces = 200;
  const StreamId streams[] = {stream_, Must(gpu_->NewStream()), Must(gpu_->NewStream())};
  const DeviceAddress slab = Must(gpu_->Allocate(10'000'000));
  auto* host = Pinned<uint8_t>(10'000'000);
  GridLaunch launch = Empty();
  launch.expected_ns = options.speed.cores * 9e6;
  for (int i = 0; i < kPieces; ++i) {
    const StreamId stream = streams[i % 3];
    ASSERT_TRUE(gpu_->CopyUp(stream, slab, host, 10'000'000).ok());  // 10 ms
    ASSERT_TRUE(gpu_->LaunchGrid(stream, launch).ok());              // 9 ms
    ASSERT_TRUE(gpu_->CopyDown(stream, host, slab, 5'000'000).ok());
  }
  double end = 0;
  while (gpu_->next() < Timeline::kNever) gpu_->AdvanceTo(end = gpu_->next());
  EXPECT_GE(kPieces * 0.010 / end, 0.98);
}

TEST_F(EmulatedGpuTest, ThePacedClockTakesItsTimeAndComputesTheSame) {
  EmulatedOptions options;
  options.clock = EmulatedClock::kPaced;
  Make(options);
  constexpr int64_t kTasks = 1000;
  auto* host = Pinned<float>(2 * kTasks);
  std::iota(host, host + kTasks, 1.0f);
  const DeviceAddress x = Must(gpu_->Allocate(kTasks * 8)), fault = Must(gpu_->Allocate(kTasks));
  const DeviceAddress y = x + kTasks * 4;
  const EventId marks[] = {Must(gpu_->NewEvent()), Must(gpu_->NewEvent())};
  const MonoTime start = Clock::Real()->Now();
  ASSERT_TRUE(gpu_->CopyUp(stream_, x, host, kTasks * 4).ok());
  ASSERT_TRUE(gpu_->Record(stream_, marks[0]).ok());
  const DoubleArgs args = {static_cast<const float*>(x.ForKernel()),
                           static_cast<float*>(y.ForKernel())};
  const TandemPart part = {
      &args, {0, 0}, kTasks, static_cast<uint8_t*>(fault.ForKernel()), nullptr};
  GridLaunch launch = {FakeKernel("double_it"), {&part, 1}};
  launch.expected_ns = options.speed.cores * 20e6;
  ASSERT_TRUE(gpu_->LaunchGrid(stream_, launch).ok());
  ASSERT_TRUE(gpu_->Record(stream_, marks[1]).ok());
  ASSERT_TRUE(gpu_->CopyDown(stream_, host + kTasks, y, kTasks * 4).ok());
  ASSERT_EQ(Drain(), absl::OkStatus());
  EXPECT_GE(absl::ToDoubleSeconds(Clock::Real()->Now() - start), 0.020);
  // The device may wait for its caller, never the other way.
  EXPECT_GE(absl::ToDoubleSeconds(Must(gpu_->Between(marks[0], marks[1]))), 0.020005 - 1e-9);
  for (int64_t i = 0; i < kTasks; ++i) ASSERT_EQ(host[kTasks + i], 2 * host[i]);
}

TEST_F(EmulatedGpuTest, ItNeverCallsItselfAGpu) {
  Make();
  EXPECT_EQ(gpu_->properties().model, "emulated");
  const std::string texts[] = {std::string(gpu_->Allocate(uint64_t{1} << 60).status().message()),
                               std::string(gpu_->Free({1}).message())};
  for (const std::string& text : texts) {
    EXPECT_EQ(text.find("GPU"), std::string::npos) << text;
    EXPECT_NE(text.find("emulated device"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace tandem::worker
