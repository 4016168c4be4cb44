#include "common/model/range_tree.h"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "common/base/rng.h"

namespace tandem {
namespace {

// Every node of a small tree, by walking it from the root.
void Walk(const RangeTree& tree, Node node, const std::function<void(Node)>& visit) {
  visit(node);
  if (RangeTree::IsLeaf(node)) return;
  Walk(tree, tree.Left(node), visit);
  Walk(tree, tree.Right(node), visit);
}

// Is there such a node? By descent from the root.
bool HasNode(const RangeTree& tree, Node node) {
  Node at = tree.root();
  while (at != node && !RangeTree::IsLeaf(at)) {
    at = node.first_leaf >= tree.Right(at).first_leaf ? tree.Right(at) : tree.Left(at);
  }
  return at == node;
}

TEST(RangeTreeTest, ChildrenPartitionTheirParent) {
  for (uint64_t leaves = 1; leaves <= 70; ++leaves) {
    const RangeTree tree(leaves, 1);
    uint64_t nodes = 0;
    Walk(tree, tree.root(), [&](Node node) {
      ++nodes;
      const LeafRange range = tree.Leaves(node);
      ASSERT_FALSE(range.empty());
      ASSERT_EQ(node.first_leaf % (uint64_t{1} << node.level), 0u);
      if (RangeTree::IsLeaf(node)) {
        ASSERT_EQ(range.size(), 1u);
        return;
      }
      const Node left = tree.Left(node);
      const Node right = tree.Right(node);
      ASSERT_EQ(tree.Leaves(left).begin, range.begin);
      ASSERT_EQ(tree.Leaves(left).end, tree.Leaves(right).begin);
      ASSERT_EQ(tree.Leaves(right).end, range.end);
      ASSERT_FALSE(tree.Leaves(right).empty());
      ASSERT_GE(tree.LeafCount(left), tree.LeafCount(right));
    });
    // A binary tree in which every inner node has two children.
    EXPECT_EQ(nodes, 2 * leaves - 1);
    EXPECT_EQ(tree.Leaves(tree.root()), tree.leaves());
  }
}

TEST(RangeTreeTest, LargestNodesAreTheLargestOfAllNodes) {
  for (uint64_t leaves = 1; leaves <= 24; ++leaves) {
    const RangeTree tree(leaves, 1);
    std::vector<Node> nodes;
    Walk(tree, tree.root(), [&](Node node) { nodes.push_back(node); });
    for (uint64_t begin = 0; begin < leaves; ++begin) {
      for (uint64_t end = begin + 1; end <= leaves; ++end) {
        for (uint64_t most = 1; most <= leaves + 1; ++most) {
          Node from_left{};
          Node from_right{};
          uint64_t left_size = 0;
          uint64_t right_size = 0;
          for (const Node node : nodes) {
            const LeafRange range = tree.Leaves(node);
            if (range.begin < begin || range.end > end || range.size() > most) continue;
            if (range.begin == begin && range.size() > left_size) {
              left_size = range.size();
              from_left = node;
            }
            if (range.end == end && range.size() > right_size) {
              right_size = range.size();
              from_right = node;
            }
          }
          ASSERT_EQ(tree.LargestNodeAt(begin, most, {begin, end}), from_left);
          ASSERT_EQ(tree.LargestNodeEndingAt(end, most, {begin, end}), from_right);
        }
      }
    }
  }
}

TEST(RangeTreeTest, DecompositionCoversWithTheFewestNodes) {
  for (uint64_t leaves = 1; leaves <= 24; ++leaves) {
    const RangeTree tree(leaves, 1);
    std::vector<Node> all;
    Walk(tree, tree.root(), [&](Node node) { all.push_back(node); });
    for (uint64_t begin = 0; begin <= leaves; ++begin) {
      for (uint64_t end = begin; end <= leaves; ++end) {
        std::vector<Node> nodes;
        tree.ForEachNode({begin, end}, [&](Node node) { nodes.push_back(node); });
        uint64_t at = begin;
        for (const Node node : nodes) {
          ASSERT_TRUE(HasNode(tree, node));
          ASSERT_EQ(tree.Leaves(node).begin, at);
          at = tree.Leaves(node).end;
        }
        ASSERT_EQ(at, end);
        // Fewest: least[i] = fewest nodes that cover [begin, begin + i).
        std::vector<size_t> least(end - begin + 1, ~size_t{0});
        least[0] = 0;
        for (uint64_t i = 0; i < end - begin; ++i) {
          for (const Node node : all) {
            const LeafRange range = tree.Leaves(node);
            if (range.begin != begin + i || range.end > end) continue;
            least[range.end - begin] = std::min(least[range.end - begin], least[i] + 1);
          }
        }
        ASSERT_EQ(nodes.size(), least.back());
        Node node;
        ASSERT_EQ(tree.NodeOf({begin, end}, &node), nodes.size() == 1);
      }
    }
  }
}

TEST(RangeTreeTest, TheLastLeafIsClipped) {
  const RangeTree tree(10, 4);
  EXPECT_EQ(tree.leaf_count(), 3u);
  EXPECT_EQ(tree.Tasks(Node{0, 0}), (TaskRange{0, 4}));
  EXPECT_EQ(tree.Tasks(Node{2, 0}), (TaskRange{8, 10}));
  EXPECT_EQ(tree.Tasks(tree.root()), (TaskRange{0, 10}));
  EXPECT_EQ(tree.LeafOfTask(9), 2u);
}

TEST(RangeTreeTest, NoTasksMakeNoLeaves) {
  const RangeTree tree(0, 5);
  EXPECT_TRUE(tree.empty());
  EXPECT_EQ(tree.leaf_count(), 0u);
  tree.ForEachNode({0, 0}, [](Node node) { ADD_FAILURE() << node; });
}

TEST(RangeTreeTest, HugeTreesWorkAtEveryEnd) {
  for (const uint64_t tasks : {uint64_t{1'000'000'000'000'000}, uint64_t{1'000'000'000'000'000'000},
                               RangeTree::kTasksMax, RangeTree::kTasksMax - 1}) {
    for (const uint64_t grain : {uint64_t{1}, uint64_t{3}, uint64_t{1'000'003}, tasks}) {
      const RangeTree tree(tasks, grain);
      EXPECT_EQ(tree.Tasks(tree.root()), (TaskRange{0, tasks}));
      // Down the right edge to the last leaf.
      Node node = tree.root();
      int depth = 0;
      while (!RangeTree::IsLeaf(node)) {
        const Node right = tree.Right(node);
        ASSERT_EQ(tree.Tasks(right).end, tasks);
        ASSERT_EQ(tree.Tasks(tree.Left(node)).end, tree.Tasks(right).begin);
        node = right;
        ASSERT_LE(++depth, 62);
      }
      EXPECT_EQ(node.first_leaf, tree.leaf_count() - 1);
      Rng rng(tasks ^ grain);
      for (int i = 0; i < 200; ++i) {
        const uint64_t begin = rng.Below(tree.leaf_count());
        const uint64_t end = rng.Between(begin, tree.leaf_count());
        uint64_t at = begin;
        tree.ForEachNode({begin, end}, [&](Node n) {
          ASSERT_TRUE(HasNode(tree, n));
          ASSERT_EQ(n.first_leaf, at);
          at = tree.Leaves(n).end;
        });
        ASSERT_EQ(at, end);
      }
    }
  }
}

}  // namespace
}  // namespace tandem
