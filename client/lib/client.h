// Client: a connection to a master: submit jobs, watch them, read results.
//
//   ASSIGN_OR_RETURN(auto client, Client::Connect({.address = "127.0.0.1:7460"}));
//   ASSIGN_OR_RETURN(KernelInfo kernel, client->GetKernel("black_scholes"));
//   ASSIGN_OR_RETURN(PreparedJob job, PrepareJob(kernel, {}, arguments));
//   RETURN_IF_ERROR(client->Upload(job.uploads, {}));
//   ASSIGN_OR_RETURN(JobInfo info, client->Submit(job.spec));
//   ASSIGN_OR_RETURN(info, client->Wait(info.id, [](const JobInfo& i) { return true; }));
//   RETURN_IF_ERROR(client->ReadOutput(info.id, "call", {}, sink));
//
// Sizes are in bytes, times in absl's types. Tensors are dense, row-major and little-endian; a
// shape is a list of extents, outermost first, of the whole job, whatever it was cut into.
//
// Errors are those of the RPCs (docs/protocol.md), with their `reason` (common/base/error.h);
// UNAVAILABLE (MASTER_UNAVAILABLE) when no master answers. Idempotent calls (all but none: submit
// and cancel are, by request id) are retried on UNAVAILABLE with backoff until `Options::patience`
// (watching: `watch_patience`) is over.
//
// Thread-safety: safe from any thread; calls block. Ownership: callbacks and sinks are used only
// within the call that takes them.
#ifndef TANDEM_CLIENT_LIB_CLIENT_H_
#define TANDEM_CLIENT_LIB_CLIENT_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/lib/arguments.h"
#include "common/model/ids.h"
#include "common/model/job_spec.h"
#include "common/model/kernel_info.h"
#include "common/model/lease_messages.h"
#include "common/model/outputs.h"
#include "common/model/tensor.h"

