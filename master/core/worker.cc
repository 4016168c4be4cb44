#include "master/core/worker.h"

#include <algorithm>

namespace tandem::master {

void QueueLoad::Add(int32_t priority, int64_t leases, double seconds) {
  leases_ += leases;
  for (Entry& entry : entries_) {
    if (entry.priority != priority) continue;
    entry.sum.leases += leases;
    entry.sum.seconds += seconds;
    // An empty queue takes no time: what rounding left is dropped, and the entry with it.
    if (entry.sum.leases == 0) {
      entry = entries_.back();
      entries_.pop_back();
    }
    return;
  }
  if (leases != 0 || seconds != 0) entries_.push_back({priority, {leases, seconds}});
}

QueueLoad::Sum QueueLoad::AtLeast(int32_t priority) const {
  Sum sum;
  for (const Entry& entry : entries_) {
    if (entry.priority < priority) continue;
    sum.leases += entry.sum.leases;
    sum.seconds += entry.sum.seconds;
  }
  return sum;
}

QueueLoad::Sum QueueLoad::Below(int32_t priority) const {
  const Sum above = AtLeast(priority);
  Sum sum;
  for (const Entry& entry : entries_) {
    sum.leases += entry.sum.leases;
    sum.seconds += entry.sum.seconds;
  }
  return {sum.leases - above.leases, sum.seconds - above.seconds};
}

namespace {

int64_t ParkedLeases(const JobAtWorker& at) {
  if (at.leaves == 0) return 0;
  return static_cast<int64_t>(static_cast<double>(at.leases) * static_cast<double>(at.parked) /
                              static_cast<double>(at.leaves));
}

}  // namespace

void Park(Worker& worker, JobAtWorker& at, uint64_t leaves) {
  worker.parked_leases -= at.counted_parked_leases;
  worker.parked_ns -= at.counted_parked_ns;
  at.parked = std::min(leaves, at.leaves);
  at.counted_parked_leases = ParkedLeases(at);
  constexpr double kNanosMax = 0x1p53;
  at.counted_parked_ns = static_cast<int64_t>(
      std::min(at.leaf_seconds * static_cast<double>(at.parked) * 1e9, kNanosMax));
  worker.parked_leases += at.counted_parked_leases;
  worker.parked_ns += at.counted_parked_ns;
}

}  // namespace tandem::master
