// What an executor says to what it is told: merging, failures, suspects, bad setups, cancel.
#include "worker/executor/executor.h"

#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/rng.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/fake_kernels.h"
#include "tests/worker/executor/harness.h"

namespace tandem::worker::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

JobSpec DoubleSpec(std::vector<float> x, uint64_t grain = 1) {
  JobSpec spec;
  spec.kernel = "double_it";
  spec.grain = grain;
  spec.operands["x"] =
      Dense(DType::kF32, {static_cast<int64_t>(x.size())}, InlineLocator{BytesOf(x)});
  return spec;
}

TEST(ExecutorTest, ItSaysItsKernelsAndItsDeviceFirst) {
  Harness h;
  EXPECT_EQ(static_cast<uint32_t>(h.ready().kernels_size()),
            tandem::testing::FakeKernels()->kernel_count);
  EXPECT_EQ(h.ready().device().groups(), 2u);
  EXPECT_EQ(h.ready().device().cores(), 4u);
  EXPECT_EQ(h.ready().device().kind(), tandem::v1::DEVICE_CPU);
}

// What a leaf's calls make of x, where a call has a whole leaf.
std::vector<float> LooseByLeaf(const std::vector<float>& x, uint64_t grain) {
  std::vector<float> y(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const bool last = i + 1 == x.size() || (i + 1) % grain == 0;
    y[i] = 2 * x[i] + (last ? 0.5f : 0);
  }
  return y;
}

TEST(ExecutorTest, APinnedJobIsRunByTheBaselineLeafByLeafWhateverTheCut) {
  Harness h;
  Rng rng(5);
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    std::vector<float> x(rng.Between(1, 900));
    for (float& value : x) value = static_cast<float>(rng.Below(1000));
    JobSpec spec;
    spec.kernel = "loose";
    spec.reproducible = true;
    spec.grain = rng.Between(1, 30);
    spec.operands["x"] =
        Dense(DType::kF32, {static_cast<int64_t>(x.size())}, InlineLocator{BytesOf(x)});
    const BoundJob job = h.SetUp(seed, spec);
    EXPECT_EQ(ValuesOf<float>(h.RunAll(seed, RandomCut(job.tree.leaf_count(), seed))),
              LooseByLeaf(x, job.grain()));
    // A suspect's tasks run by themselves first.
    executor::v1::ToExecutor message;
    const uint64_t id = h.AddPiece(seed, {0, job.tree.leaf_count()}, &message);
    message.mutable_runs(0)->set_suspect(true);
    h.Send(std::move(message));
    h.Until([&] { return h.done().contains(id); });
    EXPECT_EQ(ValuesOf<float>(h.OutputBytes(h.done().at(id).outputs(0))),
              LooseByLeaf(x, job.grain()));
  }
}

TEST(ExecutorTest, PinnedJobsShareNoBatchWithOthers) {
  Harness h(false, 1 << 30, {.merge_ns = 1e15});
  executor::v1::ToExecutor message;
  std::vector<uint64_t> ids;
  for (uint64_t job = 1; job <= 20; ++job) {
    JobSpec spec;
    spec.kernel = "loose";
    spec.reproducible = job % 2 == 0;
    spec.grain = 4;
    spec.operands["x"] =
        Dense(DType::kF32, {4}, InlineLocator{BytesOf(std::vector<float>{1, 2, 3, 4})});
    h.SetUp(job, spec);
    ids.push_back(h.AddPiece(job, {0, 1}, &message));
  }
  h.Send(std::move(message));
  h.Until([&] { return h.done().size() == 20; });
  for (uint64_t job = 1; job <= 20; ++job) {
    const auto y = ValuesOf<float>(h.OutputBytes(h.done().at(ids[job - 1]).outputs(0)));
    if (job % 2 == 0) {
      EXPECT_THAT(y, ElementsAre(2, 4, 6, 8.5));
    } else {
      EXPECT_THAT(y, ElementsAre(1, 2, 3, 4.5));
    }
  }
}

