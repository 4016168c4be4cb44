#include "worker/core/pool.h"

#include <algorithm>
#include <iterator>

#include "common/base/check.h"

namespace tandem::worker {

void Pool::PushBack(LeaseRun run) {
  if (run.count() == 0) return;
  leaves_ += run.count();
  if (!runs_.empty() && runs_.back().Precedes(run)) {
    runs_.back().leaves.count += run.count();
    return;
  }
  runs_.push_back(std::move(run));
}

void Pool::PushFront(LeaseRun run) {
  if (run.count() == 0) return;
  leaves_ += run.count();
  if (!runs_.empty() && run.Precedes(runs_.front())) {
    runs_.front().leaves.first = run.first();
    runs_.front().leaves.count += run.count();
    return;
  }
  runs_.push_front(std::move(run));
}

LeaseRun Pool::TakeFront(uint64_t count) {
  LeaseRun& front = runs_.front();
  DCHECK(count >= 1 && count <= front.count());
  leaves_ -= count;
  if (count == front.count()) {
    LeaseRun taken = std::move(front);
    runs_.pop_front();
    return taken;
  }
  LeaseRun taken = front.Part(front.first(), count);
  front.leaves.first += count;
  front.leaves.count -= count;
  return taken;
}

LeaseRun Pool::TakeBack(uint64_t count) {
  LeaseRun& back = runs_.back();
  DCHECK(count >= 1 && count <= back.count());
  leaves_ -= count;
  if (count == back.count()) {
    LeaseRun taken = std::move(back);
    runs_.pop_back();
    return taken;
  }
  LeaseRun taken = back.Part(back.end() - count, count);
  back.leaves.count -= count;
  return taken;
}

std::vector<LeaseRun> Pool::TakeWithin(uint64_t from, uint64_t to) {
  std::vector<LeaseRun> taken;
  std::deque<LeaseRun> kept;
  for (LeaseRun& run : runs_) {
    LeaseRun part = run.Within(from, to);
    if (part.count() == 0) {
      kept.push_back(std::move(run));
      continue;
    }
    leaves_ -= part.count();
    if (run.first() < part.first()) {
      kept.push_back(run.Part(run.first(), part.first() - run.first()));
    }
    if (part.end() < run.end()) kept.push_back(run.Part(part.end(), run.end() - part.end()));
    taken.push_back(std::move(part));
  }
  runs_ = std::move(kept);
  return taken;
}

std::vector<LeaseRun> Pool::TakeAll() {
  std::vector<LeaseRun> taken(std::make_move_iterator(runs_.begin()),
                              std::make_move_iterator(runs_.end()));
  runs_.clear();
  leaves_ = 0;
  return taken;
}

void Pool::CheckInvariants() const {
  uint64_t leaves = 0;
  for (const LeaseRun& run : runs_) {
    CHECK(run.count() > 0);
    CHECK(run.first() >= run.base_leaf);
    leaves += run.count();
  }
  CHECK_EQ(leaves, leaves_);
}

uint64_t PieceLeaves(const RangeTree& tree, const LeaseRun& run, bool whole_nodes,
                     uint64_t leaves_max, PoolEnd end) {
  const uint64_t lease = uint64_t{1} << run.level;
  const uint64_t most = std::min(leaves_max, run.count());
  const bool front = end == PoolEnd::kFront;
  const uint64_t edge = front ? run.first() : run.end();
  if (!whole_nodes && most >= lease && (edge - run.base_leaf) % lease == 0) {
    return most / lease * lease;
  }
  const LeafRange within{run.first(), run.end()};
  return tree.LeafCount(front ? tree.LargestNodeAt(edge, most, within)
                              : tree.LargestNodeEndingAt(edge, most, within));
}

}  // namespace tandem::worker
