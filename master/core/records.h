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

#include "absl/time/time.h"
#include "common/model/bound_job.h"
#include "common/model/ids.h"
#include "common/model/job_spec.h"
#include "common/model/kernel_info.h"
#include "common/model/lease_messages.h"

namespace tandem::master {

struct JobAccepted {
  JobId job;
  std::shared_ptr<const JobSpec> spec;
  std::shared_ptr<const BoundJob> bound;
  std::shared_ptr<const KernelInfo> kernel;
  std::string request_id;
  uint64_t request_hash = 0;
  absl::Time submitted;
};

// One accepted commit. `outputs` of concatenated outputs go to the output index as rows (the shell
// makes them from `runs`); those of reduced outputs make partial `partial_id`.
struct LeavesDone {
  JobId job;
  std::vector<LeafInterval> leaves;   // what became done
  std::vector<LeafInterval> covered;  // what the outputs cover (leaves to be retried included)
  OutputsHandle outputs;
  std::vector<TaskFailure> failures;  // of `leaves` only
  uint64_t partial_id = 0;            // 0: no reduced outputs
  uint64_t partial_tasks = 0;
  uint64_t busy_ns = 0;
};

struct PartialsMerged {
  JobId job;
  std::vector<uint64_t> consumed;
  Partial result;
};

// A leaf that goes back with another attempt or strike.
struct LeavesRetried {
  JobId job;
  LeafInterval leaves;
  uint32_t attempt = 0;  // the next run's
  uint32_t failures = 0;
  uint32_t strikes = 0;
  bool suspect = false;
  bool task_known = false;
  uint64_t task = 0;
  uint32_t task_strikes = 0;
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

struct KernelAnnounced {
  std::shared_ptr<const KernelInfo> kernel;
};

using Record = std::variant<JobAccepted, LeavesDone, PartialsMerged, LeavesRetried, JobCancelled,
                            JobEnded, JobDeleted, WorkerKnown, WorkerForgotten, KernelAnnounced>;

}  // namespace tandem::master

#endif  // TANDEM_MASTER_CORE_RECORDS_H_