TEST(KernelTableTest, AKernelWithoutABaselineRunsNoPinnedJob) {
  KernelTable table;
  ASSERT_TRUE(table.Add(tandem::testing::FakeKernels(), tandem::testing::FakeBaseline()).ok());
  const TandemKernelV1* loose = tandem::testing::FakeKernel("loose");
  ASSERT_TRUE(table.FindBaseline("loose", loose->content_hash).ok());
  EXPECT_NE(*table.FindBaseline("loose", loose->content_hash),
            *table.Find("loose", loose->content_hash));
  const uint64_t hash = tandem::testing::FakeKernel("double_it")->content_hash;
  const absl::Status refused = table.FindBaseline("double_it", hash).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("no build for x86-64-v2"));
  EXPECT_EQ(table.FindBaseline("nothing", 1).status().code(), absl::StatusCode::kNotFound);
}

TEST(KernelTableTest, OneOfCudaTakesKernelsByTheirGridsAlone) {
  TandemKernelV1 grid = *tandem::testing::FakeKernel("double_it");
  const TandemKernelV1* const kernels[] = {&grid};
  TandemLibraryV1 library = *tandem::testing::FakeKernels();
  library.kernels = kernels;
  library.kernel_count = 1;
  EXPECT_THAT(std::string(KernelTable(KernelForm::kCuda).Add(&library).message()),
              HasSubstr("lacks a function"));
  grid.range = nullptr;
  grid.launch = [](const TandemPart*, const void*, int32_t, int64_t, void*, void*) { return 0; };
  KernelTable table(KernelForm::kCuda);
  ASSERT_TRUE(table.Add(&library).ok());
  EXPECT_EQ(*table.Find("double_it", grid.content_hash), &grid);
  EXPECT_THAT(std::string(KernelTable().Add(&library).message()), HasSubstr("lacks a function"));
  // A library without a CUDA half has nothing for it; one that has no such file has no host's.
  EXPECT_TRUE(table.AddLibrary("/none/wave.so").ok());
  EXPECT_EQ(KernelTable().AddLibrary("/none/wave.so").code(), absl::StatusCode::kInvalidArgument);
}

TEST(ExecutorTest, PiecesOfManyJobsOfOneKernelGoInOneBatch) {
  // Whatever a busy machine makes of the costs: all of them may be gathered.
  Harness h(false, 1 << 30, {.merge_ns = 1e15});
  h.SetUp(1000, DoubleSpec({1}));
  h.Run(1000, {0, 1});
  const uint64_t batches = h.counter("batches");
  for (uint64_t job = 1; job <= 200; ++job) {
    h.SetUp(job, DoubleSpec({static_cast<float>(job), 0}, 2));
  }
  executor::v1::ToExecutor message;
  std::vector<uint64_t> ids;
  for (uint64_t job = 1; job <= 200; ++job) ids.push_back(h.AddPiece(job, {0, 1}, &message));
  h.Send(std::move(message));
  h.Until([&] { return h.done().size() == 201; });
  for (uint64_t job = 1; job <= 200; ++job) {
    EXPECT_THAT(ValuesOf<float>(h.OutputBytes(h.done().at(ids[job - 1]).outputs(0))),
                ElementsAre(2 * static_cast<float>(job), 0));
  }
  // One batch a group.
  EXPECT_EQ(h.counter("batches") - batches, 2u);
  EXPECT_EQ(h.counter("parts"), 201u);
  EXPECT_EQ(h.counter("merged_parts"), 200u);
}

TEST(ExecutorTest, WhatABatchTookIsDividedAmongItsPieces) {
  Harness h(false, 1 << 30, {.merge_ns = 1e15});
  constexpr uint64_t kPieces = 40;
  JobSpec spec;
  spec.kernel = "hang_at";
  spec.grain = 1;
  spec.axis_extents["n"] = kPieces + 1;
  spec.scalars["at"] = Scalar::I64(kPieces);
  h.SetUp(1, spec);
  h.Run(1, {0, 1});  // Cheap, so that the others are taken to be.
  executor::v1::ToExecutor message;
  for (uint64_t leaf = 1; leaf <= kPieces; ++leaf) {
    h.AddPiece(1, {leaf, leaf + 1}, &message);
    message.mutable_runs(static_cast<int>(leaf) - 1)->set_group(0);
  }
  const absl::Time start = absl::Now();
  // The loop may run the batch itself.
  std::thread releaser([start] {
    while (absl::Now() - start < absl::Milliseconds(20)) {
    }
    tandem::testing::HangsReleased() = true;
  });
  h.Send(std::move(message));
  h.Until([&] { return h.done().size() == kPieces + 1; });
  releaser.join();
  tandem::testing::HangsReleased() = false;
  absl::Duration busy;
  for (const auto& [id, done] : h.done()) {
    busy += absl::Nanoseconds(static_cast<int64_t>(done.busy_ns()));
  }
  EXPECT_GE(busy, absl::Milliseconds(5)) << "one of its two threads hung";
  EXPECT_LE(busy, absl::Now() - start + absl::Milliseconds(5)) << "one group, one thing at a time";
}