namespace tandem::client {

struct Options {
  std::string address = "127.0.0.1:7460";
  std::string owner{};  // "": the user's name
  // How long an unreachable master is tried again; while waiting for a job, `watch_patience`.
  absl::Duration patience = absl::Seconds(3);
  absl::Duration watch_patience = absl::Seconds(60);
  // Called, from the thread that waits, when the master is away while a job is waited for.
  std::function<void()> on_away{};
  // Of one call other than watching and reading.
  absl::Duration deadline = absl::Seconds(60);
};

enum class JobState { kUnspecified, kPending, kRunning, kMerging, kSucceeded, kFailed, kCancelled };
// "PENDING", …
std::string_view JobStateName(JobState state);
std::optional<JobState> JobStateFromName(std::string_view name);
inline bool HasEnded(JobState state) {
  return state == JobState::kSucceeded || state == JobState::kFailed ||
         state == JobState::kCancelled;
}

struct OutputInfo {
  std::string name;
  TensorSpec tensor;     // dtype and shape of the whole output
  bool reduced = false;  // one value for all tasks; else a slice of it a task
  int split_dim = -1;    // concatenated outputs: the dimension that the split axis has
};

struct JobInfo {
  JobId id;
  JobSpec spec;
  JobState state = JobState::kUnspecified;
  std::string wait_reason;  // "", "NO_WORKER", …
  std::string reason;       // FAILED, CANCELLED: token, then words; a job's failure is no error
  uint64_t task_count = 0;
  uint64_t tasks_done = 0;  // failed ones included
  uint64_t tasks_failed = 0;
  uint64_t leaf_count = 0;
  uint64_t leases = 0;
  uint64_t retried_tasks = 0;
  absl::Duration busy;  // of all devices together
  std::vector<OutputInfo> outputs;
  uint64_t sequence = 0;                                // grows with every change of this job
  std::optional<absl::Time> submitted, started, ended;  // by the master's clock
};

struct OperandPlan {
  std::string name;
  std::string how;  // "sliced along n", "broadcast", …
  uint64_t total_bytes = 0;
};
struct JobPlan {
  JobSpec spec;
  uint64_t task_count = 0;
  uint64_t leaf_count = 0;
  std::vector<OperandPlan> operands;
  std::vector<OutputInfo> outputs;
};

struct ListFilter {
  std::vector<JobState> states;
  std::string name_prefix;
  std::map<std::string, std::string> labels;
  bool all_owners = false;
  std::string owner;   // only this owner's; "": the caller's
  std::string kernel;  // only of the kernel of this name
  std::optional<absl::Time> submitted_since;
  uint64_t limit = 100;
  std::string page_token;  // where an earlier list ended
};

// One thing that explains what is seen.
struct Finding {
  std::string token;  // stable: "OPERAND_FETCH"
  double share = 0;   // of the time in question; 0 where that says nothing
  std::string what;
  std::string advice;  // may be empty
};

struct WorkerSummary {
  WorkerId id;
  std::string name;
  std::string state;    // "ATTACHED", "DRAINING", "DRAINED", "LOST"
  bool drain = false;   // it is to take no work, attached or not
  std::string address;  // The host that it calls from.
  std::string version;
  std::vector<DeviceInfo> devices;
  std::vector<KernelRate> rates;
  uint64_t leases = 0;
  uint64_t leaves_done = 0;
  // Since the master started.
  uint64_t tasks_done = 0;
  absl::Duration busy;  // of its core groups together
  uint64_t fetched_bytes = 0;
  uint64_t pushed_bytes = 0;
  uint64_t executors_lost = 0;
  uint32_t groups = 0;     // core groups: how many pieces it can run at once
  absl::Duration queued;   // predicted, of what it holds
  absl::Duration latency;  // a round trip
  std::optional<absl::Time> attached, last_heard;
  std::vector<JobId> jobs;     // that it holds leaves of; some of them
  std::vector<Finding> notes;  // what of it is not as it should be, as it last said
};

// What running a job cost on one device: docs/protocol.md says what each number means.
struct Usage {
  uint64_t pieces = 0;
  uint64_t tasks = 0;
  absl::Duration body, host, stall, fetch, push, merge;
  uint64_t fetched_bytes = 0;
  uint64_t mapped_bytes = 0;
  uint64_t path_bytes = 0;
  uint64_t generated_bytes = 0;
  uint64_t inline_output_bytes = 0;
  uint64_t pushed_output_bytes = 0;
  uint64_t pushes = 0;
  uint64_t merges = 0;
  uint64_t partials = 0;
  // Of devices with memory of their own: stages that overlap, and what was copied.
  absl::Duration up, grid, down;
  uint64_t bytes_up = 0;
  uint64_t bytes_down = 0;
};
struct WorkerUsage {
  WorkerId worker;  // not valid: all those that are not listed for themselves
  std::string name;
  DeviceKind device = DeviceKind::kUnspecified;
  uint32_t groups = 0;
  Usage usage;
  uint64_t leases = 0;
  uint64_t leaves = 0;
  uint64_t returned_leaves = 0;
  absl::Duration first, last;  // since the submit
  absl::Duration other;        // its core groups' time for other jobs in between
};
struct JobAccount {
  absl::Duration pending, running, merging;
  std::vector<std::pair<std::string, absl::Duration>> waits;  // by reason, longest first
  std::vector<WorkerUsage> workers;
  uint64_t commits = 0;
  absl::Duration commit_wait, commit_wait_max;
  uint64_t merge_grants = 0;
  uint64_t crashes = 0;
  bool partial = false;  // counted since the master's last restart only
};
// How a worker's devices shared out leases of a job.
struct LeaseNote {
  WorkerId worker;
  std::string worker_name;
  absl::Duration ended;  // since the submit
  LeaseSplit split;
};
struct JobExplanation {
  JobInfo job;
  std::optional<JobAccount> account;  // none: no longer kept
  std::vector<Finding> findings;      // the weightiest first; never empty
  std::vector<LeaseNote> leases;      // some of its leases, the latest last
};
struct JobAtWorker {
  JobId job;
  uint64_t leases = 0;
  uint64_t leaves = 0;
  uint64_t free_leaves = 0;
  std::string note;
};
struct WorkerExplanation {
  WorkerSummary worker;
  std::vector<Finding> findings;
  std::vector<JobAtWorker> jobs;
};

struct BlobSummary {
  BlobId id;
  uint64_t size = 0;
  std::optional<absl::Time> created;
  std::vector<JobId> jobs;  // that name it, newest first; some of them
  uint64_t job_count = 0;
  bool in_use = false;      // by a job that has not ended
  bool unfinished = false;  // an upload that was begun; `size` is what has come
};
struct KindUsage {
  std::string kind;  // "blobs", "uploads", "results", "journal"
  uint64_t bytes = 0;
  uint64_t files = 0;
  uint64_t owner_bytes = 0;
  uint64_t owner_files = 0;
};
struct DiskUsage {
  std::vector<KindUsage> kinds;
  uint64_t disk_bytes = 0;
  uint64_t disk_free_bytes = 0;
};

struct MasterSummary {
  std::string version;
  std::string cluster_id;
  uint64_t epoch = 0;
  uint32_t workers = 0;
  uint64_t jobs_running = 0;
  std::map<std::string, uint64_t> counters;
  std::optional<absl::Time> now;  // its clock, when it answered
};

struct TaskSelection {
  uint64_t first_task = 0;
  uint64_t task_count = 0;  // 0: to the end
  bool failed_as_zero = false;
  bool when_ended = false;  // read when the job has ended: one call instead of Wait and a read
};

// Takes consecutive bytes.
using Sink = absl::FunctionRef<absl::Status(std::string_view)>;
// Takes item `task` of a ragged output.
using ItemSink = absl::FunctionRef<absl::Status(uint64_t task, std::string_view bytes)>;
// Called with (bytes so far, bytes in all).
using UploadProgress = absl::FunctionRef<void(uint64_t, uint64_t)>;

struct KernelSummary {
  KernelInfo kernel;
  bool builtin = false;
  bool current = false;  // The build that the bare name means to a job submitted now.
  uint64_t workers = 0;  // That take work and have it.
};

class Client {
 public:
  // Does not wait for the master: the first call does.
  static absl::StatusOr<std::unique_ptr<Client>> Connect(Options options);
  ~Client();

