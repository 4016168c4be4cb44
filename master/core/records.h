// The records of the master's log, as plain data: the pure form of proto/tandem/journal/v1.
//
// Replaying every record in order rebuilds the core's durable state (no leases, no rates). A
// snapshot is the shortest list of records that makes the present state.
//
// Thread-safety: plain data.
#ifndef TANDEM_MASTER_CORE_RECORDS_H_
#define TANDEM_MASTER_CORE_RECORDS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/time/time.h"
#include "common/model/bound_job.h"
#include "common/model/ids.h"
#include "common/model/job_spec.h"
#include "common/model/kernel_info.h"
#include "common/model/lease_messages.h"

namespace tandem::master {

struct JobAccepted {
  JobId job;
  std::shared_ptr<const BoundJob> bound;
  std::string request_id;
  uint64_t request_hash = 0;
  absl::Time submitted;
};

// Intervals, ascending and apart. Most often one.
using LeafIntervals = absl::InlinedVector<LeafInterval, 1>;

// One accepted commit. `outputs` of concatenated outputs go to the output index as rows: one for
// each interval of `leaves`, whose bytes lie at that interval's place among the bytes of `covered`
// (one interval). Those of reduced outputs make partial `partial_id`.
// Leaves that were given up (CRASH_LIMIT) are done without outputs: outputs is null then.
struct LeavesDone {
  JobId job;
  LeafIntervals leaves;   // what became done
  LeafIntervals covered;  // what the outputs cover (leaves to be retried or stale ones included)
  OutputsHandle outputs;
  uint64_t tasks_failed = 0;          // of `leaves` only
  std::vector<TaskFailure> failures;  // the same ones; at most Limits::failures_listed_max of them
  uint64_t partial_id = 0;            // 0: no reduced outputs
  uint64_t partial_tasks = 0;
  uint64_t busy_ns = 0;
};

// Replaces partials by one. None consumed: adds one (in a snapshot). `result.leaves` is the node of
// an ordered reduction's partial; it is empty for exact ones, which cover any leaves.
struct PartialsMerged {
  JobId job;
  std::vector<uint64_t> consumed;
  Partial result;
};

// Leaves that go back with another attempt or strike. Sets these attributes; a known task's strikes
// are kept beside those of the leaf's other tasks.
struct LeavesRetried {
  JobId job;
  LeafInterval leaves;
  uint32_t attempt = 0;   // the next run's
  uint32_t failures = 0;  // runs that ended with a task's own failure, so far
  uint32_t strikes = 0;   // crashes whose task is not known, so far
  bool suspect = false;   // runs with nothing beside it …
  uint8_t level = 0;      // … but other suspects: 2^level leaves at most, together
  bool task_known = false;
  uint64_t task = 0;
  uint32_t task_strikes = 0;  // crashes in this task, so far
};

struct JobCancelled {
  JobId job;
};

struct JobEnded {
  JobId job;
  uint8_t state = 0;  // master::JobState
  std::string reason;
};

struct JobDeleted {
  JobId job;
};

struct WorkerKnown {
  WorkerId worker;
  std::string name;
};

struct WorkerForgotten {
  WorkerId worker;
};

// By name, so that it holds for a worker that leaves and comes back.
struct WorkerDrained {
  std::string name;
  bool drain = true;  // False: resumed.
};

struct KernelAnnounced {
  std::shared_ptr<const KernelInfo> kernel;
};

// The largest ids that may have been given, so that none is given twice although its record was
// compacted away, or lost: a job's number is reserved before a worker hears of it. The last of
// these records counts, and what was accepted after it.
struct IdsIssued {
  JobId job;
  WorkerId worker;
};

using Record = std::variant<JobAccepted, LeavesDone, PartialsMerged, LeavesRetried, JobCancelled,
                            JobEnded, JobDeleted, WorkerKnown, WorkerForgotten, KernelAnnounced,
                            IdsIssued, WorkerDrained>;

}  // namespace tandem::master

#endif  // TANDEM_MASTER_CORE_RECORDS_H_
