#include "master/core/partial_set.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace tandem::master {

void PartialSet::Add(Partial partial) {
  const uint64_t id = partial.id;
  CHECK(id >= next_id_);
  next_id_ = id + 1;
  if (ordered_) {
    CHECK_EQ(partial.leaves.size(), 1u);
    by_leaf_.emplace(partial.leaves.front().first, id);
  } else {
    partial.leaves.clear();
  }
  partials_.emplace(id, Stored{std::move(partial), false});
}

void PartialSet::Remove(uint64_t id) {
  const auto it = partials_.find(id);
  CHECK(it != partials_.end());
  if (it->second.merging) --merging_;
  if (ordered_) by_leaf_.erase(it->second.partial.leaves.front().first);
  partials_.erase(it);
}

void PartialSet::Clear() {
  partials_.clear();
  by_leaf_.clear();
  merging_ = 0;
}

void PartialSet::SetMerging(uint64_t id, bool merging) {
  Stored& stored = partials_.at(id);
  if (stored.merging == merging) return;
  stored.merging = merging;
  merging ? ++merging_ : --merging_;
}

std::vector<uint64_t> PartialSet::PlanMerge(const RangeTree& tree, bool final, size_t inputs_max) {
  if (!MayMerge(final, inputs_max)) return {};
  if (ordered_) {
    std::vector<uint64_t> ids = PlanOrdered(tree, inputs_max);
    // Searching costs time in proportion to the partials: after a vain one, wait for twice as many.
    search_at_ = ids.empty() ? 2 * available() : 0;
    return ids;
  }
  std::vector<uint64_t> ids;
  for (const auto& [id, stored] : partials_) {
    if (stored.merging) continue;
    ids.push_back(id);
    if (ids.size() == inputs_max) break;
  }
  return ids;
}

std::vector<uint64_t> PartialSet::PlanOrdered(const RangeTree& tree, size_t inputs_max) const {
  std::vector<uint64_t> best;
  if (!tree.empty()) Search(tree, tree.root(), inputs_max, &best);
  return best;
}

// Finds the largest nodes below `node` that partials cover; keeps the one with the most partials.
void PartialSet::Search(const RangeTree& tree, Node node, size_t inputs_max,
                        std::vector<uint64_t>* best) const {
  const LeafRange leaves = tree.Leaves(node);
  std::vector<uint64_t> ids;
  uint64_t covered = leaves.begin;
  bool whole = true;
  for (auto it = by_leaf_.lower_bound(leaves.begin); it != by_leaf_.end() && it->first < leaves.end;
       ++it) {
    const Stored& stored = partials_.at(it->second);
    whole = whole && it->first == covered && !stored.merging;
    covered = it->first + stored.partial.leaves.front().count;
    ids.push_back(it->second);
    if (ids.size() > inputs_max) break;
  }
  if (ids.size() < 2) return;
  if (whole && covered == leaves.end && ids.size() <= inputs_max) {
    if (ids.size() > best->size()) *best = std::move(ids);
    return;
  }
  if (RangeTree::IsLeaf(node)) return;
  Search(tree, tree.Left(node), inputs_max, best);
  Search(tree, tree.Right(node), inputs_max, best);
}

LeafInterval PartialSet::NodeOf(const std::vector<uint64_t>& ids) const {
  const LeafInterval first = Get(ids.front()).leaves.front();
  const LeafInterval last = Get(ids.back()).leaves.front();
  return {first.first, last.first + last.count - first.first};
}

void PartialSet::CheckInvariants(const RangeTree& tree) const {
  size_t merging = 0;
  for (const auto& [id, stored] : partials_) {
    CHECK_EQ(id, stored.partial.id);
    CHECK(id < next_id_);
    merging += stored.merging ? 1 : 0;
  }
  CHECK_EQ(merging, merging_);
  if (!ordered_ || tree.empty()) return;
  CHECK_EQ(by_leaf_.size(), partials_.size());
  uint64_t end = 0;
  for (const auto& [first, id] : by_leaf_) {
    const LeafInterval leaves = partials_.at(id).partial.leaves.front();
    Node node;
    CHECK_EQ(leaves.first, first);
    CHECK(first >= end);
    CHECK(tree.NodeOf({leaves.first, leaves.first + leaves.count}, &node));
    end = leaves.first + leaves.count;
  }
}

}  // namespace tandem::master
