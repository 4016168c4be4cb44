// A job that is granted by a master and pulled by devices from both ends merges to the unsplit
// result, and a piece of a job that merges up the tree is a node.
#include <gtest/gtest.h>

#include <algorithm>

#include "common/base/rng.h"
#include "tests/common/model/plan_cases.h"
#include "worker/core/pool.h"

namespace tandem::worker {
namespace {

using plan_cases::Assembly;
using plan_cases::Case;
using plan_cases::Cases;
using plan_cases::Instance;
using plan_cases::Make;
using plan_cases::RunPlan;
using plan_cases::RunWhole;

// All leaves in grants as a master makes them: numbers of equal nodes.
Pool GrantAll(const RangeTree& tree, Rng* rng) {
  Pool pool;
  Grant grant;
  grant.first_n = 1;
  while (grant.first_leaf < tree.leaf_count()) {
    const LeafRange rest{grant.first_leaf, tree.leaf_count()};
    grant.level = tree.LargestNodeAt(rest.begin, rng->Between(1, 16), rest).level;
    grant.count = rng->Between(1, std::max<uint64_t>(1, rest.size() >> grant.level));
    LeaseRun run = LeaseRun::Of(grant, Epoch(1), tree.leaf_count());
    grant.first_n += run.Leases();
    grant.first_leaf = run.end();
    pool.PushBack(std::move(run));
  }
  return pool;
}

// A piece as a device pulls it: of at most so many leaves from one end.
LeaseRun Pull(const RangeTree& tree, Pool* pool, bool whole_nodes, uint64_t leaves_max, Rng* rng) {
  const PoolEnd end = rng->Chance(0.5) ? PoolEnd::kFront : PoolEnd::kBack;
  const bool front = end == PoolEnd::kFront;
  const LeaseRun& run = front ? pool->front() : pool->back();
  const uint64_t leaves = PieceLeaves(tree, run, whole_nodes, leaves_max, end);
  EXPECT_GE(leaves, 1u);
  EXPECT_LE(leaves, leaves_max);
  return front ? pool->TakeFront(leaves) : pool->TakeBack(leaves);
}

TEST(DrainTest, AnyDrainOfTheTreeMergesToTheUnsplitResult) {
  Rng rng(18);
  for (const Case& c : Cases()) {
    for (int round = 0; round < 40; ++round) {
      const Instance instance = Make(c, 1 + rng.Below(60), 1 + rng.Below(5), &rng);
      const RangeTree& tree = instance.job.tree;
      const bool whole_nodes = rng.Chance(0.5);
      Pool pool = GrantAll(tree, &rng);
      EXPECT_EQ(pool.leaves(), tree.leaf_count());
      Assembly assembly(c, instance.job);
      while (!pool.empty()) {
        LeaseRun piece = Pull(tree, &pool, whole_nodes, 1 + rng.Below(9), &rng);
        const LeafRange leaves{piece.first(), piece.end()};
        Node node;
        ASSERT_TRUE(!whole_nodes || tree.NodeOf(leaves, &node)) << leaves.ToString();
        if (rng.Chance(0.1)) {  // It comes back.
          pool.PushFront(std::move(piece));
          continue;
        }
        const Plan plan = PlanRange(instance.job, tree.Tasks(leaves));
        assembly.Take(plan, RunPlan(c, instance, plan));
      }
      ASSERT_EQ(assembly.results(), RunWhole(c, instance)) << c.name << ", round " << round;
    }
  }
}

// What cannot be named by a node is so by whole leases, of which a rejoin takes a number over.
TEST(DrainTest, APieceIsANodeOrANumberOfWholeLeases) {
  Rng rng(19);
  for (int round = 0; round < 500; ++round) {
    const RangeTree tree(1 + rng.Below(300), 1);
    Pool pool = GrantAll(tree, &rng);
    while (!pool.empty()) {
      const LeaseRun piece = Pull(tree, &pool, false, 1 + rng.Below(40), &rng);
      const uint64_t lease = uint64_t{1} << piece.level;
      const auto whole = [&](uint64_t leaf) {
        return (leaf - piece.base_leaf) % lease == 0 || leaf == tree.leaf_count();
      };
      Node node;
      ASSERT_TRUE(tree.NodeOf({piece.first(), piece.end()}, &node) ||
                  (whole(piece.first()) && whole(piece.end())))
          << "[" << piece.first() << "," << piece.end() << ") of leases of " << lease;
    }
  }
}

}  // namespace
}  // namespace tandem::worker
