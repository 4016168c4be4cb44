// The policy: how much of a job a worker is given next. Pure functions of a view; no state.
//
//   GrantPlan plan = PlanGrant(options, view);
//   if (plan.leases > 0) …grant plan.leases nodes of up to plan.lease_leaves leaves
//   ExplainGrant(options, view)  == "2 leases of 256 leaves, 0.25 s each: …"
//
// Sizes: a lease is predicted to take at most `lease_seconds_max` while a smaller node exists, and
// at most half of the worker's share of what is still free, so leases shrink towards the end: down
// to what takes as long as a message, or to `alone_seconds_min` where nobody else is to end at the
// same time. A kernel that this worker
// has not measured starts at one leaf; the core doubles `probe_leaves` with each commit. Of a job
// of which nobody has finished anything yet no more is handed out than bridges the latency: what
// other jobs of its kernel took may be wrong for it by orders of magnitude.
//
// Queue: a worker holds what it can run at once and, beyond that, enough to bridge
// `latency_factor` × (round trip + commit), at least one lease: short in seconds, so that priority,
// drain and the end of a job find little to take back. It is topped up when half of that is gone,
// so that messages coalesce.
//
// Thread-safety: pure functions.
#ifndef TANDEM_MASTER_POLICY_POLICY_H_
#define TANDEM_MASTER_POLICY_POLICY_H_

#include <cstdint>
#include <string>

namespace tandem::master {

struct PolicyOptions {
  double lease_seconds_max = 1.0;
  double latency_factor = 4.0;
  double end_fraction = 0.5;         // Of the share still free, at most, in one lease.
  double alone_seconds_min = 0.1;    // The only worker's leases shrink no further.
  double steal_seconds_min = 0.020;  // Less than this is not worth taking from another worker.
};

// All that a decision may depend on.
struct GrantView {
  // The job.
  uint64_t free_leaves = 0;       // Nobody has them.
  uint64_t max_lease_leaves = 0;  // Its owner's bound; 0: none.
  // The worker and the job's kernel.
  bool measured = false;  // The kernel, by this worker.
  bool proven = false;    // The job itself, by any.
  double leaf_seconds =
      0;  // What one more leaf adds to the worker's work; a guess unless measured.
  uint64_t probe_leaves = 1;  // Unmeasured: the most leaves in one lease.
  double share = 1;           // Of the whole cluster's speed for this kernel, in (0, 1].
  // The worker.
  uint64_t parallel = 1;       // Leaves that it can run at once.
  double latency_seconds = 0;  // Round trip + commit.
  double queued_seconds = 0;   // Predicted, of everything it holds at this priority or above.
  uint64_t queued_leases = 0;  // The same.
  uint64_t held_leases = 0;    // All it holds.
  uint64_t max_leases = 1;     // The most it may hold.
};

enum class GrantBound : uint8_t {
  kNothingFree,
  kQueueFull,    // Topped up once half of what bridges the latency is gone.
  kLeasesFull,   // The worker's own bound.
  kProbing,      // One leaf, doubled with each commit.
  kUnproven,     // Half of what bridges the latency.
  kSeconds,      // lease_seconds_max.
  kShare,        // Half of the share still to come.
  kOwnersBound,  // max_lease_leaves.
};

struct GrantPlan {
  uint64_t lease_leaves = 0;
  uint64_t leases = 0;                          // 0: nothing now.
  GrantBound bound = GrantBound::kNothingFree;  // What decided the size, or why there is nothing.
  uint64_t queue_leases = 0;                    // How many the worker shall hold.
};
GrantPlan PlanGrant(const PolicyOptions& options, const GrantView& view);
// The same decision in one line for people.
std::string ExplainGrant(const PolicyOptions& options, const GrantView& view);

// The order in which jobs are served: larger priority, then less device time so far, then older.
struct JobRank {
  int32_t priority = 0;
  double served_seconds = 0;
  uint64_t job = 0;
  friend bool operator<(const JobRank& a, const JobRank& b) {
    if (a.priority != b.priority) return a.priority > b.priority;
    if (a.served_seconds != b.served_seconds) return a.served_seconds < b.served_seconds;
    return a.job < b.job;
  }
  friend bool operator==(const JobRank&, const JobRank&) = default;
};

// May an idle worker take unstarted leaves back from a busy one?
struct StealView {
  uint64_t victim_leaves = 0;      // Of the job, outstanding at the victim.
  double victim_leaf_seconds = 0;  // There.
  uint64_t victim_parallel = 1;    // So many may have started.
  double thief_leaf_seconds = 0;   // Here.
  double latency_seconds = 0;      // Of both together.
};
// How many leaves to recall so that both would end together; 0: not worth it.
uint64_t PlanSteal(const PolicyOptions& options, const StealView& view);

}  // namespace tandem::master

#endif  // TANDEM_MASTER_POLICY_POLICY_H_
