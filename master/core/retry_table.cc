#include "master/core/retry_table.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/base/check.h"

namespace tandem::master {

void RetryTable::Set(LeafRange leaves, Retry retry) {
  if (leaves.empty()) return;
  if (leaves.size() == 1) {
    if (const Found old = Find(leaves.begin, leaves); old.retry != nullptr) {
      for (const auto& [task, strikes] : old.retry->tasks) retry.tasks.emplace(task, strikes);
    }
  } else {
    retry.tasks.clear();
  }
  Erase(leaves);
  entries_.emplace(leaves.begin, Entry{leaves.end, std::move(retry)});
}

void RetryTable::Erase(LeafRange leaves) {
  if (entries_.empty() || leaves.empty()) return;
  auto it = entries_.upper_bound(leaves.begin);
  if (it != entries_.begin() && std::prev(it)->second.end > leaves.begin) --it;
  while (it != entries_.end() && it->first < leaves.end) {
    const uint64_t first = it->first;
    Entry entry = std::move(it->second);
    it = entries_.erase(it);
    if (leaves.end < entry.end) {
      it = std::next(entries_.emplace(leaves.end, Entry{entry.end, entry.retry}).first);
    }
    if (first < leaves.begin) {
      entries_.emplace(first, Entry{leaves.begin, std::move(entry.retry)});
    }
  }
}

RetryTable::Found RetryTable::Find(uint64_t leaf, LeafRange within) const {
  auto it = entries_.upper_bound(leaf);
  if (it != entries_.begin()) {
    const auto before = std::prev(it);
    if (before->second.end > leaf) {
      return {{leaf, std::min(before->second.end, within.end)}, &before->second.retry};
    }
  }
  const uint64_t end = it == entries_.end() ? within.end : std::min(it->first, within.end);
  return {{leaf, end}, nullptr};
}

void RetryTable::CheckInvariants() const {
  uint64_t end = 0;
  for (const auto& [first, entry] : entries_) {
    CHECK(first >= end);
    CHECK(entry.end > first);
    CHECK(entry.retry.tasks.empty() || entry.end == first + 1);
    end = entry.end;
  }
}

}  // namespace tandem::master
