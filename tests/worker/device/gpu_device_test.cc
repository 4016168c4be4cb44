#include "worker/device/gpu/gpu_device.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/base/error.h"
#include "common/base/rng.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/fake_kernels.h"
#include "tests/worker/device/gpu_fixture.h"

namespace tandem::worker {
namespace {

using ::tandem::testing::FakeKernel;
using ::testing::ElementsAre;

TEST_F(GpuDeviceTest, EveryTaskRunsOnceWhateverOrderTheStreamsTake) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    EmulatedOptions emulated;
    emulated.seed = seed;
    emulated.memory_bytes = 1 << 20;  // not enough for all at once
    GpuEngineOptions engine;
    engine.streams = 1 + static_cast<uint32_t>(seed % 5);
    engine.extent_bytes = 256 << 10;
    Make(emulated, "", engine);
    Rng rng(seed);
    std::vector<std::vector<std::unique_ptr<DoublePart>>> parts(30);
    std::vector<std::unique_ptr<WaitedBatch>> batches;
    for (auto& of_batch : parts) {
      batches.push_back(std::make_unique<WaitedBatch>());
      Batch& batch = batches.back()->batch;
      batch.kernel = FakeKernel("double_it");
      for (uint64_t i = rng.Between(1, 8); i > 0; --i) {
        const size_t tasks = rng.Chance(0.2) ? 0 : rng.Between(1, 3000);
        of_batch.push_back(std::make_unique<DoublePart>(tasks, &rng));
        batch.parts.push_back(of_batch.back()->Part(rng.Below(1000)));
      }
      device_->Submit(0, &batch);
    }
    uint64_t empty = 0;
    for (size_t b = 0; b < batches.size(); ++b) {
      batches[b]->done.WaitForNotification();
      ASSERT_TRUE(batches[b]->batch.status.ok()) << batches[b]->batch.status;
      bool any = false;
      for (size_t i = 0; i < parts[b].size(); ++i) {
        parts[b][i]->ExpectDone(batches[b]->batch.parts[i]);
        any |= !parts[b][i]->x.empty();
      }
      empty += !any;
    }
    // One copy up, one grid, one copy down a batch.
    const EmulatedCounters counters = gpu_->counters();
    EXPECT_EQ(counters.launches, batches.size() - empty);
    EXPECT_EQ(counters.copies_up, counters.launches);
    EXPECT_EQ(counters.copies_down, counters.launches);
    EXPECT_TRUE(log_.running().empty());
  }
}

TEST_F(GpuDeviceTest, WhatIsCopiedIsCounted) {
  Make();
  DoublePart data(1000);
  Batch batch;
  batch.kernel = FakeKernel("double_it");
  batch.parts.push_back(data.Part());
  ASSERT_TRUE(Run(&batch).ok());
  EXPECT_EQ(batch.bytes_up, 4096u);            // 4,000 bytes of x
  EXPECT_EQ(batch.bytes_down, 4096u + 1024u);  // 4,000 bytes of y, 1,000 of faults
  EXPECT_EQ(device_->counters().bytes_up, gpu_->counters().bytes_up);
  EXPECT_TRUE(batch.first_launch);
  ASSERT_TRUE(Run(&batch).ok());
  EXPECT_FALSE(batch.first_launch);
}

TEST_F(GpuDeviceTest, SkippedTasksKeepWhatTheirOutputsHeld) {
  Make();
  DoublePart data(10);
  const uint64_t skip[] = {100, 104, 105, 109};
  Batch batch;
  batch.kernel = FakeKernel("double_it");
  batch.parts.push_back(data.Part(100, 5));
  batch.parts[0].skip = skip;
  ASSERT_TRUE(Run(&batch).ok());
  EXPECT_THAT(data.y, ElementsAre(-7, 2, 4, 6, -7, -7, 12, 14, 16, -7));
  EXPECT_EQ(batch.parts[0].failed, 0);
}

TEST_F(GpuDeviceTest, SuspectsRunOneByOneAndAreNamedBeforeTheyRun) {
  Make();
  DoublePart data(10);
  const uint64_t skip[] = {101};
  Batch batch;
  batch.kernel = FakeKernel("double_it");
  batch.parts.push_back(data.Part(100, 5));
  batch.parts[0].skip = skip;
  batch.parts[0].suspect = true;
  ASSERT_TRUE(Run(&batch).ok());
  std::vector<uint64_t> tasks;
  for (const GridLog::Start& start : log_.starts()) {
    EXPECT_EQ(start.first_leaf, start.task / 5);
    tasks.push_back(start.task);
  }
  EXPECT_THAT(tasks, ElementsAre(100, 102, 103, 104, 105, 106, 107, 108, 109));
  EXPECT_EQ(gpu_->counters().launches, 9u);
  EXPECT_EQ(data.y[9], 18);
}