TEST(ExecutorTest, AFailedTaskIsReportedWithTheKernelsReasonAndItsNeighboursFinish) {
  Harness h;
  h.SetUp(1, DoubleSpec({1, -2, 3, -4, 5, 6}, 3));
  executor::v1::ToExecutor message;
  const uint64_t piece = h.AddPiece(1, {0, 2}, &message);
  message.mutable_runs(0)->set_attempt(4);
  h.Send(std::move(message));
  h.Until([&] { return h.done().contains(piece); });
  const executor::v1::PieceDone& done = h.done().at(piece);
  ASSERT_EQ(done.failures_size(), 2);
  EXPECT_EQ(done.failures(0).task(), 1u);
  EXPECT_EQ(done.failures(1).task(), 3u);
  EXPECT_EQ(done.failures(0).reason(), "x is negative");
  EXPECT_EQ(done.failures(0).attempt(), 4u);
  EXPECT_EQ(done.tasks(), 4u);
  const auto y = ValuesOf<float>(h.OutputBytes(done.outputs(0)));
  EXPECT_EQ(y[0], 2);
  EXPECT_EQ(y[5], 12);
}

TEST(ExecutorTest, TasksThatWereGivenUpAreNotRunAndFailWithCrashLimit) {
  Harness h;
  JobSpec spec;
  spec.kernel = "die_at";
  spec.axis_extents["n"] = 10;
  spec.scalars["at"] = Scalar::I64(7);
  spec.grain = 10;
  h.SetUp(1, spec);
  executor::v1::ToExecutor message;
  const uint64_t piece = h.AddPiece(1, {0, 1}, &message);
  message.mutable_runs(0)->set_suspect(true);
  for (const uint64_t task : {7, 2, 7}) message.mutable_runs(0)->add_skip_tasks(task);
  h.Send(std::move(message));
  h.Until([&] { return h.done().contains(piece); });
  const executor::v1::PieceDone& done = h.done().at(piece);
  ASSERT_EQ(done.failures_size(), 2);
  EXPECT_EQ(done.failures(0).task(), 2u);
  EXPECT_EQ(done.failures(1).task(), 7u);
  EXPECT_THAT(done.failures(0).reason(), StartsWith("CRASH_LIMIT"));
  EXPECT_EQ(done.tasks(), 8u);
  EXPECT_EQ(h.OutputBytes(done.outputs(0)),
            std::string("\1\1\0\1\1\1\1\0\1\1", 10));  // what was not run is zero
}

TEST(ExecutorTest, SmallOutputsComeInlineAndLargerOnesInStagingUntilReleased) {
  Harness h;
  h.SetUp(1, DoubleSpec(std::vector<float>(5000, 1), 128));
  const uint64_t small = h.Run(1, {0, 1});  // 512 bytes
  EXPECT_TRUE(h.done().at(small).outputs(0).has_inline_());
  const uint64_t large = h.Run(1, {0, 2});
  ASSERT_TRUE(h.done().at(large).outputs(0).has_region());
  const tandem::v1::Region& region = h.done().at(large).outputs(0).region();
  EXPECT_EQ(region.length(), 1024u);
  EXPECT_EQ(region.segment(), 0u);
  EXPECT_GE(h.staging()->used_bytes(), 1024u);
  executor::v1::ToExecutor message;
  message.add_releases()->set_offset(region.offset());
  message.mutable_releases(0)->set_length(region.length());
  message.add_releases()->set_offset(123456789);  // nobody's
  h.Send(std::move(message));
  EXPECT_EQ(h.staging()->used_bytes(), 0u);
}

