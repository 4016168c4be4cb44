// Accumulators, folds and merges: every task counted once, the same bytes for every cut.
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/base/rng.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/executor/harness.h"

namespace tandem::worker::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAreArray;

JobSpec TallySpec(int64_t tasks, int64_t step, uint64_t grain = 10) {
  JobSpec spec;
  spec.kernel = "tally";
  spec.axis_extents["n"] = tasks;
  spec.scalars["step"] = Scalar::I64(step);
  spec.grain = grain;
  return spec;
}

std::vector<uint64_t> TallyOf(uint64_t begin, uint64_t end, uint64_t step) {
  std::vector<uint64_t> count(4, 0);
  for (uint64_t i = begin; i < end; ++i) count[i % 4] += step;
  return count;
}

class ReductionTest : public ::testing::Test {
 protected:
  void Flush(uint64_t job) {
    executor::v1::ToExecutor message;
    message.add_flush_jobs(job);
    h_.Send(std::move(message));
  }
  Harness h_;
};

TEST_F(ReductionTest, APartialHoldsExactlyThePiecesItNames) {
  const BoundJob job = h_.SetUp(1, TallySpec(1005, 3));
  const std::vector<LeafRange> cut = RandomCut(job.tree.leaf_count(), 5);
  executor::v1::ToExecutor message;
  std::vector<uint64_t> ids;
  for (const LeafRange& leaves : cut) ids.push_back(h_.AddPiece(1, leaves, &message));
  message.add_flush_jobs(1);  // while they run, or before they have begun
  h_.Send(std::move(message));
  h_.Until([&] { return h_.done().size() == ids.size(); });
  Flush(1);
  h_.Until([&] {
    size_t named = 0;
    for (const auto& partial : h_.partials()) named += static_cast<size_t>(partial.pieces_size());
    return named == ids.size();
  });
  std::vector<uint64_t> named;
  std::vector<uint64_t> total(4, 0);
  uint64_t seen = 0;
  uint64_t tasks = 0;
  for (const executor::v1::PartialDone& partial : h_.partials()) {
    named.insert(named.end(), partial.pieces().begin(), partial.pieces().end());
    tasks += partial.tasks();
    if (partial.pieces_size() == 0) {
      EXPECT_EQ(partial.outputs_size(), 0);
      continue;
    }
    ASSERT_EQ(partial.outputs_size(), 2);
    const auto count = ValuesOf<uint64_t>(h_.OutputBytes(partial.outputs(0)));
    for (size_t i = 0; i < 4; ++i) total[i] += count[i];
    seen += ValuesOf<uint64_t>(h_.OutputBytes(partial.outputs(1)))[0];
  }
  EXPECT_THAT(named, UnorderedElementsAreArray(ids));
  EXPECT_EQ(total, TallyOf(0, 1005, 3));
  EXPECT_EQ(seen, 1005u);
  EXPECT_EQ(tasks, 1005u);
  for (const uint64_t id : ids) EXPECT_TRUE(h_.done().at(id).accumulated());
}

TEST_F(ReductionTest, AFlushOfNothingIsAnsweredWithNothing) {
  h_.SetUp(1, TallySpec(10, 1));
  Flush(1);
  h_.Until([&] { return !h_.partials().empty(); });
  EXPECT_EQ(h_.partials()[0].job(), 1u);
  EXPECT_EQ(h_.partials()[0].pieces_size(), 0);
}

TEST_F(ReductionTest, WhatWasDiscardedIsInNoLaterPartial) {
  h_.SetUp(1, TallySpec(100, 1));
  h_.Run(1, {0, 4});
  executor::v1::ToExecutor message;
  message.add_discard_accumulators(1);
  h_.Send(std::move(message));
  const uint64_t piece = h_.Run(1, {4, 10});
  Flush(1);
  h_.Until([&] { return !h_.partials().empty(); });
  const executor::v1::PartialDone& partial = h_.partials()[0];
  EXPECT_THAT(partial.pieces(), ElementsAre(piece));
  EXPECT_EQ(ValuesOf<uint64_t>(h_.OutputBytes(partial.outputs(0))), TallyOf(40, 100, 1));
}

