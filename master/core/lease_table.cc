#include "master/core/lease_table.h"

#include <iterator>

#include "common/base/check.h"

namespace tandem::master {

void LeaseTable::Add(const LeaseRun& run) {
  DCHECK(run.begin < run.end);
  CHECK(runs_.insert(run).second);
}

LeaseTable::Runs::iterator LeaseTable::FirstEndingAfter(uint64_t leaf) const {
  auto it = runs_.upper_bound(leaf);
  if (it != runs_.begin()) {
    auto before = std::prev(it);
    if (before->end > leaf) return before;
  }
  return it;
}

LeaseTable::Runs::iterator LeaseTable::Cut(Runs::iterator it, uint64_t from, uint64_t to) {
  const bool head = it->begin < from;
  const bool tail = to < it->end;
  if (!head && !tail) return runs_.erase(it);
  if (!head) {
    it->begin = to;  // Stays between its neighbours.
    return it;
  }
  if (!tail) {
    it->end = from;
    return std::next(it);
  }
  LeaseRun rest = *it;
  it->end = from;
  rest.begin = to;
  return runs_.insert(std::next(it), rest);
}

bool LeaseTable::Holds(WorkerId w, const LeafRun& run) const {
  uint64_t next = run.leaves.first;
  const uint64_t end = run.leaves.first + run.leaves.count;
  bool holds = true;
  ForEachIn({next, end}, [&](const LeaseRun& of, LeafRange overlap) {
    holds = holds && overlap.begin == next && of.Names(w, run);
    next = overlap.end;
  });
  return holds && next == end;
}

void LeaseTable::CheckInvariants() const {
  uint64_t end = 0;
  for (const LeaseRun& run : runs_) {
    CHECK(run.begin < run.end);
    CHECK(run.begin >= end);
    CHECK(run.begin >= run.first_leaf);
    CHECK(run.worker.valid());
    CHECK(run.first_n != 0);
    end = run.end;
  }
}

}  // namespace tandem::master