TEST(ExecutorTest, ASetupThatCannotRunIsAnsweredAndItsPiecesComeBack) {
  Harness h;
  struct Case {
    std::function<void(executor::v1::JobSetup*)> spoil;
    const char* reason;
    bool fatal;
  };
  const Case cases[] = {
      {[](auto* s) {
         s->mutable_description()->mutable_kernel()->set_name("unheard_of");
         s->mutable_description()->mutable_spec()->set_kernel("unheard_of");
       },
       "UNKNOWN_KERNEL", false},
      {[](auto* s) {
         s->mutable_description()->mutable_kernel()->set_content_hash(5);
         s->mutable_description()->mutable_spec()->set_kernel_hash(5);
       },
       "KERNEL_CHANGED", false},
      {[](auto* s) { s->mutable_description()->mutable_spec()->clear_operands(); },
       "MISSING_OPERAND", true},
      {[](auto* s) { s->mutable_description()->mutable_kernel()->set_signature("x[n"); },
       "BAD_SIGNATURE", true},
      {[](auto* s) {
         auto* locator =
             s->mutable_description()->mutable_spec()->mutable_operands(0)->mutable_locator();
         locator->mutable_job_output()->set_job(3);
         locator->mutable_job_output()->set_output("y");
       },
       "NOT_YET_HONOURED", false},
  };
  uint64_t job = 0;
  for (const Case& bad : cases) {
    ++job;
    const size_t before = h.errors().size();
    executor::v1::ToExecutor message;
    *message.add_setups() = h.MakeSetup(job, DoubleSpec({1}));
    bad.spoil(message.mutable_setups(0));
    h.Send(std::move(message));
    ASSERT_EQ(h.errors().size(), before + 1) << bad.reason;
    EXPECT_THAT(h.errors().back().reason(), StartsWith(bad.reason));
    EXPECT_EQ(h.errors().back().fatal(), bad.fatal) << bad.reason;
    const uint64_t piece = h.Run(job, {0, 1});
    EXPECT_THAT(h.errors().back().pieces(), ElementsAre(piece));
  }
  // Another job still runs.
  h.SetUp(100, DoubleSpec({1}));
  EXPECT_EQ(h.RunAll(100, {{0, 1}}), BytesOf(std::vector<float>{2}));
}

TEST(ExecutorTest, PiecesThatAreNoPartOfTheirJobComeBack) {
  Harness h;
  h.SetUp(1, DoubleSpec({1, 2, 3}));
  executor::v1::ToExecutor message;
  for (const LeafRange& leaves : {LeafRange{3, 4}, LeafRange{0, 0}, LeafRange{1, ~uint64_t{0}}}) {
    h.AddPiece(1, leaves, &message);
  }
  message.mutable_runs(2)->set_leaf_count(~uint64_t{0});
  h.AddPiece(2, {0, 1}, &message);
  h.Send(std::move(message));
  size_t pieces = 0;
  for (const auto& error : h.errors()) {
    EXPECT_THAT(error.reason(), StartsWith("PROTOCOL_ERROR"));
    EXPECT_FALSE(error.fatal());
    pieces += static_cast<size_t>(error.pieces_size());
  }
  EXPECT_EQ(pieces, 4u);
}

TEST(ExecutorTest, APieceThatWaitsForItsOperandsCanBeTakenBack) {
  Harness h;
  const std::vector<float> x(10, 4);
  JobSpec spec = DoubleSpec({});
  spec.operands["x"] = Dense(DType::kF32, {10}, h.source()->AddBlob(BytesOf(x)));
  h.SetUp(1, spec);
  h.source()->FailNext(1 << 30);
  executor::v1::ToExecutor message;
  const uint64_t piece = h.AddPiece(1, {0, 1}, &message);
  h.Send(std::move(message));
  executor::v1::ToExecutor cancel;
  cancel.add_cancel_pieces(piece);
  cancel.add_cancel_pieces(piece);
  cancel.add_cancel_pieces(777);
  h.Send(std::move(cancel));
  EXPECT_THAT(h.returned(), ElementsAre(piece));
  h.source()->FailNext(0);
  EXPECT_THAT(h.done(), IsEmpty());
}