TEST_F(ReductionTest, JobsDoNotMixInTheirAccumulators) {
  for (uint64_t job = 1; job <= 20; ++job) {
    h_.SetUp(job, TallySpec(50, static_cast<int64_t>(job)));
  }
  executor::v1::ToExecutor message;
  for (uint64_t job = 1; job <= 20; ++job) h_.AddPiece(job, {0, 5}, &message);
  h_.Send(std::move(message));
  h_.Until([&] { return h_.done().size() == 20; });
  for (uint64_t job = 1; job <= 20; ++job) Flush(job);
  h_.Until([&] { return h_.partials().size() == 20; });
  for (const executor::v1::PartialDone& partial : h_.partials()) {
    EXPECT_EQ(ValuesOf<uint64_t>(h_.OutputBytes(partial.outputs(0))),
              TallyOf(0, 50, partial.job()));
  }
}

// A leaf's sum in order; a node is its left half plus its right half.
float FoldOracle(const RangeTree& tree, Node node, const std::vector<float>& x) {
  if (RangeTree::IsLeaf(node)) {
    float sum = 0;
    const TaskRange tasks = tree.Tasks(node);
    for (uint64_t i = tasks.begin; i < tasks.end; ++i) sum += x[i];
    return sum;
  }
  return FoldOracle(tree, tree.Left(node), x) + FoldOracle(tree, tree.Right(node), x);
}

// A partial, by its first leaf.
struct Held {
  LeafRange leaves;
  uint64_t tasks = 0;
  uint64_t failed = 0;
  std::vector<std::string> outputs;  // none: its leaves were given up
};
using HeldPartials = std::map<uint64_t, Held>;

Held HeldOf(const Harness& h, LeafRange leaves, uint64_t tasks, uint64_t failed,
            const google::protobuf::RepeatedPtrField<tandem::v1::OutputPiece>& outputs) {
  Held held{leaves, tasks, failed, {}};
  for (const auto& output : outputs) held.outputs.push_back(h.OutputBytes(output));
  return held;
}

class OrderedReductionTest : public ReductionTest {
 protected:
  void AddInput(const Held& held, Rng* rng, executor::v1::MergePiece* merge) {
    auto* input = merge->add_inputs();
    input->set_id(held.leaves.begin + 1);
    input->add_leaves(held.leaves.begin);
    input->add_leaves(held.leaves.size());
    input->set_tasks(held.tasks);
    input->set_failed(held.failed);
    for (uint32_t i = 0; i < held.outputs.size(); ++i) {
      auto* output = input->add_outputs();
      output->set_output(i);
      if (rng->Chance(0.5)) {
        output->set_inline_(held.outputs[i]);
        continue;
      }
      const Region region = h_.source()->AddRegion(held.outputs[i]);
      output->mutable_region()->set_segment(region.segment.value());
      output->mutable_region()->set_offset(region.offset);
      output->mutable_region()->set_length(region.length);
      output->mutable_region()->set_xxh3(region.xxh3);
    }
  }

  // Random nodes are merged from what lies in them, until the root is one.
  Held MergeAll(uint64_t id, const RangeTree& tree, HeldPartials held, Rng* rng) {
    for (uint64_t merges = 1;; ++merges) {
      Node node = tree.root();
      while (!RangeTree::IsLeaf(node) && rng->Chance(0.7)) {
        node = rng->Chance(0.5) ? tree.Left(node) : tree.Right(node);
      }
      const LeafRange leaves = tree.Leaves(node);
      executor::v1::ToExecutor message;
      executor::v1::MergePiece* merge = message.add_merges();
      merge->set_piece(1'000'000 * id + merges);
      merge->set_job(id);
      merge->set_group(static_cast<uint32_t>(merges % 2));
      uint64_t covered = 0;
      std::vector<uint64_t> used;
      for (const auto& [first, partial] : held) {
        if (first < leaves.begin || partial.leaves.end > leaves.end) continue;
        AddInput(partial, rng, merge);
        covered += partial.leaves.size();
        used.push_back(first);
      }
      if (covered != leaves.size()) continue;
      const uint64_t piece = merge->piece();
      h_.Send(std::move(message));
      h_.Until([&] { return h_.merges().contains(piece); });
      const executor::v1::MergeDone& done = h_.merges().at(piece);
      EXPECT_EQ(done.error(), "");
      for (const uint64_t first : used) held.erase(first);
      Held merged = HeldOf(h_, leaves, done.tasks(), done.failed(), done.outputs());
      if (leaves == tree.leaves()) return merged;
      held[leaves.begin] = std::move(merged);
    }
  }
};

