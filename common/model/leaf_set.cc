#include "common/model/leaf_set.h"

#include <algorithm>
#include <iterator>

#include "common/base/check.h"
#include "common/base/strings.h"

namespace tandem {

LeafSet::Intervals::const_iterator LeafSet::FirstEndingAtOrAfter(uint64_t leaf) const {
  if (intervals_.empty()) return intervals_.end();
  // Work goes on where it went on before: look at the ends first.
  auto last = std::prev(intervals_.end());
  if (last->begin <= leaf) return last->end >= leaf ? last : intervals_.end();
  auto it = intervals_.begin();
  if (it->end >= leaf) return it;
  it = intervals_.upper_bound(leaf);
  if (it != intervals_.begin()) {
    auto before = std::prev(it);
    if (before->end >= leaf) return before;
  }
  return it;
}

uint64_t LeafSet::Add(LeafRange range) {
  if (range.empty()) return 0;
  if (!intervals_.empty()) {
    // In order: the last interval grows. (The general case below would do the same.)
    const auto last = std::prev(intervals_.end());
    if (last->end == range.begin) {
      last->end = range.end;
      count_ += range.size();
      return range.size();
    }
  }
  auto it = FirstEndingAtOrAfter(range.begin);
  if (it == intervals_.end() || it->begin > range.end) {
    intervals_.insert(it, Interval{range.begin, range.end});
    count_ += range.size();
    return range.size();
  }
  // `it` touches the range: it grows to cover it and absorbs what else the range touches.
  uint64_t covered = it->end - it->begin;
  uint64_t end = std::max(it->end, range.end);
  auto next = std::next(it);
  const uint64_t begin = std::min(it->begin, range.begin);
  it->begin = begin;
  if (next != intervals_.end() && next->begin <= range.end) {
    const auto first_absorbed = next;
    for (; next != intervals_.end() && next->begin <= range.end; ++next) {
      covered += next->end - next->begin;
      end = std::max(end, next->end);
    }
    it->end = end;
    intervals_.erase(first_absorbed, next);
  } else {
    it->end = end;
  }
  const uint64_t added = end - begin - covered;
  count_ += added;
  return added;
}

uint64_t LeafSet::Remove(LeafRange range) {
  if (range.empty()) return 0;
  uint64_t removed = 0;
  auto it = FirstEndingAtOrAfter(range.begin + 1);
  while (it != intervals_.end() && it->begin < range.end) {
    const LeafRange old{it->begin, it->end};
    removed += std::min(old.end, range.end) - std::max(old.begin, range.begin);
    const bool keeps_left = old.begin < range.begin;
    const bool keeps_right = old.end > range.end;
    if (keeps_left) it->end = range.begin;
    if (keeps_left && keeps_right) {
      intervals_.insert(std::next(it), Interval{range.end, old.end});
      break;
    }
    if (keeps_right) {
      it->begin = range.end;
      break;
    }
    it = keeps_left ? std::next(it) : intervals_.erase(it);
  }
  count_ -= removed;
  return removed;
}

void LeafSet::AddAll(const LeafSet& other) {
  if (empty()) {
    *this = other;
    return;
  }
  for (const LeafRange range : other) Add(range);
}

bool LeafSet::ContainsAll(LeafRange range) const {
  if (range.empty()) return true;
  const auto it = FirstEndingAtOrAfter(range.end);
  return it != intervals_.end() && it->begin <= range.begin;
}

bool LeafSet::Intersects(LeafRange range) const {
  if (range.empty()) return false;
  const auto it = FirstEndingAtOrAfter(range.begin + 1);
  return it != intervals_.end() && it->begin < range.end;
}

LeafSet LeafSet::Difference(const LeafSet& a, const LeafSet& b) {
  LeafSet result = a;
  for (const LeafRange range : b) result.Remove(range);
  return result;
}

LeafSet LeafSet::Within(LeafRange range) const {
  LeafSet result;
  if (range.empty()) return result;
  for (auto it = FirstEndingAtOrAfter(range.begin + 1);
       it != intervals_.end() && it->begin < range.end; ++it) {
    result.Add({std::max(it->begin, range.begin), std::min(it->end, range.end)});
  }
  return result;
}

std::string LeafSet::ToString() const {
  std::string text = "{";
  for (const LeafRange range : *this) {
    StrAppend(&text, text.size() == 1 ? "" : ",", range);
  }
  return text + "}";
}

bool operator==(const LeafSet& a, const LeafSet& b) {
  return a.count_ == b.count_ && a.intervals_.size() == b.intervals_.size() &&
         std::equal(a.begin(), a.end(), b.begin());
}

void LeafSet::CheckInvariants() const {
  uint64_t count = 0;
  const Interval* before = nullptr;
  for (const Interval& interval : intervals_) {
    CHECK(interval.begin < interval.end);
    CHECK(before == nullptr || before->end < interval.begin);
    count += interval.end - interval.begin;
    before = &interval;
  }
  CHECK(count == count_);
}

}  // namespace tandem
