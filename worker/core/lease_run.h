// LeaseRun: leaves that a worker holds, with what names their leases. The unit in which leaves move
// between pool, pieces, accumulators and reports.
//
// A run always lies within one grant: the master knows it by the grant's numbering.
//
// Thread-safety: a value type.
#ifndef TANDEM_WORKER_CORE_LEASE_RUN_H_
#define TANDEM_WORKER_CORE_LEASE_RUN_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/model/ids.h"
#include "common/model/lease_messages.h"

namespace tandem::worker {

struct LeaseRun {
  LeafInterval leaves;
  LeaseId base;            // The lease that holds `base_leaf`, where the grant began; the
  uint64_t base_leaf = 0;  // others follow, 2^level leaves each.
  uint8_t level = 0;
  bool suspect = false;
  LeaseId suspect_set;  // n not 0: other suspects of this set may run beside it
  uint32_t attempt = 0;
  uint64_t need_bytes = 0;  // 0, or what a device's budget must be: a smaller one was too small
  std::shared_ptr<const std::vector<uint64_t>> skip_tasks;  // of the whole grant; may be null

  uint64_t first() const { return leaves.first; }
  uint64_t end() const { return leaves.first + leaves.count; }
  uint64_t count() const { return leaves.count; }
  uint64_t NumberOf(uint64_t leaf) const { return base.n + ((leaf - base_leaf) >> level); }
  bool task_by_task() const { return suspect && !suspect_set.valid() && leaves.count == 1; }
  LeaseId lease() const { return {base.epoch, NumberOf(leaves.first)}; }
  // How many leases it touches. REQUIRES: not empty.
  uint64_t Leases() const { return NumberOf(end() - 1) - NumberOf(first()) + 1; }
  LeafRun ToLeafRun() const { return {NumberOf(leaves.first), leaves}; }
  bool SameGrant(const LeaseRun& other) const {
    return base == other.base && base_leaf == other.base_leaf && level == other.level &&
           need_bytes == other.need_bytes;
  }
  // True when `next` goes on where this run ends.
  bool Precedes(const LeaseRun& next) const { return end() == next.first() && SameGrant(next); }

  // REQUIRES: [first, first + count) lies in the run.
  LeaseRun Part(uint64_t first, uint64_t count) const {
    LeaseRun part = *this;
    part.leaves = {first, count};
    return part;
  }
  // The part in [from, to); empty when there is none.
  LeaseRun Within(uint64_t from, uint64_t to) const {
    const uint64_t begin = std::max(from, first());
    const uint64_t stop = std::min(to, end());
    return Part(begin, begin < stop ? stop - begin : 0);
  }

  // The run that a grant gives, clipped at the job's last leaf.
  static LeaseRun Of(const Grant& grant, Epoch epoch, uint64_t leaf_count) {
    LeaseRun run;
    run.base = {epoch, grant.first_n};
    run.base_leaf = grant.first_leaf;
    run.level = grant.level;
    run.suspect = grant.suspect;
    if (grant.suspect && grant.suspect_set != 0) run.suspect_set = {epoch, grant.suspect_set};
    run.attempt = grant.attempt;
    const uint64_t room = leaf_count - std::min(leaf_count, grant.first_leaf);
    const bool fits = grant.count <= (room >> grant.level);
    run.leaves = {grant.first_leaf, fits ? grant.count << grant.level : room};
    if (!grant.skip_tasks.empty()) {
      run.skip_tasks = std::make_shared<const std::vector<uint64_t>>(grant.skip_tasks);
    }
    return run;
  }
};

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_CORE_LEASE_RUN_H_
