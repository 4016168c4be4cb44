#include "worker/core/lease_splits.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace tandem::worker {

std::vector<LeafRange> LeaseSplits::Range::Kept() const {
  const LeafSet kept = LeafSet::Difference(LeafSet(granted), gone);
  return {kept.begin(), kept.end()};
}

void LeaseSplits::Granted(const LeaseRun& run, MonoTime now) {
  DCHECK(has_room() && run.count() > 0);
  Range& range = open_.emplace_back();
  range.first = run.base;
  range.leases = run.Leases();
  range.granted = {run.first(), run.end()};
  range.lacks = run.count();
  range.at = now;
}

std::optional<LeaseSplits::Range> LeaseSplits::Finished(const LeaseRun& run, const Share& piece) {
  const Place range = Find(run);
  if (range == open_.end()) return std::nullopt;
  const MonoTime begin = std::max(piece.begin, range->at);
  auto share = std::find_if(range->shares.begin(), range->shares.end(),
                            [&](const Share& known) { return known.device == piece.device; });
  if (share == range->shares.end()) {
    range->shares.push_back(piece);
    range->shares.back().begin = begin;
  } else {
    share->tasks += piece.tasks;
    share->pieces += piece.pieces;
    share->begin = std::min(share->begin, begin);
    share->end = std::max(share->end, piece.end);
    share->stages.host += piece.stages.host;
    share->stages.up += piece.stages.up;
    share->stages.grid += piece.stages.grid;
    share->stages.down += piece.stages.down;
  }
  return Lose(range, run.count());
}

std::optional<LeaseSplits::Range> LeaseSplits::Left(const LeaseRun& run) {
  const Place range = Find(run);
  if (range == open_.end()) return std::nullopt;
  range->gone.Add({run.first(), run.end()});
  if (range->gone.interval_count() >= kRangesMax) {
    Forget(run);
    return std::nullopt;
  }
  return Lose(range, run.count());
}

void LeaseSplits::Forget(const LeaseRun& run) {
  if (const Place range = Find(run); range != open_.end()) open_.erase(range);
}

LeaseSplits::Place LeaseSplits::Find(const LeaseRun& run) {
  return std::find_if(open_.begin(), open_.end(),
                      [&](const Range& range) { return Holds(range, run); });
}

std::optional<LeaseSplits::Range> LeaseSplits::Lose(Place range, uint64_t leaves) {
  DCHECK(leaves <= range->lacks);
  range->lacks -= leaves;
  if (range->lacks > 0) return std::nullopt;
  std::optional<Range> ended;
  if (!range->shares.empty()) ended = std::move(*range);
  open_.erase(range);
  return ended;
}

}  // namespace tandem::worker