  absl::StatusOr<std::vector<KernelSummary>> ListKernels();
  // By identity, or by name: then the current build. Errors: NOT_FOUND UNKNOWN_KERNEL with the
  // nearest name.
  absl::StatusOr<KernelInfo> GetKernel(std::string_view name);
  absl::StatusOr<std::vector<WorkerSummary>> ListWorkers();
  absl::StatusOr<MasterSummary> GetMaster();
  // By name or number. Errors: NOT_FOUND WORKER_NOT_FOUND with the nearest name.
  absl::StatusOr<WorkerSummary> GetWorker(const std::string& worker);
  // No new leases, unstarted work goes back, what runs finishes; for good, until it is resumed.
  // Idempotent. It may be stopped once its state is "DRAINED".
  absl::StatusOr<WorkerSummary> DrainWorker(const std::string& worker);
  absl::StatusOr<WorkerSummary> ResumeWorker(const std::string& worker);
  // The worker forgets what it has learned of how long a kernel takes (by name or identity; "": all
  // of them, and copies), here and over restarts. Errors: UNAVAILABLE WORKER_LOST: it is not
  // attached.
  absl::StatusOr<WorkerSummary> ForgetRates(const std::string& worker, const std::string& kernel);
  // Why it gets, or does not get, work.
  absl::StatusOr<WorkerExplanation> ExplainWorker(const std::string& worker);

  // The caller's blobs, and uploads that were begun and not finished.
  absl::StatusOr<std::vector<BlobSummary>> ListBlobs();
  // Its size. Errors: NOT_FOUND BLOB_NOT_FOUND; FAILED_PRECONDITION BLOB_IN_USE.
  absl::StatusOr<uint64_t> DeleteBlob(const BlobId& blob);
  absl::StatusOr<DiskUsage> GetDiskUsage();

