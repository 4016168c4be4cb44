// An executor on a device with a memory of its own: merging, what does not fit, what stays; and
// pieces that give leaves back.
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/fake_kernels.h"
#include "tests/worker/executor/harness.h"

namespace tandem::worker::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

HarnessOptions OnEmulated(uint64_t memory_bytes = 8 << 20) {
  HarnessOptions options;
  options.emulated.emplace();
  options.emulated->memory_bytes = memory_bytes;
  options.engine.extent_bytes = 1 << 20;
  return options;
}

JobSpec DoubleSpec(Harness* h, const std::vector<float>& x, uint64_t grain) {
  JobSpec spec;
  spec.kernel = "double_it";
  spec.grain = grain;
  Locator locator = InlineLocator{BytesOf(x)};
  if (x.size() > 10'000) locator = h->source()->AddBlob(BytesOf(x));
  spec.operands["x"] = Dense(DType::kF32, {static_cast<int64_t>(x.size())}, locator);
  return spec;
}

std::vector<float> Count(size_t n) {
  std::vector<float> x(n);
  for (size_t i = 0; i < n; ++i) x[i] = static_cast<float>(i);
  return x;
}

// Jobs of one task each with a scalar of its own, all queued at once; launches that they took.
uint64_t LaunchesOf(uint64_t jobs, size_t merge_pieces_max) {
  HarnessOptions options = OnEmulated();
  options.limits = ExecutorLimits::For(DeviceProperties{.slots = 8192, .own_memory = true});
  options.limits->merge_pieces_max = std::min(options.limits->merge_pieces_max, merge_pieces_max);
  Harness h(options);
  executor::v1::ToExecutor message;
  for (uint64_t job = 1; job <= jobs; ++job) {
    JobSpec spec;
    spec.kernel = "tally";
    spec.axis_extents["n"] = 1;
    spec.scalars["step"] = Scalar::I64(static_cast<int64_t>(job % 1000));
    *message.add_setups() = h.MakeSetup(job, spec);
    h.AddPiece(job, {0, 1}, &message);
  }
  h.Send(std::move(message));
  h.Until([&] { return h.done().size() == jobs; });
  executor::v1::ToExecutor flush;
  for (uint64_t job = 1; job <= jobs; ++job) flush.add_flush_jobs(job);
  h.Send(std::move(flush));
  h.Until([&] { return h.partials().size() == jobs; });
  for (const executor::v1::PartialDone& partial : h.partials()) {
    EXPECT_EQ(partial.tasks(), 1u);
    if (partial.outputs_size() == 0) continue;
    EXPECT_EQ(ValuesOf<uint64_t>(h.OutputBytes(partial.outputs(0)))[0], partial.job() % 1000);
  }
  const EmulatedCounters counters = h.emulated()->counters();
  EXPECT_EQ(counters.copies_up, counters.launches);
  EXPECT_EQ(counters.copies_down, counters.launches);
  EXPECT_EQ(h.counter("batches"), counters.launches);
  return counters.launches;
}

TEST(ExecutorOnDeviceTest, TenThousandLeasesOfAsManyJobsAreAFewGrids) {
  EXPECT_EQ(LaunchesOf(500, 1), 500u);
  const uint64_t launches = LaunchesOf(10'000, ~size_t{0});
  std::printf("10,000 jobs of a task: %llu launches\n", static_cast<unsigned long long>(launches));
  EXPECT_LE(launches, 200u);  // 50 times fewer
}

// Pieces of 1000 tasks, of 5 ns of a core and so of 250 ns of a device as it is guessed to be.
uint64_t BatchesOfEightPieces(double merge_ns) {
  HarnessOptions options = OnEmulated();
  options.limits = ExecutorLimits::For(DeviceProperties{.slots = 8192, .own_memory = true});
  options.limits->merge_ns = merge_ns;
  Harness h(options);
  const std::vector<float> x = Count(8000);
  h.SetUp(1, DoubleSpec(&h, x, 1000));
  std::vector<LeafRange> pieces;
  for (uint64_t leaf = 0; leaf < 8; ++leaf) pieces.push_back({leaf, leaf + 1});
  const std::vector<float> y = ValuesOf<float>(h.RunAll(1, pieces));
  for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(y[i], 2 * x[i]);
  return h.counter("batches");
}

TEST(ExecutorOnDeviceTest, APieceThatKeepsTheDeviceBusyIsABatchOfItsOwn) {
  // Were they joined, all would end together, and nothing would run while more is asked for.
  EXPECT_EQ(BatchesOfEightPieces(300), 8u);
  EXPECT_EQ(BatchesOfEightPieces(600), 4u);
  EXPECT_LT(BatchesOfEightPieces(1e9), 4u);
}

// A device whose times are those of a model.
HarnessOptions OnPaced(double cores, double launch_seconds) {
  HarnessOptions options = OnEmulated();
  options.emulated->clock = EmulatedClock::kPaced;
  options.emulated->speed.cores = cores;
  options.emulated->speed.launch_seconds = launch_seconds;
  return options;
}

// So many jobs of one leaf, queued at once, on a device that has shown what one of them takes.
uint64_t GridsOfJobs(const HarnessOptions& options, uint64_t jobs, size_t tasks) {
  Harness h(options);
  uint64_t last = 0;
  const auto run = [&](uint64_t n) {
    executor::v1::ToExecutor message;
    for (uint64_t i = 0; i < n; ++i) {
      *message.add_setups() = h.MakeSetup(++last, DoubleSpec(&h, Count(tasks), tasks));
      h.AddPiece(last, {0, 1}, &message);
    }
    h.Send(std::move(message));
    h.Until([&] { return h.done().size() == last; });
  };
  run(1);  // A first launch teaches nothing.
  run(1);
  const uint64_t before = h.emulated()->counters().launches;
  run(jobs);
  return h.emulated()->counters().launches - before;
}

TEST(ExecutorOnDeviceTest, WhatAGridItselfTakesKeepsNoTasksApart) {
  // Each of them by itself would be 20 ms.
  EXPECT_EQ(GridsOfJobs(OnPaced(4, 20e-3), 60, 1), 1u);
}

TEST(ExecutorOnDeviceTest, WhatTasksTakeOnASlowDeviceDoes) {
  // 50 us of a core: 2.5 ms of this device.
  EXPECT_EQ(GridsOfJobs(OnPaced(0.02, 5e-6), 4, 10'000), 4u);
}

TEST(ExecutorOnDeviceTest, WhatDoesNotFitTogetherRunsInHalves) {
  HarnessOptions options = OnEmulated(100'000);
  options.engine.memory_bytes = 100'000;
  Harness h(options);
  // 8 pieces of 40 KB in, 40 KB out; merged they have no room.
  const std::vector<float> x = Count(80'000 / sizeof(float));
  const BoundJob job = h.SetUp(1, DoubleSpec(&h, x, 1000));
  std::vector<LeafRange> pieces;
  for (uint64_t leaf = 0; leaf < job.tree.leaf_count(); ++leaf) pieces.push_back({leaf, leaf + 1});
  const std::vector<float> y = ValuesOf<float>(h.RunAll(1, pieces));
  ASSERT_EQ(y.size(), x.size());
  for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(y[i], 2 * x[i]);
  EXPECT_GT(h.counter("halved_batches"), 0u);
  EXPECT_THAT(h.errors(), IsEmpty());
}

TEST(ExecutorOnDeviceTest, APieceThatDoesNotFitGivesItsFarHalfBack) {
  HarnessOptions options = OnEmulated(100'000);
  options.engine.memory_bytes = 100'000;
  Harness h(options);
  const std::vector<float> x = Count(40'000);  // 160 KB in, as much out
  h.SetUp(1, DoubleSpec(&h, x, 1000));
  const uint64_t piece = h.Run(1, {0, 40});
  // 32 and 16 leaves of 9,000 bytes each still do not fit.
  ASSERT_TRUE(h.shrunk().contains(piece));
  EXPECT_EQ(h.shrunk().at(piece), 8u);
  EXPECT_EQ(h.done().at(piece).tasks(), 8000u);
  const std::vector<float> y = ValuesOf<float>(h.OutputBytes(h.done().at(piece).outputs(0)));
  ASSERT_EQ(y.size(), 8000u);
  EXPECT_EQ(y[7999], 2 * x[7999]);
}

TEST(ExecutorOnDeviceTest, WhatAJobDeclaresIsSetApartForItsBatches) {
  HarnessOptions options = OnEmulated(1 << 20);
  options.engine.memory_bytes = 1 << 20;
  Harness h(options);
  JobSpec spec = DoubleSpec(&h, Count(1000), 1000);
  spec.resources.gpu_memory_bytes = 1 << 20;
  h.SetUp(1, spec);
  EXPECT_TRUE(h.done().contains(h.Run(1, {0, 1})));
  EXPECT_TRUE(h.done().contains(h.Run(1, {0, 1}))) << "and given back";
  spec.resources.gpu_memory_bytes = (1 << 20) + 1;
  h.SetUp(2, spec);
  h.Run(2, {0, 1});
  ASSERT_EQ(h.too_large().size(), 1u);
  EXPECT_EQ(h.too_large()[0].need_bytes(), (1u << 20) + 1);
  EXPECT_THAT(h.too_large()[0].reason(), HasSubstr("--gpu-memory"));
}

TEST(ExecutorOnDeviceTest, MemoryThatOthersHaveNowIsNoNeedAboveTheBudget) {
  HarnessOptions options = OnEmulated(100'000);
  options.engine.memory_bytes = 1 << 20;  // more than there is
  Harness h(options);
  h.SetUp(1, DoubleSpec(&h, Count(40'000), 40'000));
  h.Run(1, {0, 1});
  ASSERT_EQ(h.too_large().size(), 1u);
  EXPECT_LE(h.too_large()[0].need_bytes(), h.too_large()[0].budget_bytes());
}

TEST(ExecutorOnDeviceTest, ALeafThatDoesNotFitIsSaidToBeOutOfMemoryWithNeedAndBudget) {
  HarnessOptions options = OnEmulated(100'000);
  options.engine.memory_bytes = 100'000;
  Harness h(options);
  h.SetUp(1, DoubleSpec(&h, Count(40'000), 40'000));
  const uint64_t piece = h.Run(1, {0, 1});
  EXPECT_THAT(h.errors(), IsEmpty());
  ASSERT_EQ(h.too_large().size(), 1u);
  EXPECT_EQ(h.too_large()[0].piece(), piece);
  EXPECT_GE(h.too_large()[0].need_bytes(), 320'000u);
  EXPECT_EQ(h.too_large()[0].budget_bytes(), 100'000u);
  EXPECT_THAT(h.too_large()[0].reason(), StartsWith("GPU_OOM: "));
  EXPECT_THAT(h.too_large()[0].reason(), HasSubstr("the budget is 97.7KiB"));
  EXPECT_TRUE(h.executor()->health().ok());
  // The accumulator of a reduction that had no room is as if it had never been asked.
  JobSpec tally;
  tally.kernel = "tally";
  tally.axis_extents["n"] = 10;
  h.SetUp(2, tally);
  h.Run(2, {0, 1});
  EXPECT_EQ(h.done().size(), 1u);
}

TEST(ExecutorOnDeviceTest, ABroadcastOperandGoesUpOnce) {
  HarnessOptions options = OnEmulated();
  options.engine.resident_bytes_min = 1000;
  Harness h(options);
  JobSpec spec;
  spec.kernel = "scaled";
  spec.grain = 10;
  spec.operands["x"] = Dense(DType::kF32, {400}, InlineLocator{BytesOf(Count(400))});
  spec.operands["table"] = Dense(DType::kF32, {5000}, InlineLocator{BytesOf(Count(5000))});
  const BoundJob job = h.SetUp(1, spec);
  uint64_t up = 0;
  for (uint64_t leaf = 0; leaf < job.tree.leaf_count(); ++leaf) {
    const uint64_t piece = h.Run(1, {leaf, leaf + 1});
    up += h.done().at(piece).bytes_up();
  }
  // 20,000 bytes once, and with each piece its 40 bytes of x and its partial, in units of 256.
  EXPECT_EQ(up, 20'000u + 40u * 2 * 256);
  EXPECT_EQ(h.counter("bytes_up"), up);
  EXPECT_EQ(h.usage(1).bytes_up(), up);
  EXPECT_EQ(h.emulated()->counters().bytes_up, up);
}

TEST(ExecutorOnDeviceTest, AStickyErrorIsTheEndOfTheProcessAndNotAWordMore) {
  HarnessOptions options = OnEmulated();
  options.emulated->faults = *FaultScript::Parse("sticky@2");
  Harness h(options);
  h.SetUp(1, DoubleSpec(&h, Count(100), 10));
  h.Run(1, {0, 1});
  executor::v1::ToExecutor message;
  h.AddPiece(1, {1, 2}, &message);
  h.Send(std::move(message));
  h.Until([&] { return !h.executor()->health().ok(); });
  EXPECT_EQ(h.executor()->health().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(h.done().size(), 1u);
  EXPECT_THAT(h.errors(), IsEmpty());
}

class ShrinkTest : public ::testing::Test {
 protected:
  // A lane that is busy with something until it is told to go on.
  ShrinkTest() {
    tandem::testing::HangsReleased() = false;
    JobSpec hang;
    hang.kernel = "hang_at";
    hang.axis_extents["n"] = 1;
    hang.scalars["at"] = Scalar::I64(0);
    h_.SetUp(9, hang);
    executor::v1::ToExecutor message;
    for (int lane = 0; lane < 2; ++lane) {
      for (int i = 0; i < 2; ++i) {
        h_.AddPiece(9, {0, 1}, &message);
        message.mutable_runs(message.runs_size() - 1)->set_group(static_cast<uint32_t>(lane));
        message.mutable_runs(message.runs_size() - 1)->set_suspect(true);
      }
    }
    h_.Send(std::move(message));
  }
  ~ShrinkTest() override { tandem::testing::HangsReleased() = true; }
  void Shrink(uint64_t piece, uint64_t leaves) {
    executor::v1::ToExecutor message;
    executor::v1::ShrinkPiece* shrink = message.add_shrinks();
    shrink->set_piece(piece);
    shrink->set_leaves(leaves);
    h_.Send(std::move(message));
  }
  uint64_t Queue(uint64_t job, LeafRange leaves) {
    executor::v1::ToExecutor message;
    const uint64_t piece = h_.AddPiece(job, leaves, &message);
    h_.Send(std::move(message));
    return piece;
  }
  Harness h_;
};

TEST_F(ShrinkTest, ItSaysThatItShrinks) { EXPECT_TRUE(h_.ready().shrinks()); }

TEST_F(ShrinkTest, APieceThatHasNotStartedKeepsItsFirstLeaves) {
  const std::vector<float> x = Count(100);
  h_.SetUp(1, DoubleSpec(&h_, x, 10));
  const uint64_t piece = Queue(1, {2, 8});
  Shrink(piece, 2);
  EXPECT_EQ(h_.shrunk().at(piece), 2u);
  Shrink(piece, 5);  // it has no more
  EXPECT_EQ(h_.shrunk().at(piece), 2u);
  tandem::testing::HangsReleased() = true;
  h_.Until([&] { return h_.done().contains(piece); });
  EXPECT_EQ(h_.done().at(piece).tasks(), 20u);
  const std::vector<float> y = ValuesOf<float>(h_.OutputBytes(h_.done().at(piece).outputs(0)));
  ASSERT_EQ(y.size(), 20u);
  EXPECT_EQ(y.front(), 40);
  EXPECT_EQ(y.back(), 78);
}

TEST_F(ShrinkTest, OfNoneNothingMoreIsSaid) {
  h_.SetUp(1, DoubleSpec(&h_, Count(100), 10));
  const uint64_t piece = Queue(1, {2, 8});
  Shrink(piece, 0);
  EXPECT_EQ(h_.shrunk().at(piece), 0u);
  tandem::testing::HangsReleased() = true;
  const uint64_t next = h_.Run(1, {0, 1});
  EXPECT_TRUE(h_.done().contains(next));
  EXPECT_FALSE(h_.done().contains(piece));
  EXPECT_THAT(h_.returned(), IsEmpty());
}

TEST_F(ShrinkTest, OneThatWaitsForItsOperandsShrinksWhenItHasThem) {
  const std::vector<float> x = Count(3000);
  JobSpec spec = DoubleSpec(&h_, x, 100);
  spec.operands["x"] = Dense(DType::kF32, {3000}, h_.source()->AddBlob(BytesOf(x)));
  h_.SetUp(1, spec);
  executor::v1::ToExecutor message;
  const uint64_t some = h_.AddPiece(1, {0, 30}, &message);
  const uint64_t none = h_.AddPiece(1, {0, 30}, &message);
  for (const auto& [piece, leaves] : {std::pair(some, uint64_t{3}), {none, uint64_t{0}}}) {
    executor::v1::ShrinkPiece* shrink = message.add_shrinks();
    shrink->set_piece(piece);
    shrink->set_leaves(leaves);
  }
  h_.Send(std::move(message));
  EXPECT_EQ(h_.shrunk().at(some), 3u);
  EXPECT_EQ(h_.shrunk().at(none), 0u);
  tandem::testing::HangsReleased() = true;
  h_.Until([&] { return h_.done().contains(some); });
  EXPECT_EQ(h_.done().at(some).tasks(), 300u);
  EXPECT_FALSE(h_.done().contains(none));
}

TEST_F(ShrinkTest, OneThatIsGoneIsNotAnswered) {
  tandem::testing::HangsReleased() = true;
  h_.SetUp(1, DoubleSpec(&h_, Count(100), 10));
  const uint64_t piece = h_.Run(1, {0, 4});
  Shrink(piece, 2);
  EXPECT_FALSE(h_.shrunk().contains(piece));
}

// A piece whose task `at` waits until it is let go: what lies far behind it has not begun.
class CutTest : public ::testing::Test {
 protected:
  CutTest() : h_(Options()) { tandem::testing::HangsReleased() = false; }
  ~CutTest() override { tandem::testing::HangsReleased() = true; }
  static HarnessOptions Options() {
    HarnessOptions options;
    options.limits.emplace();
    options.limits->cut_ns = 0;
    return options;
  }
  // A piece of 1,000 leaves that has come to its task `at`, and what it keeps when it is cut.
  uint64_t RunAndCut(int64_t at, uint64_t keep) {
    JobSpec spec;
    spec.kernel = "hang_at";
    spec.axis_extents["n"] = 100'000;
    spec.scalars["at"] = Scalar::I64(at);
    spec.grain = 100;
    h_.SetUp(1, spec);
    executor::v1::ToExecutor message;
    piece_ = h_.AddPiece(1, {0, 1000}, &message);
    executor::v1::ShrinkPiece* shrink = message.add_shrinks();
    shrink->set_piece(piece_);
    shrink->set_leaves(1000);
    h_.Send(message);  // it runs now, or soon
    message.Clear();
    shrink = message.add_shrinks();
    shrink->set_piece(piece_);
    shrink->set_leaves(keep);
    h_.Send(std::move(message));
    return h_.shrunk().at(piece_);
  }
  Harness h_;
  uint64_t piece_ = 0;
};

TEST_F(CutTest, ARunningPieceEndsWhereItIsCut) {
  // The thread that does not wait may have come further (cpu_device_test.cc holds both).
  const uint64_t kept = RunAndCut(0, 700);
  EXPECT_GE(kept, 700u);
  tandem::testing::HangsReleased() = true;
  h_.Until([&] { return h_.done().contains(piece_); });
  EXPECT_EQ(h_.done().at(piece_).tasks(), kept * 100);
  EXPECT_EQ(h_.OutputBytes(h_.done().at(piece_).outputs(0)), std::string(kept * 100, '\1'));
}

TEST_F(CutTest, NeverBeforeWhatHasBegun) {
  // Nothing is known of it before it has begun or been cut: both are answers.
  const uint64_t kept = RunAndCut(0, 0);
  tandem::testing::HangsReleased() = true;
  if (kept == 0) {
    h_.Run(1, {0, 1});
    EXPECT_FALSE(h_.done().contains(piece_));
    return;
  }
  h_.Until([&] { return h_.done().contains(piece_); });
  EXPECT_EQ(h_.done().at(piece_).tasks(), kept * 100);
}

TEST_F(CutTest, ManyCutsAtAnyTimeLoseAndRepeatNothing) {
  tandem::testing::HangsReleased() = true;
  JobSpec tally;
  tally.kernel = "tally";
  tally.axis_extents["n"] = 200'000;
  tally.grain = 100;
  h_.SetUp(2, tally);
  uint64_t begin = 0;
  std::map<uint64_t, uint64_t> begun;  // piece to its first leaf
  while (begin < 2000) {
    executor::v1::ToExecutor message;
    const uint64_t piece = h_.AddPiece(2, {begin, 2000}, &message);
    h_.Send(message);
    executor::v1::ToExecutor cut;
    executor::v1::ShrinkPiece* shrink = cut.add_shrinks();
    shrink->set_piece(piece);
    shrink->set_leaves((2000 - begin) / 3);
    h_.Send(cut);
    // Cut, or done already.
    const uint64_t kept = h_.shrunk().contains(piece) ? h_.shrunk().at(piece) : 2000 - begin;
    begun[piece] = begin;
    begin += kept;
    if (kept > 0) h_.Until([&] { return h_.done().contains(piece); });
    if (h_.done().contains(piece)) {
      EXPECT_EQ(h_.done().at(piece).tasks(), kept * 100);
    }
  }
  executor::v1::ToExecutor flush;
  flush.add_flush_jobs(2);
  h_.Send(std::move(flush));
  h_.Until([&] { return !h_.partials().empty(); });
  EXPECT_EQ(h_.partials()[0].tasks(), 200'000u);
  EXPECT_THAT(ValuesOf<uint64_t>(h_.OutputBytes(h_.partials()[0].outputs(0))),
              ::testing::Each(50'000u));
}

}  // namespace
}  // namespace tandem::worker::testing
