// PartialSet: the partials of one job's reduced outputs, and which of them to merge next.
//
// Exact reductions: any partials may be merged, and which leaves a partial covers need not be kept
// (the job's done set is their union). Ordered ones (float sums): a partial is the value of one
// node, and a merge takes the partials that make up one node, so that the order of additions is
// that of the range tree.
//
// Thread-safety: as a container. Invariant: the nodes of an ordered set's partials are apart.
#ifndef TANDEM_MASTER_CORE_PARTIAL_SET_H_
#define TANDEM_MASTER_CORE_PARTIAL_SET_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "common/model/lease_messages.h"
#include "common/model/range_tree.h"

namespace tandem::master {

class PartialSet {
 public:
  PartialSet() = default;
  explicit PartialSet(bool ordered) : ordered_(ordered) {}

  // REQUIRES: a new id; ordered: partial.leaves is one node's, apart from the others.
  void Add(Partial partial);
  // REQUIRES: it is there.
  void Remove(uint64_t id);
  bool Has(uint64_t id) const { return partials_.count(id) != 0; }
  // REQUIRES: it is there.
  const Partial& Get(uint64_t id) const { return partials_.at(id).partial; }
  void Clear();

  // Set apart for a merge, or given back.
  void SetMerging(uint64_t id, bool merging);

  bool ordered() const { return ordered_; }
  size_t size() const { return partials_.size(); }
  // Not in a merge.
  size_t available() const { return partials_.size() - merging_; }
  // The id for the next partial: larger than any before.
  uint64_t next_id() const { return next_id_; }

  // Is it worth planning a merge?
  bool MayMerge(bool final, size_t inputs_max) const {
    return available() >= (final ? 2 : std::max(inputs_max, search_at_));
  }
  // What to merge next: ids in order, at most `inputs_max`; empty: nothing. While leaves are
  // outstanding (`final` false) only when `inputs_max` partials have piled up.
  std::vector<uint64_t> PlanMerge(const RangeTree& tree, bool final, size_t inputs_max);
  // The node that an ordered merge of these makes. REQUIRES: PlanMerge gave them.
  LeafInterval NodeOf(const std::vector<uint64_t>& ids) const;

  // f(const Partial&), by id.
  template <class F>
  void ForEach(F f) const {
    for (const auto& [id, stored] : partials_) f(stored.partial);
  }
  // For tests: dies unless the invariant holds.
  void CheckInvariants(const RangeTree& tree) const;

 private:
  struct Stored {
    Partial partial;
    bool merging = false;
  };
  std::vector<uint64_t> PlanOrdered(const RangeTree& tree, size_t inputs_max) const;
  void Search(const RangeTree& tree, Node node, size_t inputs_max,
              std::vector<uint64_t>* best) const;

  bool ordered_ = false;
  uint64_t next_id_ = 1;
  size_t merging_ = 0;
  size_t search_at_ = 0;                  // Ordered, not final: no use searching below so many.
  std::map<uint64_t, Stored> partials_;   // By id.
  std::map<uint64_t, uint64_t> by_leaf_;  // Ordered: first leaf -> id.
};

}  // namespace tandem::master

#endif  // TANDEM_MASTER_CORE_PARTIAL_SET_H_