TEST_F(OrderedReductionTest, FloatSumsHaveTheSameBytesForAnyCutAndAnyOrderOfMerges) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    Rng rng(seed);
    std::vector<float> x(rng.Between(1, 900));
    for (float& value : x) value = static_cast<float>(rng.NextDouble() * 2e6 - 1e6);
    JobSpec spec;
    spec.kernel = "float_sum";
    spec.grain = rng.Between(1, 30);
    spec.operands["x"] =
        Dense(DType::kF32, {static_cast<int64_t>(x.size())}, InlineLocator{BytesOf(x)});
    const BoundJob job = h_.SetUp(seed, spec);
    HeldPartials held;  // one a piece
    for (const LeafRange& leaves : RandomNodes(job.tree, seed)) {
      const uint64_t id = h_.Run(seed, leaves);
      ASSERT_TRUE(h_.done().contains(id));
      EXPECT_FALSE(h_.done().at(id).accumulated());
      held[leaves.begin] =
          HeldOf(h_, leaves, h_.done().at(id).tasks(), 0, h_.done().at(id).outputs());
    }
    const Held all = MergeAll(seed, job.tree, std::move(held), &rng);
    const float expected = FoldOracle(job.tree, job.tree.root(), x);
    ASSERT_EQ(all.tasks, x.size());
    EXPECT_THAT(all.outputs, ElementsAre(BytesOf(std::vector<float>{expected})));
  }
}

TEST_F(OrderedReductionTest, LeavesThatWereGivenUpAddNothingToASum) {
  JobSpec spec;
  spec.kernel = "float_sum";
  spec.grain = 2;
  spec.operands["x"] = Dense(DType::kF32, {10}, InlineLocator{BytesOf(std::vector<float>(10, 1))});
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    const BoundJob job = h_.SetUp(seed, spec);
    Rng rng(seed);
    HeldPartials held;
    uint64_t given_up = 0;
    for (uint64_t leaf = 0; leaf < job.tree.leaf_count(); ++leaf) {
      const LeafRange leaves = {leaf, leaf + 1};
      if (rng.Chance(seed == 1 ? 1 : 0.5)) {
        held[leaf] = {leaves, 0, 2, {}};
        given_up += 2;
        continue;
      }
      const uint64_t id = h_.Run(seed, leaves);
      held[leaf] = HeldOf(h_, leaves, 2, 0, h_.done().at(id).outputs());
    }
    const Held all = MergeAll(seed, job.tree, std::move(held), &rng);
    EXPECT_EQ(all.failed, given_up);
    EXPECT_THAT(all.outputs,
                ElementsAre(BytesOf(std::vector<float>{static_cast<float>(10 - given_up)})));
  }
}

