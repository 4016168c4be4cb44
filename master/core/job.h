// Job: everything the core knows of one job.
//
// Durable fields change only by applying a record (apply.h), so that a replay makes the same ones.
// The others, what is free, leased or waited for, are rebuilt or start afresh after a restart.
//
// Thread-safety: as a struct. Invariants: of an unfinished job each leaf is in exactly one of
// `done`, `free`, `free_suspects`, `free_large` and `leases`.
#ifndef TANDEM_MASTER_CORE_JOB_H_
#define TANDEM_MASTER_CORE_JOB_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/model/bound_job.h"
#include "common/model/leaf_set.h"
#include "master/core/events.h"
#include "master/core/job_phase.h"
#include "master/core/lease_table.h"
#include "master/core/partial_set.h"
#include "master/core/retry_table.h"
#include "master/policy/policy.h"

namespace tandem::master {

enum class ReductionKind : uint8_t { kNone, kExact, kOrdered };

// A merge that a worker has been asked for.
struct MergeLease {
  WorkerId worker;
  std::vector<uint64_t> inputs;  // Partials, set apart.
};

struct Job {
  // ---- durable ----
  JobId id;
  std::shared_ptr<const BoundJob> bound;
  std::string request_id;
  uint64_t request_hash = 0;
  absl::Time submitted;
  JobPhase phase;  // Its three ends are durable.
  LeafSet done;
  RetryTable retries;
  PartialSet partials;
  uint64_t tasks_failed = 0;
  uint64_t busy_ns = 0;

  // ---- what follows from the spec ----
  ReductionKind reduction = ReductionKind::kNone;
  size_t job_class = 0;  // State::classes.

  // ---- not durable ----
  LeafSet free;
  LeafSet free_suspects;  // Free ones that run alone.
  // Free ones for which a worker had not the memory, by the budget that a device must have.
  absl::btree_set<std::pair<uint64_t, uint64_t>> free_large;  // (bytes, leaf)
  LeaseTable leases;
  std::map<uint64_t, MergeLease> merges;  // By lease number.
  uint32_t merge_failures = 0;
  // Since a leaf was last finished:
  uint64_t given_up_in_row = 0;       // leaves, for their crashes;
  uint64_t crash_faults = 0;          // workers' words that executors end before anything begins.
  absl::btree_set<WorkerId> workers;  // That it has been described to.
  bool durable = false;               // Its acceptance is.
  JobId reserves;                     // As far as numbers are reserved once it is.
  bool recovered = false;             // From before the last restart.
  bool failing = false;               // Too many task failures: ends in this Step.
  JobRank rank;                       // As it stands in its class; only meaningful while `ready`.
  bool ready = false;                 // In its class's order.
  double served_base = 0;             // Where it began among jobs that were served before it came.
  double outstanding_seconds = 0;     // Predicted, of the leases out.
  // Over the workers that have committed leaves of it in this session. Rates belong to the job:
  // what a kernel's task costs may lie in its data.
  uint64_t measured = 0;
  double leaves_per_second = 0;
  MonoTime accepted_at;
  std::optional<absl::Duration> started_after;
  uint64_t sequence = 0;
  uint64_t leases_granted = 0;
  uint64_t retried_tasks = 0;
  WaitReason wait_reason = WaitReason::kNone;
  std::string wait_note;   // The last reason why a worker could not run it.
  bool dirty = false;      // Its status has changed in this Step.
  size_t status_slot = 0;  // Where its status lies in the Effects, if it is there still.

  const JobSpec& spec() const { return bound->spec; }
  const RangeTree& tree() const { return bound->tree; }
  bool ended() const { return Ended(phase); }
  bool all_done() const { return done.count() == tree().leaf_count(); }
  bool anything_free() const {
    return !free.empty() || !free_suspects.empty() || !free_large.empty();
  }
  // Tasks of the leaves that are done. The last leaf may be shorter than the others.
  uint64_t tasks_done() const;
  double served_seconds() const {
    return served_base + static_cast<double>(busy_ns) * 1e-9 + outstanding_seconds;
  }
  uint64_t crash_limit() const { return spec().crash_limit; }

  // For tests: dies unless the invariants hold.
  void CheckInvariants() const;
};

// A new job, nothing done. `class` is not set.
std::unique_ptr<Job> MakeJob(JobId id, std::shared_ptr<const BoundJob> bound);
// Leaves as the messages write them.
inline LeafRange RangeOf(const LeafInterval& leaves) {
  return {leaves.first, leaves.first + leaves.count};
}
inline LeafInterval IntervalOf(LeafRange leaves) { return {leaves.begin, leaves.size()}; }
// Tasks of the leaf that were given up (as many strikes as the limit), ascending.
std::vector<uint64_t> GivenUpTasks(const Job& job, const Retry& retry);

}  // namespace tandem::master

#endif  // TANDEM_MASTER_CORE_JOB_H_
