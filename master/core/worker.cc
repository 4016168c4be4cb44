#include "master/core/worker.h"

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

}  // namespace tandem::master