TEST_F(OrderedReductionTest, AKernelsOwnMergeKeepsTheOrderOfTasksAndCountsAllOfThem) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    Rng rng(seed);
    std::vector<int32_t> x(rng.Between(1, 900));
    for (int32_t& value : x) value = static_cast<int32_t>(rng.Below(1000)) - (seed % 2 ? 20 : 0);
    JobSpec spec;
    spec.kernel = "listed";
    spec.grain = rng.Between(1, 30);
    spec.operands["x"] =
        Dense(DType::kI32, {static_cast<int64_t>(x.size())}, InlineLocator{BytesOf(x)});
    const BoundJob job = h_.SetUp(seed, spec);
    std::vector<int32_t> expected = x;
    HeldPartials held;
    for (const LeafRange& leaves : RandomNodes(job.tree, seed)) {
      const TaskRange tasks = job.tree.Tasks(leaves);
      if (seed % 3 == 0 && rng.Chance(0.2)) {
        held[leaves.begin] = {leaves, 0, tasks.size(), {}};
        std::fill(expected.begin() + tasks.begin, expected.begin() + tasks.end, 0);
        continue;
      }
      executor::v1::ToExecutor message;
      const uint64_t id = h_.AddPiece(seed, leaves, &message);
      message.mutable_runs(0)->set_suspect(rng.Chance(0.3));
      for (uint64_t task = tasks.begin; seed % 5 == 0 && task < tasks.end; ++task) {
        if (!rng.Chance(0.2)) continue;
        message.mutable_runs(0)->add_skip_tasks(task);
        expected[task] = 0;
      }
      h_.Send(std::move(message));
      h_.Until([&] { return h_.done().contains(id); });
      const executor::v1::PieceDone& done = h_.done().at(id);
      EXPECT_FALSE(done.accumulated());
      const auto failed = static_cast<uint64_t>(done.failures_size());
      EXPECT_EQ(done.tasks() + failed, tasks.size());
      held[leaves.begin] = HeldOf(h_, leaves, done.tasks(), failed, done.outputs());
    }
    // What is not run counts as zero, what fails too.
    for (int32_t& value : expected) value = std::max(value, 0);
    const Held all = MergeAll(seed, job.tree, std::move(held), &rng);
    EXPECT_EQ(all.tasks + all.failed, x.size());
    ASSERT_EQ(all.outputs.size(), 2u);
    EXPECT_THAT(ValuesOf<int32_t>(all.outputs[0]), ElementsAreArray(expected));
    EXPECT_EQ(all.outputs[1], BytesOf(std::vector<uint64_t>{all.tasks}));
  }
}

TEST_F(OrderedReductionTest, AnOwnMergeOfNothingOrOfOneTaskIsWhatThatMakes) {
  for (uint64_t tasks : {0, 1}) {
    JobSpec spec;
    spec.kernel = "listed";
    spec.operands["x"] = Dense(DType::kI32, {static_cast<int64_t>(tasks)},
                               InlineLocator{BytesOf(std::vector<int32_t>(tasks, 7))});
    const BoundJob job = h_.SetUp(tasks + 1, spec);
    if (tasks == 1) {
      const uint64_t id = h_.Run(2, {0, 1});
      const Held held = HeldOf(h_, {0, 1}, 1, 0, h_.done().at(id).outputs());
      EXPECT_THAT(held.outputs,
                  ElementsAre(BytesOf(std::vector<int32_t>{7}), BytesOf(std::vector<int64_t>{1})));
      continue;
    }
    executor::v1::ToExecutor message;
    message.add_merges()->set_piece(5);
    message.mutable_merges(0)->set_job(1);
    h_.Send(std::move(message));
    h_.Until([&] { return h_.merges().contains(5); });
    EXPECT_EQ(h_.merges().at(5).error(), "");
    EXPECT_THAT(HeldOf(h_, {0, 0}, 0, 0, h_.merges().at(5).outputs()).outputs,
                ElementsAre("", BytesOf(std::vector<int64_t>{0})));
  }
}

TEST_F(ReductionTest, AMergeOfNothingIsTheIdentity) {
  JobSpec spec;
  spec.kernel = "scaled";
  spec.operands["x"] = Dense(DType::kF32, {0}, InlineLocator{""});
  spec.operands["table"] = Dense(DType::kF32, {1}, InlineLocator{BytesOf(std::vector<float>{1})});
  h_.SetUp(1, spec);
  executor::v1::ToExecutor message;
  message.add_merges()->set_piece(5);
  message.mutable_merges(0)->set_job(1);
  h_.Send(std::move(message));
  h_.Until([&] { return h_.merges().contains(5); });
  ASSERT_EQ(h_.merges().at(5).error(), "");
  const std::vector<float> top = ValuesOf<float>(h_.OutputBytes(h_.merges().at(5).outputs(0)));
  EXPECT_THAT(top, ElementsAre(-std::numeric_limits<float>::infinity()));
}

