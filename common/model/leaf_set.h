// LeafSet: a set of leaves as disjoint, non-touching intervals: what is done, free or running.
//
// Memory grows with the number of intervals, not with the leaves; a job that finishes in order
// stays one interval.
//
//   LeafSet free(tree.leaves());
//   const Node node = tree.LargestNodeAt(free.first().begin, leaves_max, free.first());
//   free.Remove(tree.Leaves(node));
//
// Cost: O(log intervals) an operation (and the intervals absorbed); growing or shrinking at either
// end moves one bound in place and allocates nothing.
// Thread-safety: as a container.
#ifndef TANDEM_COMMON_MODEL_LEAF_SET_H_
#define TANDEM_COMMON_MODEL_LEAF_SET_H_

#include <cstdint>
#include <initializer_list>
#include <string>

#include "absl/container/btree_set.h"
#include "common/model/range_tree.h"

namespace tandem {

class LeafSet {
 private:
  // Bounds move in place where the order of intervals stays as it is.
  struct Interval {
    mutable uint64_t begin;
    mutable uint64_t end;
  };
  struct ByBegin {
    using is_transparent = void;
    bool operator()(const Interval& a, const Interval& b) const { return a.begin < b.begin; }
    bool operator()(const Interval& a, uint64_t b) const { return a.begin < b; }
    bool operator()(uint64_t a, const Interval& b) const { return a < b.begin; }
  };
  using Intervals = absl::btree_set<Interval, ByBegin>;

 public:
  // Iterates LeafRange values in ascending order. Invalidated by any change.
  class const_iterator {
   public:
    using value_type = LeafRange;
    using difference_type = std::ptrdiff_t;
    const_iterator() = default;
    LeafRange operator*() const { return {it_->begin, it_->end}; }
    const_iterator& operator++() {
      ++it_;
      return *this;
    }
    const_iterator operator++(int) {
      const_iterator old = *this;
      ++it_;
      return old;
    }
    friend bool operator==(const const_iterator& a, const const_iterator& b) {
      return a.it_ == b.it_;
    }

   private:
    friend class LeafSet;
    explicit const_iterator(Intervals::const_iterator it) : it_(it) {}
    Intervals::const_iterator it_;
  };

  LeafSet() = default;
  explicit LeafSet(LeafRange range) { Add(range); }
  LeafSet(std::initializer_list<LeafRange> ranges) {
    for (const LeafRange& range : ranges) Add(range);
  }

  // An empty range is allowed and changes nothing.
  // Adds a range; returns how many leaves were not in the set before.
  uint64_t Add(LeafRange range);
  // Removes a range; returns how many leaves were in the set.
  uint64_t Remove(LeafRange range);
  void AddAll(const LeafSet& other);
  void Clear() {
    intervals_.clear();
    count_ = 0;
  }

  // Every leaf of the range (true for an empty one).
  bool ContainsAll(LeafRange range) const;
  // Any leaf of the range.
  bool Intersects(LeafRange range) const;

  bool empty() const { return count_ == 0; }
  // Leaves in the set.
  uint64_t count() const { return count_; }
  size_t interval_count() const { return intervals_.size(); }
  // REQUIRES: !empty().
  LeafRange first() const { return {intervals_.begin()->begin, intervals_.begin()->end}; }
  LeafRange last() const {
    const auto it = std::prev(intervals_.end());
    return {it->begin, it->end};
  }

  const_iterator begin() const { return const_iterator(intervals_.begin()); }
  const_iterator end() const { return const_iterator(intervals_.end()); }

  static LeafSet Difference(const LeafSet& a, const LeafSet& b);
  // The part that lies in `range`.
  LeafSet Within(LeafRange range) const;

  // "{[0,4),[8,9)}"
  std::string ToString() const;
  friend bool operator==(const LeafSet& a, const LeafSet& b);

  // For tests: dies unless intervals are non-empty, ascending, apart, and count() is right.
  void CheckInvariants() const;

 private:
  // The first interval whose end is ≥ `leaf` (so: touches or contains it, or lies beyond).
  Intervals::const_iterator FirstEndingAtOrAfter(uint64_t leaf) const;

  Intervals intervals_;
  uint64_t count_ = 0;
};

}  // namespace tandem

#endif  // TANDEM_COMMON_MODEL_LEAF_SET_H_
