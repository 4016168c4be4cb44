// RangeTree: the fixed binary tree over a job's tasks, whose nodes are what is leased, pulled,
// run, merged and remembered (docs/ARCHITECTURE.md, "The range tree").
//
// Tasks are grouped into leaves of `grain`; the last leaf may be shorter. A node is an aligned run
// of 2^level leaves, clipped at the end. Nodes are canonical: of the (first_leaf, level) pairs
// that clip to the same leaves, the one with the least level. So each inner node has exactly two
// children, and equal nodes compare equal.
//
//   RangeTree tree(1'000'000'000'000, 4096);
//   tree.root(), tree.Tasks(node), tree.Left(node), tree.LargestNodeAt(first_leaf, 1000,
//   tree.leaves())
//
// Nothing is stored but the two numbers: a tree of 10^18 tasks costs 16 bytes.
// Thread-safety: immutable.
#ifndef TANDEM_COMMON_MODEL_RANGE_TREE_H_
#define TANDEM_COMMON_MODEL_RANGE_TREE_H_

#include <algorithm>
#include <bit>
#include <compare>
#include <cstdint>
#include <ostream>
#include <string>
#include <utility>

#include "common/base/checked_math.h"

namespace tandem {

// Half-open interval of tasks.
struct TaskRange {
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t size() const { return end - begin; }
  bool empty() const { return begin >= end; }
  // "[0,512)"
  std::string ToString() const;
  friend auto operator<=>(const TaskRange&, const TaskRange&) = default;
};

// Half-open interval of leaves.
struct LeafRange {
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t size() const { return end - begin; }
  bool empty() const { return begin >= end; }
  std::string ToString() const;
  friend auto operator<=>(const LeafRange&, const LeafRange&) = default;
};

// A node's name. Order: by first leaf, then level.
struct Node {
  uint64_t first_leaf = 0;
  uint8_t level = 0;
  // "0@3": first leaf @ level.
  std::string ToString() const;
  friend auto operator<=>(const Node&, const Node&) = default;
  template <class H>
  friend H AbslHashValue(H h, const Node& n) {
    return H::combine(std::move(h), n.first_leaf, n.level);
  }
  friend std::ostream& operator<<(std::ostream& out, const Node& n) { return out << n.ToString(); }
};

class RangeTree {
 public:
  // The most tasks of a job: task ids are int64_t in kernels.
  static constexpr uint64_t kTasksMax = uint64_t{1} << 62;

  RangeTree() = default;
  // REQUIRES: task_count ≤ kTasksMax, grain ≥ 1.
  RangeTree(uint64_t task_count, uint64_t grain)
      : task_count_(task_count), grain_(grain), leaf_count_(CeilDiv(task_count, grain)) {}

  uint64_t task_count() const { return task_count_; }
  uint64_t grain() const { return grain_; }
  uint64_t leaf_count() const { return leaf_count_; }
  bool empty() const { return leaf_count_ == 0; }
  LeafRange leaves() const { return {0, leaf_count_}; }

  // REQUIRES: !empty().
  Node root() const { return Canonical({0, kLevelMax}); }

  // The least level that names the same leaves. REQUIRES: aligned, first_leaf < leaf_count().
  Node Canonical(Node node) const {
    // With r leaves left, any level from bit_width(r - 1) on clips to the same r leaves.
    const uint64_t rest = leaf_count_ - node.first_leaf;
    const auto least = static_cast<uint8_t>(std::bit_width(rest - 1));
    return {node.first_leaf, std::min(node.level, least)};
  }

  // The functions below REQUIRE nodes of this tree.
  LeafRange Leaves(Node node) const {
    return {node.first_leaf,
            node.first_leaf + std::min(uint64_t{1} << node.level, leaf_count_ - node.first_leaf)};
  }
  uint64_t LeafCount(Node node) const { return Leaves(node).size(); }
  TaskRange Tasks(Node node) const { return Tasks(Leaves(node)); }
  TaskRange Tasks(LeafRange leaves) const {
    // begin × grain < task_count; the end is clipped before it can overflow.
    return {leaves.begin >= leaf_count_ ? task_count_ : leaves.begin * grain_,
            leaves.end >= leaf_count_ ? task_count_ : leaves.end * grain_};
  }
  uint64_t LeafOfTask(uint64_t task) const { return task / grain_; }

  static bool IsLeaf(Node node) { return node.level == 0; }
  // REQUIRES: !IsLeaf(node). Left has at least as many leaves as right; neither is empty.
  Node Left(Node node) const { return {node.first_leaf, static_cast<uint8_t>(node.level - 1)}; }
  Node Right(Node node) const {
    return Canonical({node.first_leaf + (uint64_t{1} << (node.level - 1)),
                      static_cast<uint8_t>(node.level - 1)});
  }

  // The largest node that begins at `first_leaf`, has at most `leaves_max` leaves and lies in
  // `within`. REQUIRES: within.begin ≤ first_leaf < within.end ≤ leaf_count(), leaves_max ≥ 1.
  Node LargestNodeAt(uint64_t first_leaf, uint64_t leaves_max, LeafRange within) const;
  // The largest node that ends at `end_leaf` (excluded), likewise.
  // REQUIRES: within.begin < end_leaf ≤ within.end ≤ leaf_count(), leaves_max ≥ 1.
  Node LargestNodeEndingAt(uint64_t end_leaf, uint64_t leaves_max, LeafRange within) const;

  // Calls f(node) for the fewest nodes that make up the interval, from left to right: at most
  // 2 × 62 of them. REQUIRES: leaves.end ≤ leaf_count().
  template <class F>
  void ForEachNode(LeafRange leaves, F f) const {
    while (leaves.begin < leaves.end) {
      const Node node = LargestNodeAt(leaves.begin, leaves.size(), leaves);
      f(node);
      leaves.begin = Leaves(node).end;
    }
  }
  // The node with exactly these leaves, if the interval is one.
  bool NodeOf(LeafRange leaves, Node* node) const;

  friend bool operator==(const RangeTree&, const RangeTree&) = default;

 private:
  static constexpr uint8_t kLevelMax = 62;

  uint64_t task_count_ = 0;
  uint64_t grain_ = 1;
  uint64_t leaf_count_ = 0;
};

}  // namespace tandem

#endif  // TANDEM_COMMON_MODEL_RANGE_TREE_H_
