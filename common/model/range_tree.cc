#include "common/model/range_tree.h"

#include "common/base/check.h"
#include "common/base/strings.h"

namespace tandem {
namespace {

// The highest level at which a node may begin at this leaf.
uint8_t AlignmentOf(uint64_t leaf, uint8_t level_max) {
  return leaf == 0 ? level_max : std::min(static_cast<uint8_t>(std::countr_zero(leaf)), level_max);
}

}  // namespace

std::string TaskRange::ToString() const { return StrCat("[", begin, ",", end, ")"); }
std::string LeafRange::ToString() const { return StrCat("[", begin, ",", end, ")"); }
std::string Node::ToString() const { return StrCat(first_leaf, "@", int{level}); }

Node RangeTree::LargestNodeAt(uint64_t first_leaf, uint64_t leaves_max, LeafRange within) const {
  DCHECK(within.begin <= first_leaf && first_leaf < within.end && within.end <= leaf_count_);
  DCHECK_GE(leaves_max, 1u);
  const uint64_t most = std::min(leaves_max, within.end - first_leaf);
  // At the end of the tree a node may be clipped, so the level may round up.
  const int level =
      most == leaf_count_ - first_leaf ? std::bit_width(most - 1) : std::bit_width(most) - 1;
  return Canonical(
      {first_leaf, std::min(static_cast<uint8_t>(level), AlignmentOf(first_leaf, kLevelMax))});
}

Node RangeTree::LargestNodeEndingAt(uint64_t end_leaf, uint64_t leaves_max,
                                    LeafRange within) const {
  DCHECK(within.begin < end_leaf && end_leaf <= within.end && within.end <= leaf_count_);
  DCHECK_GE(leaves_max, 1u);
  const uint64_t most = std::min(leaves_max, end_leaf - within.begin);
  if (end_leaf < leaf_count_) {
    const uint8_t level =
        std::min(static_cast<uint8_t>(std::bit_width(most) - 1), AlignmentOf(end_leaf, kLevelMax));
    return {end_leaf - (uint64_t{1} << level), level};
  }
  // The clipped nodes that end the tree begin at end - 1 with low bits cleared, one by one.
  uint64_t first = end_leaf - 1;
  while (first != 0 && end_leaf - (first & (first - 1)) <= most) first &= first - 1;
  return Canonical({first, AlignmentOf(first, kLevelMax)});
}

bool RangeTree::NodeOf(LeafRange leaves, Node* node) const {
  if (leaves.empty() || leaves.end > leaf_count_) return false;
  *node = LargestNodeAt(leaves.begin, leaves.size(), leaves);
  return Leaves(*node) == leaves;
}

}  // namespace tandem