TEST(ExecutorTest, OperandsOfTheNextPieceAreFetchedWhileOneRuns) {
  Harness h;
  JobSpec busy;
  busy.kernel = "hang_at";
  busy.axis_extents["n"] = 1;
  busy.scalars["at"] = Scalar::I64(0);
  h.SetUp(1, busy);
  const std::vector<float> x(10, 4);
  JobSpec next = DoubleSpec({}, 10);
  next.operands["x"] = Dense(DType::kF32, {10}, h.source()->AddBlob(BytesOf(x)));
  h.SetUp(2, next);
  std::vector<uint64_t> pieces;
  for (const uint64_t job : {1, 2}) {  // Both for one core group.
    executor::v1::ToExecutor message;
    pieces.push_back(h.AddPiece(job, {0, 1}, &message));
    message.mutable_runs(0)->set_group(0);
    h.Send(std::move(message));
  }
  h.Until([&] { return h.source()->bytes_read() == x.size() * sizeof(float); });
  EXPECT_THAT(h.done(), IsEmpty());  // The first still runs.
  tandem::testing::HangsReleased() = true;
  h.Until([&] { return h.done().size() == 2; });
  tandem::testing::HangsReleased() = false;
  EXPECT_THAT(ValuesOf<float>(h.OutputBytes(h.done().at(pieces[1]).outputs(0))), Each(8));
}

// Behind a batch that runs for as long as the test says others wait on the device.
class WithdrawTest : public ::testing::Test {
 protected:
  WithdrawTest() {
    JobSpec busy;
    busy.kernel = "hang_at";
    busy.axis_extents["n"] = 1;
    busy.scalars["at"] = Scalar::I64(0);
    h_.SetUp(1, busy);
    h_.SetUp(2, DoubleSpec({1, 2, 3, 4}, 2));
    const int begun = tandem::testing::HangsBegun();
    running_ = Add({{1, {0, 1}}}).front();
    while (tandem::testing::HangsBegun() == begun) std::this_thread::yield();
  }
  ~WithdrawTest() override { tandem::testing::HangsReleased() = false; }

  // For one core group, at once: pieces of one job are joined, and handed to the device.
  std::vector<uint64_t> Add(const std::vector<std::pair<uint64_t, LeafRange>>& pieces) {
    executor::v1::ToExecutor message;
    std::vector<uint64_t> ids;
    for (const auto& [job, leaves] : pieces) {
      ids.push_back(h_.AddPiece(job, leaves, &message));
      message.mutable_runs(message.runs_size() - 1)->set_group(0);
    }
    h_.Send(std::move(message));
    return ids;
  }
  void Cancel(const std::vector<uint64_t>& pieces) {
    executor::v1::ToExecutor message;
    message.mutable_cancel_pieces()->Assign(pieces.begin(), pieces.end());
    h_.Send(std::move(message));
  }
  void FinishAll(size_t done) {
    tandem::testing::HangsReleased() = true;
    h_.Until([&] { return h_.done().size() == done; });
  }
  std::vector<float> Values(uint64_t piece) const {
    return ValuesOf<float>(h_.OutputBytes(h_.done().at(piece).outputs(0)));
  }

  // One thread, so that nothing runs beside it; and a batch waits on the device however short it
  // is.
  static HarnessOptions OneByOne() {
    HarnessOptions options;
    options.threads_a_group = 1;
    options.limits.emplace().queue_ns = 0;
    return options;
  }
  Harness h_{OneByOne()};
  uint64_t running_ = 0;
};

TEST_F(WithdrawTest, WhatWaitsOnTheDeviceComesBackAndWhatWasJoinedWithItRuns) {
  const std::vector<uint64_t> waiting = Add({{2, {0, 1}}, {2, {1, 2}}});
  Cancel({running_, waiting[0]});  // the first has begun
  EXPECT_THAT(h_.returned(), ElementsAre(waiting[0]));
  FinishAll(2);
  EXPECT_EQ(h_.counter("withdrawn_batches"), 1u);
  EXPECT_THAT(Values(waiting[1]), ElementsAre(6, 8));
  EXPECT_FALSE(h_.done().contains(waiting[0]));
  // It may be given again.
  const uint64_t again = Add({{2, {0, 1}}}).front();
  FinishAll(3);
  EXPECT_THAT(Values(again), ElementsAre(2, 4));
}