TEST_F(GpuDeviceTest, AfterAStickyErrorTheLogNamesTheGuiltyTaskAndNothingMoreRuns) {
  Make({}, "sticky@4");
  DoublePart data(10);
  Batch batch;
  batch.kernel = FakeKernel("double_it");
  batch.parts.push_back(data.Part(100, 5));
  batch.parts[0].suspect = true;
  const absl::Status status = Run(&batch);
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(ReasonOf(status), reason::kDeviceFault);
  EXPECT_EQ(device_->health().code(), absl::StatusCode::kInternal);
  ASSERT_EQ(log_.running().size(), 1u);
  EXPECT_EQ(log_.running()[0].task, 103u);
  EXPECT_EQ(log_.running()[0].job, 5u);
  DoublePart other(10);
  Batch next;
  next.kernel = FakeKernel("double_it");
  next.parts.push_back(other.Part());
  EXPECT_EQ(Run(&next).code(), absl::StatusCode::kInternal);
  EXPECT_EQ(gpu_->counters().launches, 4u);
}

TEST_F(GpuDeviceTest, EveryBatchEndsWhenTheDeviceIsLost) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    EmulatedOptions emulated;
    emulated.seed = seed;
    emulated.memory_bytes = 256 << 10;
    Make(emulated, "lost@5");
    std::vector<std::unique_ptr<DoublePart>> data;
    std::vector<std::unique_ptr<WaitedBatch>> batches;
    for (int i = 0; i < 40; ++i) {
      data.push_back(std::make_unique<DoublePart>(2000));
      batches.push_back(std::make_unique<WaitedBatch>());
      batches.back()->batch.kernel = FakeKernel("double_it");
      batches.back()->batch.parts.push_back(data.back()->Part());
      device_->Submit(0, &batches.back()->batch);
    }
    int good = 0;
    for (size_t i = 0; i < batches.size(); ++i) {
      batches[i]->done.WaitForNotification();
      const Batch& batch = batches[i]->batch;
      if (!batch.status.ok()) {
        EXPECT_EQ(batch.status.code(), absl::StatusCode::kUnavailable);
        continue;
      }
      ++good;
      data[i]->ExpectDone(batch.parts[0]);
    }
    EXPECT_LT(good, 40);
    EXPECT_EQ(device_->health().code(), absl::StatusCode::kUnavailable);
  }
}

TEST_F(GpuDeviceTest, ABatchThatFitsNowhereSaysItsNeedAndTheBudget) {
  EmulatedOptions emulated;
  emulated.memory_bytes = 100'000;
  Make(emulated);
  DoublePart large(20'000), small(5'000);
  Batch batch;
  batch.kernel = FakeKernel("double_it");
  batch.parts.push_back(large.Part());
  const absl::Status status = Run(&batch);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReasonOf(status), reason::kGpuOom);
  // 80,000 bytes of x and of y and 20,000 of faults, each rounded up; 90 % of what there is.
  EXPECT_TRUE(batch.too_large);
  EXPECT_EQ(batch.need_bytes, 180'480u);
  EXPECT_EQ(batch.budget_bytes, 90'000u);
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("needs 176KiB"));
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("the budget is 87.9KiB"));
  EXPECT_EQ(gpu_->counters().copies_up, 0u);
  Batch next;
  next.kernel = FakeKernel("double_it");
  next.parts.push_back(small.Part());
  ASSERT_TRUE(Run(&next).ok());
  small.ExpectDone(next.parts[0]);
}

TEST_F(GpuDeviceTest, AFailedAllocationHarmsNothing) {
  Make({}, "oom@1,oom@2");
  DoublePart data(100);
  Batch batch;
  batch.kernel = FakeKernel("double_it");
  batch.parts.push_back(data.Part());
  EXPECT_EQ(Run(&batch).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(device_->health().ok());
  ASSERT_TRUE(Run(&batch).ok());
  data.ExpectDone(batch.parts[0]);
}

TEST_F(GpuDeviceTest, AnOperandThatStaysIsNeverCopiedTwice) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    EmulatedOptions emulated;
    emulated.seed = seed;
    GpuEngineOptions engine;
    engine.resident_bytes_min = 1000;
    Make(emulated, "", engine);
    constexpr size_t kTasks = 5000;
    std::vector<std::unique_ptr<DoublePart>> data;
    std::vector<std::unique_ptr<WaitedBatch>> batches;
    for (int i = 0; i < 30; ++i) {
      data.push_back(std::make_unique<DoublePart>(kTasks, nullptr, 1 + i % 3));
      batches.push_back(std::make_unique<WaitedBatch>());
      batches.back()->batch.kernel = FakeKernel("double_it");
      // Twice in one batch too.
      batches.back()->batch.parts.push_back(data.back()->Part());
      data.push_back(std::make_unique<DoublePart>(kTasks, nullptr, 1 + i % 3));
      batches.back()->batch.parts.push_back(data.back()->Part());
      device_->Submit(0, &batches.back()->batch);
    }
    for (size_t i = 0; i < batches.size(); ++i) {
      batches[i]->done.WaitForNotification();
      ASSERT_TRUE(batches[i]->batch.status.ok());
      data[2 * i]->ExpectDone(batches[i]->batch.parts[0]);
      data[2 * i + 1]->ExpectDone(batches[i]->batch.parts[1]);
    }
    EXPECT_EQ(gpu_->counters().bytes_up, 3 * kTasks * sizeof(float));
    EXPECT_EQ(gpu_->counters().copies_up, 3u);
    EXPECT_EQ(device_->counters().resident_uploads, 3u);
    EXPECT_EQ(device_->counters().resident_hits, 27u);
  }
}