TEST_F(ReductionTest, ExactPartialsMergeWhateverTheirLeaves) {
  h_.SetUp(1, TallySpec(100, 1));
  executor::v1::ToExecutor message;
  executor::v1::MergePiece* merge = message.add_merges();
  merge->set_piece(9);
  merge->set_job(1);
  for (int i = 0; i < 3; ++i) {
    auto* input = merge->add_inputs();
    input->set_id(static_cast<uint64_t>(i) + 1);
    for (const uint64_t word : {uint64_t(i), uint64_t{1}, uint64_t(i) + 5, uint64_t{1}}) {
      input->add_leaves(word);
    }
    input->set_tasks(19);
    input->set_failed(1);
    input->add_outputs()->set_inline_(BytesOf(std::vector<uint64_t>{1, 2, 3, uint64_t(i)}));
    auto* seen = input->add_outputs();
    seen->set_output(1);
    seen->set_inline_(BytesOf(std::vector<uint64_t>{19}));
  }
  h_.Send(std::move(message));
  h_.Until([&] { return h_.merges().contains(9); });
  const executor::v1::MergeDone& done = h_.merges().at(9);
  ASSERT_EQ(done.error(), "");
  EXPECT_EQ(done.tasks(), 57u);
  EXPECT_EQ(done.failed(), 3u);
  EXPECT_THAT(ValuesOf<uint64_t>(h_.OutputBytes(done.outputs(0))), ElementsAre(3, 6, 9, 3));
  EXPECT_THAT(ValuesOf<uint64_t>(h_.OutputBytes(done.outputs(1))), ElementsAre(57));
}

TEST_F(ReductionTest, BadMergesAreAnsweredWithWhatIsWrong) {
  std::vector<float> x(40, 1);
  JobSpec spec;
  spec.kernel = "float_sum";
  spec.grain = 10;
  spec.operands["x"] = Dense(DType::kF32, {40}, InlineLocator{BytesOf(x)});
  h_.SetUp(1, spec);
  struct Case {
    std::vector<uint64_t> first_leaves;
    size_t bytes;
    const char* why;
  };
  uint64_t id = 100;
  for (const Case& bad : {Case{{0, 2}, 4, "make up no node"}, Case{{1, 2}, 4, "make up no node"},
                          Case{{0, 1}, 3, "3 bytes"}, Case{{0, 9}, 4, "make up no node"}}) {
    executor::v1::ToExecutor message;
    executor::v1::MergePiece* merge = message.add_merges();
    merge->set_piece(++id);
    merge->set_job(1);
    for (const uint64_t first : bad.first_leaves) {
      auto* input = merge->add_inputs();
      input->set_id(first + 1);
      input->add_leaves(first);
      input->add_leaves(1);
      input->add_outputs()->set_inline_(std::string(bad.bytes, '\0'));
    }
    h_.Send(std::move(message));
    h_.Until([&] { return h_.merges().contains(id); });
    EXPECT_THAT(h_.merges().at(id).error(), HasSubstr(bad.why));
  }
  executor::v1::ToExecutor message;
  message.add_merges()->set_piece(7);
  message.mutable_merges(0)->set_job(999);
  h_.Send(std::move(message));
  EXPECT_THAT(h_.merges().at(7).error(), StartsWith("PROTOCOL_ERROR"));
}

TEST_F(ReductionTest, AMapBesideAReductionReportsBothWithThePiece) {
  std::vector<float> x(60), table = {1, -1, 2};
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  JobSpec spec;
  spec.kernel = "scaled";
  spec.grain = 6;
  spec.operands["x"] = Dense(DType::kF32, {60}, InlineLocator{BytesOf(x)});
  spec.operands["table"] = Dense(DType::kF32, {3}, InlineLocator{BytesOf(table)});
  h_.SetUp(1, spec);
  const uint64_t piece = h_.Run(1, {2, 4});
  ASSERT_TRUE(h_.done().contains(piece));
  const executor::v1::PieceDone& done = h_.done().at(piece);
  EXPECT_FALSE(done.accumulated());
  ASSERT_EQ(done.outputs_size(), 2);
  std::vector<float> expected;
  for (size_t i = 12; i < 24; ++i) expected.push_back(x[i] * table[i % 3]);
  EXPECT_EQ(ValuesOf<float>(h_.OutputBytes(done.outputs(0))), expected);
  EXPECT_THAT(ValuesOf<float>(h_.OutputBytes(done.outputs(1))),
              ElementsAre(*std::max_element(expected.begin(), expected.end())));
}

}  // namespace
}  // namespace tandem::worker::testing