TEST_F(WithdrawTest, WhatWaitsOnTheDeviceCanBeCutShort) {
  const uint64_t both = Add({{2, {0, 2}}}).front();
  executor::v1::ToExecutor message;
  for (const uint64_t piece : {running_, both}) {
    executor::v1::ShrinkPiece* shrink = message.add_shrinks();
    shrink->set_piece(piece);
    shrink->set_leaves(piece == both ? 1 : 0);
  }
  h_.Send(std::move(message));
  EXPECT_EQ(h_.shrunk().at(running_), 1u);
  EXPECT_EQ(h_.shrunk().at(both), 1u);
  FinishAll(2);
  EXPECT_EQ(h_.counter("withdrawn_batches"), 1u);
  EXPECT_THAT(Values(both), ElementsAre(2, 4));
}

TEST_F(WithdrawTest, WhatNobodyWaitsForIsNotRunAgain) {
  const std::vector<uint64_t> waiting = Add({{2, {0, 1}}, {2, {1, 2}}});
  executor::v1::ToExecutor forget;
  forget.add_forget_jobs(2);
  h_.Send(std::move(forget));
  Cancel({waiting[0]});
  FinishAll(1);
  EXPECT_EQ(h_.counter("withdrawn_batches"), 1u);
  EXPECT_TRUE(h_.done().contains(running_));
}

TEST(ExecutorTest, ShutdownGivesBackWhatHasNotBegun) {
  Harness h;
  const std::vector<float> x(10, 4);
  JobSpec spec = DoubleSpec({});
  spec.operands["x"] = Dense(DType::kF32, {10}, h.source()->AddBlob(BytesOf(x)));
  h.SetUp(1, spec);
  h.source()->FailNext(1 << 30);
  executor::v1::ToExecutor message;
  const uint64_t piece = h.AddPiece(1, {0, 1}, &message);
  h.Send(std::move(message));
  executor::v1::ToExecutor shutdown;
  shutdown.set_shutdown(true);
  const uint64_t late = h.AddPiece(1, {1, 2}, &shutdown);
  shutdown.clear_runs();
  h.Send(std::move(shutdown));
  h.Until([&] { return h.executor()->finished(); });
  executor::v1::ToExecutor after;
  h.AddPiece(1, {1, 2}, &after);
  h.Send(std::move(after));
  EXPECT_THAT(h.returned(), ElementsAre(piece, late + 1));
}

TEST(ExecutorTest, AForgottenJobCanBeSetUpAnew) {
  Harness h;
  for (int round = 0; round < 3; ++round) {
    h.SetUp(1, DoubleSpec({static_cast<float>(round)}));
    EXPECT_EQ(h.RunAll(1, {{0, 1}}), BytesOf(std::vector<float>{2 * static_cast<float>(round)}));
    executor::v1::ToExecutor message;
    message.add_forget_jobs(1);
    h.Send(std::move(message));
  }
  h.Run(1, {0, 1});
  EXPECT_THAT(h.errors().back().reason(), HasSubstr("not set up"));
}

// Whatever bytes arrive, it answers or ignores them.
TEST(ExecutorTest, NoMessageStopsIt) {
  Harness h;
  Rng rng(99);
  const std::string setup = h.MakeSetup(1, DoubleSpec({1, 2, 3})).SerializeAsString();
  for (int round = 0; round < 3000; ++round) {
    std::string bytes = setup;
    for (uint64_t i = rng.Between(1, 8); i > 0; --i) {
      bytes[rng.Below(bytes.size())] = static_cast<char>(rng.Below(256));
    }
    executor::v1::JobSetup spoiled;
    if (!spoiled.ParseFromString(bytes)) continue;
    spoiled.mutable_description()->set_job(static_cast<uint64_t>(round % 7));
    executor::v1::ToExecutor message;
    *message.add_setups() = spoiled;
    h.AddPiece(static_cast<uint64_t>(round % 7), {rng.Below(4), rng.Below(8)}, &message);
    message.add_flush_jobs(static_cast<uint64_t>(round % 7));
    if (rng.Chance(0.3)) message.add_forget_jobs(static_cast<uint64_t>(round % 7));
    h.Send(std::move(message));
  }
  h.SetUp(50, DoubleSpec({1}));
  EXPECT_EQ(h.RunAll(50, {{0, 1}}), BytesOf(std::vector<float>{2}));
}

}  // namespace
}  // namespace tandem::worker::testing
