// Pool: the unstarted leaves of one job at this worker, in the order in which they are to be run.
//
//   pool.PushBack(LeaseRun::Of(grant, epoch, tree.leaf_count()));
//   LeaseRun piece = pool.TakeFront(leaves);   // or TakeBack: devices pull from both ends
//
// Thread-safety: as a container. Invariants: 1. no run is empty; 2. leaves() is their sum.
#ifndef TANDEM_WORKER_CORE_POOL_H_
#define TANDEM_WORKER_CORE_POOL_H_

#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "common/model/range_tree.h"
#include "worker/core/lease_run.h"
#include "worker/core/puller.h"

namespace tandem::worker {

class Pool {
 public:
  bool empty() const { return runs_.empty(); }
  uint64_t leaves() const { return leaves_; }
  // REQUIRES: !empty().
  const LeaseRun& front() const { return runs_.front(); }
  const LeaseRun& back() const { return runs_.back(); }
  const std::deque<LeaseRun>& runs() const { return runs_; }

  // An empty run changes nothing.
  void PushBack(LeaseRun run);
  // For what comes back: it goes first, joined to what it was taken from.
  void PushFront(LeaseRun run);
  // Takes the first `count` leaves of the first run. REQUIRES: 1 <= count <= front().count().
  LeaseRun TakeFront(uint64_t count);
  // Takes the last `count` leaves of the last run. REQUIRES: 1 <= count <= back().count().
  LeaseRun TakeBack(uint64_t count);
  // Takes every leaf in [from, to).
  std::vector<LeaseRun> TakeWithin(uint64_t from, uint64_t to);
  std::vector<LeaseRun> TakeAll();

  // For tests: dies unless the invariants hold.
  void CheckInvariants() const;

 private:
  std::deque<LeaseRun> runs_;
  uint64_t leaves_ = 0;
};

// How many leaves of `run` a piece of at most `leaves_max` takes from that end. A piece is a node
// of the tree, or, unless it must be one, a number of whole equal leases: so that whoever takes it
// over after a rejoin can name it as one run. REQUIRES: run.count() >= 1, leaves_max >= 1.
uint64_t PieceLeaves(const RangeTree& tree, const LeaseRun& run, bool whole_nodes,
                     uint64_t leaves_max, PoolEnd end);

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_CORE_POOL_H_
