// LeaseTable: the leaves of one job that are entrusted to workers, as runs of leases.
//
// A grant of thousands of leases is one entry. What is committed, given back or voided is taken
// out; taking from either end of an entry moves a bound in place, so a worker that commits in order
// costs no allocation.
//
//   table.Add({.begin = 0, .end = 2048, .first_n = 1, .worker = w});
//   table.Take(w, {.n = 1, .leaves = {0, 64}}, [&](LeafRange taken, const LeaseRun& run, …) {…});
//
// Thread-safety: as a container.
// Invariants: 1. entries are apart and ascending; 2. so each leaf has at most one live lease.
#ifndef TANDEM_MASTER_CORE_LEASE_TABLE_H_
#define TANDEM_MASTER_CORE_LEASE_TABLE_H_

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "absl/container/btree_set.h"
#include "common/model/ids.h"
#include "common/model/lease_messages.h"
#include "common/model/range_tree.h"

namespace tandem::master {

struct LeaseRun {
  mutable uint64_t begin = 0;  // Leaves still outstanding: [begin, end).
  mutable uint64_t end = 0;
  uint64_t first_n = 0;     // Of the run as granted …
  uint64_t first_leaf = 0;  // … which began here.
  uint8_t level = 0;
  bool suspect = false;
  uint32_t attempt = 1;
  WorkerId worker;
  LeaseId claim;  // The first lease it was held under, by which two claims are compared.

  // The number of the lease that holds a leaf of this run. REQUIRES: leaf >= first_leaf.
  uint64_t NumberOf(uint64_t leaf) const { return first_n + ((leaf - first_leaf) >> level); }
  // Leases with a leaf in [from, to). REQUIRES: from < to.
  int64_t Leases(uint64_t from, uint64_t to) const {
    return static_cast<int64_t>(NumberOf(to - 1) - NumberOf(from)) + 1;
  }
  int64_t Leases() const { return begin < end ? Leases(begin, end) : 0; }
  // Was `run` held by `w` under this run's numbers?
  bool Names(WorkerId w, const LeafRun& run) const {
    return worker == w && run.leaves.first >= first_leaf && NumberOf(run.leaves.first) == run.n;
  }
};

class LeaseTable {
 public:
  // REQUIRES: no leaf of the run is in the table.
  void Add(const LeaseRun& run);

  // Takes the leaves of `run` that worker `w` holds under these numbers. For each interval calls
  // f(LeafRange taken, const LeaseRun& of, int64_t leases_ended); `of` still has its old bounds.
  // Returns how many leaves were taken.
  template <class F>
  uint64_t Take(WorkerId w, const LeafRun& run, F f);
  // Every leaf of `run` is held by `w` under these numbers.
  bool Holds(WorkerId w, const LeafRun& run) const;
  // Takes whatever `keep` says no to: f as in Take.
  template <class Pred, class F>
  void TakeIf(LeafRange within, Pred wanted, F f);
  // f(const LeaseRun&, LeafRange overlap) for each entry that touches `within`, ascending. No
  // change meanwhile.
  template <class F>
  void ForEachIn(LeafRange within, F f) const;

  void Clear() { runs_.clear(); }
  bool empty() const { return runs_.empty(); }
  size_t entries() const { return runs_.size(); }
  auto begin() const { return runs_.begin(); }
  auto end() const { return runs_.end(); }
  auto rbegin() const { return std::make_reverse_iterator(runs_.end()); }
  auto rend() const { return std::make_reverse_iterator(runs_.begin()); }

  // For tests: dies unless the invariants hold.
  void CheckInvariants() const;

 private:
  struct ByBegin {
    using is_transparent = void;
    bool operator()(const LeaseRun& a, const LeaseRun& b) const { return a.begin < b.begin; }
    bool operator()(const LeaseRun& a, uint64_t b) const { return a.begin < b; }
    bool operator()(uint64_t a, const LeaseRun& b) const { return a < b.begin; }
  };
  using Runs = absl::btree_set<LeaseRun, ByBegin>;

  // The first entry that ends beyond `leaf`.
  Runs::iterator FirstEndingAfter(uint64_t leaf) const;
  // Takes [from, to), which lies in *it; returns the entry behind what was taken.
  Runs::iterator Cut(Runs::iterator it, uint64_t from, uint64_t to);

  // mutable: lookups hand out iterators whose entries' bounds move in place.
  mutable Runs runs_;
};

template <class F>
uint64_t LeaseTable::Take(WorkerId w, const LeafRun& run, F f) {
  uint64_t taken = 0;
  TakeIf(
      {run.leaves.first, run.leaves.first + run.leaves.count},
      [&](const LeaseRun& of) { return of.Names(w, run); },
      [&](LeafRange leaves, const LeaseRun& of, int64_t ended) {
        taken += leaves.size();
        f(leaves, of, ended);
      });
  return taken;
}

template <class Pred, class F>
void LeaseTable::TakeIf(LeafRange within, Pred wanted, F f) {
  auto it = FirstEndingAfter(within.begin);
  while (it != runs_.end() && it->begin < within.end) {
    if (!wanted(*it)) {
      ++it;
      continue;
    }
    const uint64_t from = std::max(it->begin, within.begin);
    const uint64_t to = std::min(it->end, within.end);
    int64_t left = 0;
    if (it->begin < from) left += it->Leases(it->begin, from);
    if (to < it->end) left += it->Leases(to, it->end);
    f(LeafRange{from, to}, *it, it->Leases() - left);
    it = Cut(it, from, to);
  }
}

template <class F>
void LeaseTable::ForEachIn(LeafRange within, F f) const {
  for (auto it = FirstEndingAfter(within.begin); it != runs_.end() && it->begin < within.end;
       ++it) {
    f(*it, LeafRange{std::max(it->begin, within.begin), std::min(it->end, within.end)});
  }
}

}  // namespace tandem::master

#endif  // TANDEM_MASTER_CORE_LEASE_TABLE_H_
