#include "worker/device/cpu/cpu_device.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "common/base/rng.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/fake_kernels.h"

namespace tandem::worker {
namespace {

using ::tandem::testing::FakeKernel;
using ::testing::ElementsAre;

// Remembers every start, and that no slot is used by two at once.
class RecordingLog final : public StartLog {
 public:
  struct Start {
    uint64_t job, first_leaf, leaves, task;
  };
  void Begin(uint32_t slot, uint64_t job, uint64_t first_leaf, uint64_t leaves,
             uint64_t task) override {
    absl::MutexLock lock(&mu_);
    starts_.push_back({job, first_leaf, leaves, task});
    running_[slot] = std::this_thread::get_id();
  }
  void End(uint32_t slot) override {
    absl::MutexLock lock(&mu_);
    EXPECT_EQ(running_[slot], std::this_thread::get_id());
    running_.erase(slot);
  }
  std::vector<Start> starts() {
    absl::MutexLock lock(&mu_);
    EXPECT_TRUE(running_.empty());
    return starts_;
  }

 private:
  absl::Mutex mu_;
  std::vector<Start> starts_;
  std::map<uint32_t, std::thread::id> running_;
};

std::vector<CoreGroup> Groups(int groups, int threads) {
  const auto domains = ReadCacheDomains();
  std::vector<int> cpus;
  for (const CacheDomain& domain : *domains) cpus.insert(cpus.end(), domain.begin(), domain.end());
  return std::vector<CoreGroup>(static_cast<size_t>(groups), CoreGroup{cpus, threads});
}

class CpuDeviceTest : public ::testing::Test {
 protected:
  void Make(int groups, int threads) {
    device_ = std::make_unique<CpuDevice>(Groups(groups, threads), MachineInfo{"test", 1}, &log_);
  }
  void Run(Batch* batch, uint32_t lane = 0) {
    absl::Notification done;
    batch->done = [&done](Batch*) { done.Notify(); };
    device_->Submit(lane, batch);
    done.WaitForNotification();
  }
  absl::Status Collect(Accumulator* accumulator, void* into) {
    absl::Notification done;
    absl::Status result;
    device_->Collect(0, accumulator, into, [&](absl::Status status, int64_t) {
      result = std::move(status);
      done.Notify();
    });
    done.WaitForNotification();
    return result;
  }
  RecordingLog log_;
  std::unique_ptr<CpuDevice> device_;
};

struct DoubleArgs {
  const float* x;
  float* y;
};

TEST_F(CpuDeviceTest, EveryTaskOfEveryPartRunsOnce) {
  Make(1, 4);
  Rng rng(1);
  for (int round = 0; round < 50; ++round) {
    // Parts of several "jobs", each with buffers of its own, of very different sizes.
    const size_t parts = rng.Between(1, 40);
    std::vector<std::vector<float>> x(parts), y(parts);
    std::vector<std::vector<uint8_t>> fault(parts);
    std::vector<DoubleArgs> args(parts);
    Batch batch;
    batch.kernel = FakeKernel("double_it");
    batch.expected_ns = rng.Chance(0.5) ? 0 : 1e6;
    for (size_t i = 0; i < parts; ++i) {
      const size_t tasks = rng.Chance(0.2) ? 0 : rng.Between(1, 3000);
      x[i].resize(tasks);
      y[i].assign(tasks, -1);
      fault[i].assign(tasks, 0);
      for (size_t j = 0; j < tasks; ++j) x[i][j] = static_cast<float>(rng.Below(1000)) - 10;
      args[i] = {x[i].data(), y[i].data()};
      BatchPart part;
      part.args = &args[i];
      part.first = {static_cast<int64_t>(rng.Below(100)), 0};
      part.tasks = static_cast<int64_t>(tasks);
      part.fault = fault[i].data();
      part.job = i + 1;
      part.grain = 16;
      batch.parts.push_back(part);
    }
    Run(&batch);
    ASSERT_TRUE(batch.status.ok()) << batch.status;
    for (size_t i = 0; i < parts; ++i) {
      int64_t negative = 0;
      for (size_t j = 0; j < x[i].size(); ++j) {
        ASSERT_EQ(y[i][j], 2 * x[i][j]);
        ASSERT_EQ(fault[i][j], x[i][j] < 0 ? 1 : 0);
        negative += x[i][j] < 0;
      }
      EXPECT_EQ(batch.parts[i].failed, negative);
    }
  }
}

TEST_F(CpuDeviceTest, TheLogNamesTheLeavesThatAThreadStarts) {
  Make(1, 3);
  std::vector<float> x(1000, 1), y(1000);
  std::vector<uint8_t> fault(1000);
  const DoubleArgs args = {x.data(), y.data()};
  Batch batch;
  batch.kernel = FakeKernel("double_it");
  BatchPart part;
  part.args = &args;
  part.first = {640, 0};
  part.tasks = 1000;
  part.fault = fault.data();
  part.job = 9;
  part.grain = 64;
  batch.parts.push_back(part);
  Run(&batch);
  std::set<uint64_t> leaves;
  for (const RecordingLog::Start& start : log_.starts()) {
    EXPECT_EQ(start.job, 9u);
    EXPECT_EQ(start.task, StartLog::kNoTask);
    for (uint64_t i = 0; i < start.leaves; ++i) leaves.insert(start.first_leaf + i);
  }
  // Tasks [640, 1640): leaves 10 to 25.
  EXPECT_EQ(leaves.size(), 16u);
  EXPECT_EQ(*leaves.begin(), 10u);
  EXPECT_EQ(*leaves.rbegin(), 25u);
}

TEST_F(CpuDeviceTest, SuspectTasksRunOneByOneAndSkippedOnesNotAtAll) {
  Make(1, 2);
  std::vector<float> x(10, 1), y(10, 0);
  std::vector<uint8_t> fault(10);
  const DoubleArgs args = {x.data(), y.data()};
  const uint64_t skip[] = {100, 104, 105, 109};
  Batch batch;
  batch.kernel = FakeKernel("double_it");
  BatchPart part;
  part.args = &args;
  part.first = {100, 0};
  part.tasks = 10;
  part.fault = fault.data();
  part.job = 3;
  part.grain = 5;
  part.suspect = true;
  part.skip = skip;
  batch.parts.push_back(part);
  Run(&batch);
  std::vector<uint64_t> tasks;
  for (const RecordingLog::Start& start : log_.starts()) {
    EXPECT_EQ(start.first_leaf, start.task / 5);
    EXPECT_EQ(start.leaves, 1u);
    tasks.push_back(start.task);
  }
  EXPECT_THAT(tasks, ElementsAre(101, 102, 103, 106, 107, 108));
  EXPECT_THAT(y, ElementsAre(0, 2, 2, 2, 0, 0, 2, 2, 2, 0));
}

TEST_F(CpuDeviceTest, BatchesOfOneLaneRunInOrderAndLanesSideBySide) {
  Make(2, 1);
  std::vector<float> x(1, 1), y(1);
  std::vector<uint8_t> fault(1);
  const DoubleArgs args = {x.data(), y.data()};
  absl::Mutex mu;
  std::vector<int> order;
  absl::Notification other_lane_ran, all_done;
  std::atomic<int> done = 0;
  std::vector<std::unique_ptr<Batch>> batches;
  for (int i = 0; i < 5; ++i) {
    auto batch = std::make_unique<Batch>();
    batch->kernel = FakeKernel("double_it");
    BatchPart part;
    part.args = &args;
    part.tasks = 1;
    part.fault = fault.data();
    batch->parts.push_back(part);
    batch->before = [&, i](HostCrew&) {
      // The first batch of lane 0 ends only when lane 1 has run: so they overlap.
      if (i == 0) other_lane_ran.WaitForNotification();
      {
        absl::MutexLock lock(&mu);
        order.push_back(i);
      }
      if (i == 4) other_lane_ran.Notify();
    };
    batch->done = [&](Batch*) {
      if (++done == 5) all_done.Notify();
    };
    device_->Submit(i == 4 ? 1 : 0, batch.get());
    batches.push_back(std::move(batch));
  }
  all_done.WaitForNotification();
  absl::MutexLock lock(&mu);
  EXPECT_THAT(order, ElementsAre(4, 0, 1, 2, 3));
}

TEST_F(CpuDeviceTest, ABatchWhoseGateWasTakenIsDoneUntouched) {
  Make(1, 1);
  const std::vector<float> x(4, 1);
  for (const bool withdrawn : {true, false}) {
    std::vector<float> y(4, 0);
    std::vector<uint8_t> fault(4);
    DoubleArgs args{x.data(), y.data()};
    BatchGate gate;
    if (withdrawn) {
      EXPECT_TRUE(gate.Take());
    }
    Batch batch;
    batch.kernel = FakeKernel("double_it");
    batch.gate = &gate;
    batch.parts.emplace_back();
    batch.parts[0].args = &args;
    batch.parts[0].tasks = 4;
    batch.parts[0].fault = fault.data();
    Run(&batch);
    EXPECT_EQ(absl::IsCancelled(batch.status), withdrawn);
    EXPECT_THAT(y, ::testing::Each(withdrawn ? 0 : 2));
    EXPECT_EQ(log_.starts().empty(), withdrawn);
    EXPECT_FALSE(gate.Take()) << "what has begun cannot be taken back";
  }
}

TEST_F(CpuDeviceTest, AShortBatchRunsOnTheCallersThreadAndALongOneOnTheGroups) {
  Make(1, 1);
  std::vector<float> x(1, 1), y(1);
  std::vector<uint8_t> fault(1);
  const DoubleArgs args = {x.data(), y.data()};
  for (const bool is_short : {true, false}) {
    Batch batch;
    batch.kernel = FakeKernel("double_it");
    batch.expected_ns = is_short ? 1000 : 1e9;
    batch.may_run_here = true;
    BatchPart part;
    part.args = &args;
    part.tasks = 1;
    part.fault = fault.data();
    batch.parts.push_back(part);
    std::thread::id ran_on;
    batch.before = [&](HostCrew&) { ran_on = std::this_thread::get_id(); };
    Run(&batch);
    EXPECT_EQ(ran_on == std::this_thread::get_id(), is_short);
  }
}

TEST_F(CpuDeviceTest, ThreadsAreBoundToTheirGroup) {
  const auto domains = ReadCacheDomains();
  const int cpu = domains->front().front();
  device_ = std::make_unique<CpuDevice>(std::vector<CoreGroup>{{{cpu}, 1}}, MachineInfo{}, &log_);
  HostWork work;
  cpu_set_t mask;
  absl::Notification done;
  work.run = [&](HostCrew&) { ASSERT_EQ(sched_getaffinity(0, sizeof(mask), &mask), 0); };
  work.done = [&](HostWork*) { done.Notify(); };
  device_->SubmitWork(0, &work);
  done.WaitForNotification();
  EXPECT_EQ(CPU_COUNT(&mask), 1);
  EXPECT_TRUE(CPU_ISSET(static_cast<size_t>(cpu), &mask));
}

struct alignas(64) Tally {
  uint64_t count[4];
  alignas(64) uint64_t seen;
};

TEST_F(CpuDeviceTest, AnAccumulatorCountsEveryTaskOfEveryBatchOnce) {
  Make(2, 3);
  const int32_t step = 3;
  const std::unique_ptr<Accumulator> accumulator =
      device_->NewAccumulator(FakeKernel("tally"), &step);
  uint64_t expected[4] = {};
  uint64_t seen = 0;
  Rng rng(5);
  for (int round = 0; round < 30; ++round) {
    Batch batch;
    batch.kernel = FakeKernel("tally");
    batch.expected_ns = rng.Chance(0.3) ? 100 : 0;
    batch.may_run_here = true;
    BatchPart part;
    part.args = &step;
    part.first = {static_cast<int64_t>(rng.Below(1000)), 0};
    part.tasks = static_cast<int64_t>(rng.Between(1, 5000));
    part.accumulator = accumulator.get();
    batch.parts.push_back(part);
    Run(&batch, static_cast<uint32_t>(round % 2));
    ASSERT_TRUE(batch.status.ok());
    for (int64_t i = 0; i < part.tasks; ++i) expected[(part.first.id + i) % 4] += 3;
    seen += static_cast<uint64_t>(part.tasks);
  }
  Tally tally;
  ASSERT_TRUE(Collect(accumulator.get(), &tally).ok());
  for (int i = 0; i < 4; ++i) EXPECT_EQ(tally.count[i], expected[i]);
  EXPECT_EQ(tally.seen, seen);
}

TEST_F(CpuDeviceTest, AnAccumulatorOfNothingIsTheIdentity) {
  Make(1, 1);
  const int32_t step = 1;
  const std::unique_ptr<Accumulator> accumulator =
      device_->NewAccumulator(FakeKernel("tally"), &step);
  Tally tally;
  std::memset(&tally, 0xff, sizeof(tally));
  ASSERT_TRUE(Collect(accumulator.get(), &tally).ok());
  EXPECT_THAT(tally.count, ElementsAre(0, 0, 0, 0));
  EXPECT_EQ(tally.seen, 0u);
}

// The value of a run of leaves, by the definition: a leaf's sum in order, then halves of the
// smallest power of two that covers the run.
float FoldOracle(const std::vector<float>& x, size_t first_leaf, size_t leaves, size_t grain) {
  if (leaves == 1) {
    float sum = 0;
    for (size_t i = first_leaf * grain; i < std::min(x.size(), (first_leaf + 1) * grain); ++i) {
      sum += x[i];
    }
    return sum;
  }
  size_t half = 1;
  while (2 * half < leaves) half *= 2;
  return FoldOracle(x, first_leaf, half, grain) +
         FoldOracle(x, first_leaf + half, leaves - half, grain);
}

TEST_F(CpuDeviceTest, FloatSumsAreFoldedUpTheTreeWhateverTheThreadsAndTheCost) {
  Rng rng(7);
  for (const int threads : {1, 4}) {
    Make(1, threads);
    for (int round = 0; round < 60; ++round) {
      const size_t grain = rng.Between(1, 40);
      std::vector<float> x(rng.Between(1, 2000));
      for (float& value : x) value = static_cast<float>(rng.NextDouble() * 1e6 - 5e5);
      const float* args = x.data();
      alignas(64) float total = 0;
      Batch batch;
      batch.kernel = FakeKernel("float_sum");
      const double costs[] = {0, 1000, 1e5, 1e9};
      batch.expected_ns = costs[rng.Below(4)];
      BatchPart part;
      part.args = &args;
      part.tasks = static_cast<int64_t>(x.size());
      part.partial = &total;
      part.grain = grain;
      part.suspect = rng.Chance(0.2);
      batch.parts.push_back(part);
      Run(&batch);
      ASSERT_TRUE(batch.status.ok());
      const float expected = FoldOracle(x, 0, (x.size() + grain - 1) / grain, grain);
      EXPECT_EQ(std::memcmp(&total, &expected, sizeof(total)), 0) << total << " " << expected;
    }
  }
}

std::string* AsString(void* context) { return static_cast<std::string*>(context); }

TEST_F(CpuDeviceTest, HostStagesRunAroundTheCellsAndFailItemByItem) {
  Make(1, 3);
  std::vector<std::string> texts = {"abc", "", "Zebra!", "x"};
  for (int i = 0; i < 200; ++i) texts.push_back(std::string(static_cast<size_t>(i) * 7, 'q'));
  std::vector<std::string> loud(texts.size());
  std::vector<TandemBytes> in;
  std::vector<TandemSink> out;
  for (size_t i = 0; i < texts.size(); ++i) {
    in.push_back(
        {reinterpret_cast<const uint8_t*>(texts[i].data()), static_cast<int64_t>(texts[i].size())});
    out.push_back({[](void* context, const void* bytes, int64_t size) {
                     AsString(context)->append(static_cast<const char*>(bytes),
                                               static_cast<size_t>(size));
                     return 0;
                   },
                   &loud[i]});
  }
  const struct {
    const TandemBytes* text;
    const TandemSink* loud;
  } args = {in.data(), out.data()};
  std::vector<uint8_t> fault(texts.size());
  Batch batch;
  batch.kernel = FakeKernel("shout");
  BatchPart part;
  part.args = &args;
  part.tasks = static_cast<int64_t>(texts.size());
  part.fault = fault.data();
  batch.parts.push_back(part);
  Run(&batch);
  EXPECT_EQ(batch.parts[0].failed, 2);  // "" and the generated one of length 0
  for (size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(fault[i], texts[i].empty() ? 1 : 0);
    std::string expected = texts[i];
    for (char& c : expected) c = static_cast<char>(std::toupper(c));
    EXPECT_EQ(loud[i], expected);
  }
}

TEST_F(CpuDeviceTest, MergingManySmallJobsIsOneBatch) {
  Make(1, 2);
  // A thousand jobs of one task each, each with another scalar.
  std::vector<int32_t> steps(1000);
  std::iota(steps.begin(), steps.end(), 1);
  std::vector<std::unique_ptr<Accumulator>> accumulators;
  Batch batch;
  batch.kernel = FakeKernel("tally");
  batch.expected_ns = 5000;
  for (const int32_t& step : steps) {
    accumulators.push_back(device_->NewAccumulator(batch.kernel, &step));
    BatchPart part;
    part.args = &step;
    part.tasks = 1;
    part.accumulator = accumulators.back().get();
    part.job = static_cast<uint64_t>(step);
    batch.parts.push_back(part);
  }
  Run(&batch);
  for (size_t i = 0; i < steps.size(); ++i) {
    Tally tally;
    ASSERT_TRUE(Collect(accumulators[i].get(), &tally).ok());
    EXPECT_EQ(tally.count[0], static_cast<uint64_t>(steps[i]));
  }
}

// Every call waits; then each task counts itself.
std::atomic<bool> let_go = false;
std::atomic<int> waiting = 0;
int64_t WaitAndCount(const TandemPart* parts, int32_t, void*) {
  ++waiting;
  while (!let_go) std::this_thread::yield();
  auto* ran = static_cast<const DoubleArgs*>(parts[0].args)->y;
  for (int64_t i = 0; i < parts[0].tasks; ++i) ran[parts[0].first.row + i] += 1;
  return 0;
}

TEST_F(CpuDeviceTest, APartIsCutBehindTheLeavesThatHaveBegun) {
  Make(1, 2);
  TandemKernelV1 kernel = *FakeKernel("double_it");
  kernel.range = &WaitAndCount;
  for (const uint32_t asked : {7u, 0u, 500u}) {
    let_go = false;
    waiting = 0;
    std::vector<float> ran(1000, 0);
    const DoubleArgs args = {nullptr, ran.data()};
    LeafCursor cursor(100);
    Batch batch;
    batch.kernel = &kernel;
    BatchPart part;
    part.args = &args;
    part.tasks = 1000;
    part.grain = 10;
    part.cursor = &cursor;
    batch.parts.push_back(part);
    absl::Notification done;
    batch.done = [&done](Batch*) { done.Notify(); };
    device_->Submit(0, &batch);
    while (waiting == 0) std::this_thread::yield();
    // One leaf has begun, or two.
    const uint32_t end = cursor.Cut(asked);
    if (asked == 0) {
      EXPECT_TRUE(end == 1 || end == 2) << end;
    } else {
      EXPECT_EQ(end, std::min(asked, 100u));
    }
    let_go = true;
    done.WaitForNotification();
    for (size_t task = 0; task < ran.size(); ++task) {
      ASSERT_EQ(ran[task], task < end * 10 ? 1 : 0) << task;
    }
  }
}

}  // namespace
}  // namespace tandem::worker
