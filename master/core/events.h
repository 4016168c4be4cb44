// What goes into the master's core and what comes out of it.
//
//   MasterCore core(options);
//   core.Step(WorkerReported{worker, report}, now, &effects);
//   // shell: append effects.records as one commit; send `describes`, `to_workers`, `drains` and
//   //        `ends` at once; when that commit is durable, send `drops`, `acks`, `replies` and
//   //        `statuses`, and Step(JobDurable) for each JobAccepted in it.
//
// The shell may Step several events into one Effects and then act on it once; order inside each
// vector is order of emission. What waits for durability waits for every record emitted before it,
// in the same or an earlier Effects, also when this Effects has no record of its own. What goes to
// a worker at once depends on no record: grants are fenced by (epoch, n).
//
// Thread-safety: plain data.
#ifndef TANDEM_MASTER_CORE_EVENTS_H_
#define TANDEM_MASTER_CORE_EVENTS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/model/bound_job.h"
#include "common/model/ids.h"
#include "common/model/job_spec.h"
#include "common/model/kernel_info.h"
#include "common/model/lease_messages.h"
#include "master/core/records.h"

namespace tandem::master {

// Names a caller that waits for an answer (an RPC in flight). Chosen by the shell.
using RequestToken = uint64_t;

// ---- events ----

// The shell has validated and bound the spec against its kernel (ValidateAndBind), and the blobs
// exist.
struct SubmitJob {
  RequestToken token = 0;
  std::shared_ptr<const BoundJob> bound;
  std::string request_id;
  uint64_t request_hash = 0;
  absl::Time submitted;  // wall time, for people
  // Why it cannot be accepted as a new job. A request that has made its job is answered with that.
  absl::Status objection;
};

// The commit with the job's JobAccepted record is durable. Workers may have heard of it before, if
// its number was reserved: were the record lost in a crash, and the number given to another job, a
// worker that held leaves of the first would bring its results to the second.
struct JobDurable {
  JobId job;
};

struct CancelJob {
  RequestToken token = 0;
  JobId job;
  std::string owner;
};

struct DeleteJob {  // of a terminal job: retention, or by its owner
  RequestToken token = 0;
  JobId job;
  std::string owner;
};

struct WorkerAttach {
  RequestToken token = 0;  // the stream; answered with a WelcomeWorker or a Rejection
  std::string name;
  uint64_t incarnation = 0;
  uint64_t max_epoch = 0;
  std::vector<DeviceInfo> devices;
  std::vector<KernelInfo> kernels;
  std::vector<HeldLeaves> held;
  uint64_t max_leases = 0;
};

// The worker's stream has ended; its leases live on for the reconnect grace.
struct WorkerDetached {
  WorkerId worker;
  RequestToken stream = 0;  // ignored unless it is the worker's present stream
};

struct WorkerLeft {  // said goodbye; everything was handed back
  WorkerId worker;
};

struct WorkerReported {
  WorkerId worker;
  Report report;
};

struct WorkerPulsed {  // renews every lease of this worker
  WorkerId worker;
  absl::Duration round_trip;
};

struct WorkerAnnounced {
  WorkerId worker;
  std::vector<KernelInfo> kernels;
};

// Held by name: a worker that is away, or gone, is drained when it comes back.
struct DrainWorker {
  RequestToken token = 0;
  WorkerId worker;
  bool drain = true;  // false: resume
  std::string name;   // instead of `worker`, when that is not valid
};

struct Tick {};  // the deadline has come

using Event =
    std::variant<SubmitJob, JobDurable, CancelJob, DeleteJob, WorkerAttach, WorkerDetached,
                 WorkerLeft, WorkerReported, WorkerPulsed, WorkerAnnounced, DrainWorker, Tick>;

// ---- effects ----

struct WelcomeWorker {
  RequestToken stream = 0;
  WorkerId worker;
  Epoch epoch;
  absl::Duration lease_ttl;
  absl::Duration heartbeat;
  std::vector<Grant> adopted;
  std::vector<JobId> jobs;  // describe these to it
};

// One message to one worker; the shell merges what is ready into the next write.
struct ToWorker {
  WorkerId worker;
  std::variant<WelcomeWorker, Grant, MergeGrant, Recall, Outlook> what;
};

// These say what they are in their names; see worker.proto.
struct DescribeJob {
  WorkerId worker;
  JobId job;  // before the first grant of it
};
struct DropJob {  // durable first: until then the worker keeps what it holds of the job
  WorkerId worker;
  JobId job;
};
struct AckReport {  // durable first; acknowledges every report up to `number`
  WorkerId worker;
  uint64_t number = 0;
};
struct SetDrain {
  WorkerId worker;
  bool drain = true;
};

// The worker on this stream has been silent for too long and its leases are void: end the stream,
// so that it attaches anew if it lives.
struct EndStream {
  WorkerId worker;
  RequestToken stream = 0;
  absl::Status why;
};

// Answers a RequestToken. Durable first.
struct Reply {
  RequestToken token = 0;
  absl::StatusOr<JobId> result;  // a worker's rejection or a drain's answer has only the status
};

enum class JobState { kPending, kRunning, kMerging, kSucceeded, kFailed, kCancelled };
enum class WaitReason {
  kNone,
  kNoWorker,
  kNoKernel,
  kResources,
  kDependency,
  kQuota,
  kPriority,
  kUnsatisfiable,
  kDrained
};

// A job as watchers may see it once durable.
struct JobStatus {
  JobId job;
  uint64_t sequence = 0;  // grows with each change, also across the master's restarts
  JobState state = JobState::kPending;
  WaitReason wait_reason = WaitReason::kNone;
  std::string reason;
  uint64_t task_count = 0;
  uint64_t tasks_done = 0;  // failed ones included
  uint64_t tasks_failed = 0;
  uint64_t leases = 0;
  uint64_t retried_tasks = 0;
  uint64_t busy_ns = 0;
  std::optional<absl::Duration> started_after;  // since the core saw the submit
  OutputsHandle result;                         // SUCCEEDED, reduced outputs: the final partial
};

struct Effects {
  std::vector<Record> records;
  std::vector<ToWorker> to_workers;
  std::vector<DescribeJob> describes;  // before to_workers, but behind a Welcome
  std::vector<DropJob> drops;
  std::vector<AckReport> acks;
  std::vector<SetDrain> drains;
  std::vector<EndStream> ends;  // at once
  std::vector<Reply> replies;
  std::vector<JobStatus> statuses;  // durable first; at most one a job in one Effects
  bool workers_changed = false;     // who takes work, or has which kernels
  MonoTime next_deadline = MonoTime::InfiniteFuture();
};

}  // namespace tandem::master

#endif  // TANDEM_MASTER_CORE_EVENTS_H_