TEST_F(GpuDeviceTest, BatchesRunTogetherOnlyAsFarAsWhatTheyDeclareFits) {
  constexpr uint64_t kBudget = 1 << 20;
  for (const uint64_t together : {1, 3}) {
    GpuEngineOptions engine;
    engine.memory_bytes = kBudget;
    Make({}, "", engine);
    const size_t before = log_.peak();
    std::vector<std::unique_ptr<DoublePart>> data;
    std::vector<std::unique_ptr<WaitedBatch>> batches;
    for (int i = 0; i < 40; ++i) {
      data.push_back(std::make_unique<DoublePart>(100));
      batches.push_back(std::make_unique<WaitedBatch>());
      Batch& batch = batches.back()->batch;
      batch.kernel = FakeKernel("double_it");
      batch.memory_bytes = kBudget / together;
      batch.parts.push_back(data.back()->Part());
      device_->Submit(0, &batch);
    }
    for (size_t i = 0; i < batches.size(); ++i) {
      batches[i]->done.WaitForNotification();
      ASSERT_TRUE(batches[i]->batch.status.ok()) << batches[i]->batch.status;
      data[i]->ExpectDone(batches[i]->batch.parts[0]);
    }
    EXPECT_LE(log_.peak(), std::max<size_t>(before, together));
    EXPECT_EQ(gpu_->counters().launches, 40u);
  }
}

TEST_F(GpuDeviceTest, ABatchThatDeclaresMoreThanTheBudgetIsTooLarge) {
  GpuEngineOptions engine;
  engine.memory_bytes = 1 << 20;
  Make({}, "", engine);
  DoublePart data(10);
  Batch batch;
  batch.kernel = FakeKernel("double_it");
  batch.memory_bytes = (1 << 20) + 1;
  batch.parts.push_back(data.Part());
  EXPECT_EQ(ReasonOf(Run(&batch)), reason::kGpuOom);
  EXPECT_TRUE(batch.too_large);
  EXPECT_EQ(batch.need_bytes, (1u << 20) + 1);
  EXPECT_EQ(batch.budget_bytes, 1u << 20);
}

TEST_F(GpuDeviceTest, TheOperandUsedLongestAgoMakesRoom) {
  EmulatedOptions emulated;
  emulated.memory_bytes = 200'000;
  GpuEngineOptions engine;
  // Room for the outputs of a batch, 20,000 bytes and rounded up, and five operands as large.
  engine.memory_bytes = 6 * 20'224;
  engine.extent_bytes = engine.memory_bytes;
  engine.resident_bytes_min = 1000;
  Make(emulated, "", engine);
  const auto run = [&](uint64_t content) {
    DoublePart data(5000, nullptr, content);
    Batch batch;
    batch.kernel = FakeKernel("loose");
    batch.parts.push_back(data.Part());
    ASSERT_TRUE(Run(&batch).ok());
    EXPECT_EQ(data.y[4998], 4998);
  };
  for (uint64_t content : {1, 2, 3, 4, 5, 1}) run(content);
  EXPECT_EQ(device_->counters().resident_uploads, 5u);
  run(6);  // 2 goes
  EXPECT_EQ(device_->counters().evictions, 1u);
  for (uint64_t content : {1, 3, 4, 5, 6}) run(content);
  EXPECT_EQ(device_->counters().resident_uploads, 6u);
  run(2);
  EXPECT_EQ(device_->counters().resident_uploads, 7u);
}

TEST_F(GpuDeviceTest, SubmitDoesNotWaitForAGridThatHangs) {
  EmulatedOptions emulated;
  emulated.memory_bytes = 1 << 20;
  emulated.clock = EmulatedClock::kVirtual;
  emulated.faults = Must(FaultScript::Parse("hang@1"));
  // Driven by hand, since a device waits for its batches in the end.
  EmulatedGpu gpu(emulated);
  std::deque<std::function<void()>> inbox;
  SoloCrew crew(0);
  GpuEngine engine(
      &gpu, {}, &log_, [&](std::function<void()> f) { inbox.push_back(std::move(f)); },
      [&](const std::function<void(Crew&)>& f) { f(crew); });
  ASSERT_TRUE(engine.Start().ok());
  DoublePart data(100);
  Batch batch;
  bool done = false;
  batch.kernel = FakeKernel("double_it");
  batch.parts.push_back(data.Part());
  batch.done = [&](Batch*) { done = true; };
  engine.Submit(&batch);
  gpu.AdvanceTo(absl::ToDoubleSeconds(absl::Hours(1)));
  for (; !inbox.empty(); inbox.pop_front()) inbox.front()();
  EXPECT_FALSE(done);
  // The log says what hangs, for whoever ends the process.
  ASSERT_EQ(log_.running().size(), 1u);
  EXPECT_EQ(log_.running()[0].leaves, 7u);
}

}  // namespace
}  // namespace tandem::worker
