// LeaseSplits: how a worker's devices share out the leases of one job, for people who ask why.
//
// What was granted together, a run of leases, is a *range*. A piece counts for its range when it
// has finished, with the leaves that it has then: what was pulled, stolen or shrunk before makes no
// difference. A range ends when each of its leaves was finished or has gone (given back, or lost
// with its executor).
//
//   splits.Granted(run, now);
//   if (auto range = splits.Finished(run, device, piece)) …  // each leaf once, in one of the two
//   if (auto range = splits.Left(run)) …                     // no value: it has not ended
//
// A range of which nothing was finished here ends without a word, and so does one whose finished
// leaves run again (Forget) or whose leases were renewed by a Welcome (Clear).
//
// Thread-safety: one thread. Bounds: kOpenMax ranges; of grants that are not given to it nothing is
// known. Cost: a look at the open ranges. Invariants: the leaves that a range lacks are those
// of it that are in the pool or in pieces.
#ifndef TANDEM_WORKER_CORE_LEASE_SPLITS_H_
#define TANDEM_WORKER_CORE_LEASE_SPLITS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "common/base/clock.h"
#include "common/model/ids.h"
#include "common/model/leaf_set.h"
#include "common/model/lease_messages.h"
#include "worker/core/device_model.h"
#include "worker/core/lease_run.h"

namespace tandem::worker {

class LeaseSplits {
 public:
  static constexpr size_t kOpenMax = 16;
  static constexpr size_t kRangesMax = 16;  // that are left of one of which others went away

  // Pieces of one range on one device; of a single one, too.
  struct Share {
    uint32_t device = 0;
    uint64_t tasks = 0;
    uint64_t pieces = 0;
    MonoTime begin, end;  // of the first and of the last
    BatchSeconds stages;  // summed
  };
  struct Range {
    LeaseId first;
    uint64_t leases = 0;
    LeafRange granted;
    uint64_t lacks = 0;  // leaves
    LeafSet gone;
    MonoTime at;
    absl::InlinedVector<Share, 2> shares;  // in the order in which devices finished their first

    // What was finished here, in order.
    std::vector<LeafRange> Kept() const;
  };

  bool has_room() const { return open_.size() < kOpenMax; }
  // From now on it is followed. REQUIRES: a whole grant, not empty; has_room().
  void Granted(const LeaseRun& run, MonoTime now);
  std::optional<Range> Finished(const LeaseRun& run, const Share& piece);
  std::optional<Range> Left(const LeaseRun& run);
  void Forget(const LeaseRun& run);
  void Clear() { open_.clear(); }

  const std::vector<Range>& open() const { return open_; }
  static bool Holds(const Range& range, const LeaseRun& run) {
    return range.first == run.base && range.granted.begin == run.base_leaf;
  }

 private:
  using Place = std::vector<Range>::iterator;
  Place Find(const LeaseRun& run);
  std::optional<Range> Lose(Place range, uint64_t leaves);

  std::vector<Range> open_;
};

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_CORE_LEASE_SPLITS_H_