  // How many bytes Upload() would send.
  absl::StatusOr<uint64_t> BytesToUpload(const std::vector<client::Upload>& uploads);
  // Sends what the master lacks; goes on where a broken upload ended. Returns the bytes sent.
  absl::StatusOr<uint64_t> Upload(const std::vector<client::Upload>& uploads,
                                  UploadProgress progress);

  // The job is durable when this returns: it survives a crash of the master. `request_id` "": a
  // fresh one. Given again with the same spec it names the same job.
  // Errors: INVALID_ARGUMENT with the field at fault (tandem::FieldOf) and one of the reasons of a
  // job's specification (DTYPE_MISMATCH, SHAPE_MISMATCH, MISSING_OPERAND, …); NOT_FOUND
  // UNKNOWN_KERNEL; ALREADY_EXISTS REQUEST_ID_REUSED for another spec; RESOURCE_EXHAUSTED DISK_FULL
  // for dense outputs that the master's disk has no room for.
  absl::StatusOr<JobInfo> Submit(const JobSpec& spec, std::string request_id = "");
  // What Submit would do, without doing it. Errors: as Submit; with `spec.request_id`, which may be
  // of a job that is there, not DISK_FULL.
  absl::StatusOr<JobPlan> Plan(const JobSpec& spec);
  // Errors of these and those below: NOT_FOUND JOB_NOT_FOUND.
  absl::StatusOr<JobInfo> Get(JobId job);
  // `next_page_token`, where given: what goes on behind the last one; "" when there is no more.
  absl::StatusOr<std::vector<JobInfo>> List(const ListFilter& filter,
                                            std::string* next_page_token = nullptr);
  // Where its time went, while it runs too.
  absl::StatusOr<JobExplanation> Explain(JobId job);
  absl::StatusOr<JobInfo> Cancel(JobId job);
  // Deletes the results of a job that has ended; it stays in List. Again: the same answer.
  // Errors: FAILED_PRECONDITION RESULT_NOT_READY (it has not ended: cancel it first).
  absl::StatusOr<JobInfo> Delete(JobId job);
  // The failed tasks from `first` on, at most `limit`.
  absl::StatusOr<std::vector<TaskFailure>> Failures(JobId job, uint64_t limit);
  // Calls `on_change` with each durable state until the job has ended or it returns false; comes
  // back after a broken connection. Returns the last state.
  absl::StatusOr<JobInfo> Wait(JobId job, absl::FunctionRef<bool(const JobInfo&)> on_change);

  // From any thread: Wait, now running or called later, returns what it last saw, and Upload
  // CANCELLED INTERRUPTED; what was sent stays with the master for the next one.
  void StopWaiting();

  // A dense output's bytes in row-major order: of the tasks selected, along the leading axis, or
  // all: the product of its shape times its dtype's size, less the tasks left out.
  // Errors: NOT_FOUND OUTPUT_NOT_FOUND; FAILED_PRECONDITION RESULT_NOT_READY (while the job runs)
  // or TASK_FAILED (unless `failed_as_zero`); DATA_LOSS CHECKSUM_MISMATCH; what `sink` returned.
  absl::Status ReadOutput(JobId job, const std::string& output, const TaskSelection& selection,
                          Sink sink);
  // The first task from `from` on that an output, not reduced, has no result of yet.
  absl::StatusOr<uint64_t> DoneUntil(JobId job, const std::string& output, uint64_t from);
  // A blob's bytes, checked against its hash at the end. Errors: NOT_FOUND BLOB_NOT_FOUND;
  // DATA_LOSS CHECKSUM_MISMATCH.
  absl::Status ReadBlob(const BlobId& blob, uint64_t* size, Sink sink);
  // A ragged output's items in order of tasks; failed tasks have none.
  absl::Status ReadItems(JobId job, const std::string& output, const TaskSelection& selection,
                         ItemSink sink);

 private:
  class Impl;
  explicit Client(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// The user that runs this program: what Options::owner defaults to.
std::string UserName();

}  // namespace tandem::client

#endif  // TANDEM_CLIENT_LIB_CLIENT_H_
