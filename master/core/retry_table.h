// RetryTable: what is remembered of leaves that did not finish at their first attempt.
//
// Intervals of leaves with equal attributes; leaves that are not here are at attempt 1 without
// blame. An entry goes when its leaves are done, so memory grows with trouble, never with tasks.
//
// Blame: `strikes` counts crashes in the leaf whose task is not known; `tasks` those that name it.
// Together they count against the job's crash limit.
//
// Suspects are bisected: so many leaves of them, of one owner's jobs, may run together, and nothing
// beside them. What is lost again runs in halves of that; what is not has cleared itself.
//
// Thread-safety: as a container. Invariant: only entries of one leaf have `tasks`.
#ifndef TANDEM_MASTER_CORE_RETRY_TABLE_H_
#define TANDEM_MASTER_CORE_RETRY_TABLE_H_

#include <cstdint>
#include <map>

#include "absl/container/btree_map.h"
#include "common/model/range_tree.h"

namespace tandem::master {

struct Retry {
  uint32_t attempt = 1;  // The next run's.
  uint32_t failures = 0;
  uint32_t strikes = 0;
  bool suspect = false;
  uint8_t level = 0;  // Of suspects: at most 2^level leaves run together; 0: a leaf alone.
  absl::btree_map<uint64_t, uint32_t> tasks;  // Strikes by task.
  friend bool operator==(const Retry&, const Retry&) = default;
};
// So high is no level, whoever says it.
inline constexpr uint32_t kSuspectLevelMax = 40;

class RetryTable {
 public:
  // Gives the leaves these attributes. A single leaf keeps the strikes of tasks that `retry` does
  // not name.
  void Set(LeafRange leaves, Retry retry);
  void Erase(LeafRange leaves);
  void Clear() { entries_.clear(); }

  // The attributes of `leaf`, and the part of `within` from `leaf` on that has the same ones.
  // REQUIRES: within.begin <= leaf < within.end.
  struct Found {
    LeafRange leaves;
    const Retry* retry = nullptr;  // Null: none remembered.
  };
  Found Find(uint64_t leaf, LeafRange within) const;
  // f(LeafRange, const Retry*) for the parts of `within` with equal attributes, ascending.
  template <class F>
  void ForEachIn(LeafRange within, F f) const {
    while (!within.empty()) {
      const Found found = Find(within.begin, within);
      f(found.leaves, found.retry);
      within.begin = found.leaves.end;
    }
  }

  bool empty() const { return entries_.empty(); }
  size_t entries() const { return entries_.size(); }
  // For tests: dies unless intervals are apart and the invariant holds.
  void CheckInvariants() const;
  // f(LeafRange, const Retry&), ascending.
  template <class F>
  void ForEach(F f) const {
    for (const auto& [first, entry] : entries_) f(LeafRange{first, entry.end}, entry.retry);
  }

 private:
  struct Entry {
    uint64_t end = 0;
    Retry retry;
  };
  std::map<uint64_t, Entry> entries_;  // By first leaf.
};

}  // namespace tandem::master

#endif  // TANDEM_MASTER_CORE_RETRY_TABLE_H_
