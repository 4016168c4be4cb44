// What master and worker say to each other about leases, as plain data: the pure form of
// proto/tandem/worker/v1. Both cores speak it; common/wire translates.
//
// Lease numbers: a grant is a *run* of `count` leases (epoch, first_n) … of one job; lease i is the
// node of 2^level leaves at first_leaf + i * 2^level, the last one clipped at the job's end. A run
// costs the same to send, keep and commit as a single lease; each lease in it can still be
// committed, recalled or voided by itself, down to a leaf.
//
// Thread-safety: plain data.
#ifndef TANDEM_COMMON_MODEL_LEASE_MESSAGES_H_
#define TANDEM_COMMON_MODEL_LEASE_MESSAGES_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/model/ids.h"
#include "common/model/outputs.h"
#include "common/model/range_tree.h"

namespace tandem {

struct LeafInterval {
  uint64_t first = 0;
  uint64_t count = 0;
  friend bool operator==(const LeafInterval&, const LeafInterval&) = default;
};

// Leaves of a run of leases; `n` is the lease that holds `leaves.first`.
struct LeafRun {
  uint64_t n = 0;
  LeafInterval leaves;
  friend bool operator==(const LeafRun&, const LeafRun&) = default;
};

// ---- master to worker ----

struct Grant {
  JobId job;
  uint64_t first_n = 0;
  uint64_t first_leaf = 0;
  uint8_t level = 0;
  uint64_t count = 0;
  uint32_t attempt = 0;
  bool suspect =
      false;  // nothing runs beside a lease of it; one of a single leaf runs task by task
  std::vector<uint64_t> skip_tasks;  // given up (CRASH_LIMIT): not run, counted as failed
  uint64_t suspect_set = 0;  // not 0: suspects of this set may run beside each other, of any job
};

// A partial of a reduction: the value over a set of leaves.
struct Partial {
  uint64_t id = 0;  // the master's number for it, in the job
  std::vector<LeafInterval> leaves;
  OutputsHandle outputs;
  uint64_t tasks = 0;   // counted in the value
  uint64_t failed = 0;  // not counted, because they failed
};

// Merge `inputs` into one partial; none of them: make the identity.
struct MergeGrant {
  JobId job;
  uint64_t n = 0;
  std::vector<Partial> inputs;
};

struct Recall {
  JobId job;
  LeafInterval leaves;
};

// How many more leaves of a job a worker may expect.
struct Outlook {
  JobId job;
  double share_leaves = 0;
};

// ---- worker to master ----

// Leaves that a worker holds at attach: unstarted, running, or finished and not acknowledged.
struct HeldLeaves {
  JobId job;
  LeafInterval leaves;
  uint32_t attempt = 0;
  LeaseId lease;  // of the first leaf
};

// Finished leaves. Concatenated outputs: the bytes of the tasks of one run in order; of several
// runs that adjoin, where a rejoin divided what had already run as one. Reduced outputs: the
// partial over exactly these runs, taken whole or not at all.
struct Commit {
  JobId job;
  std::vector<LeafRun> runs;
  OutputsHandle outputs;
  std::vector<TaskFailure> failures;  // in order of tasks
  uint64_t busy_ns = 0;
  uint64_t tasks = 0;  // counted in a partial's value
};

struct MergeCommit {
  JobId job;
  uint64_t n = 0;
  OutputsHandle outputs;
  uint64_t tasks = 0;
  uint64_t failed = 0;
  std::string error;  // not empty: it failed, and why
};

// Leaves that had started and not finished when their executor was lost.
struct Crash {
  JobId job;
  LeafRun run;
  bool task_known = false;
  uint64_t task = 0;
  std::string signal;
  uint64_t suspected_leaves = 0;  // by the same loss, of all jobs; 0: those of `run`
};

// Leaves given back without blame; or one that no device of the worker that may run it has the
// memory for.
struct Return {
  JobId job;
  LeafRun run;
  uint64_t gpu_need_bytes = 0;    // not 0: what a device's budget must be at least …
  uint64_t gpu_budget_bytes = 0;  // … and the largest that was tried
};

struct JobFault {
  JobId job;
  std::string reason;  // token, then words
  bool fatal = false;  // true: no worker can run it; false: this one cannot
};

enum class DeviceKind { kUnspecified = 0, kCpu = 1, kGpu = 2, kEmulated = 3 };

// What a GPU's driver last said of it; what it does not tell is nullopt.
struct DeviceReading {
  std::string uuid;
  std::optional<double> utilization, memory_utilization;  // 0 to 1
  std::optional<double> temperature_celsius, power_watts, power_limit_watts;
  std::optional<uint64_t> memory_used_bytes;
  std::optional<bool> ecc;
  std::optional<uint64_t> ecc_corrected, ecc_uncorrected;
  friend bool operator==(const DeviceReading&, const DeviceReading&) = default;
};

struct DeviceInfo {
  DeviceKind kind = DeviceKind::kUnspecified;
  std::string model;
  std::string uuid;
  uint32_t cores = 0;
  uint64_t memory_bytes = 0;
  uint32_t groups = 0;
  // Not of CPUs: what batches may use of memory_bytes, and what that follows from.
  uint64_t budget_bytes = 0;
  std::string budget_rule{};  // "90% of what is free (default)"
  // Copied since the master started; only the master says so.
  uint64_t bytes_up = 0;
  uint64_t bytes_down = 0;
  std::optional<DeviceReading> reading{};  // with the last heartbeat; only the master says so
};

// What a worker has learned of one kernel on one of its devices. A batch of n tasks, by itself,
// takes fixed_seconds + n × seconds_per_task on one of the device's lanes.
struct KernelRate {
  std::string kernel;  // its identity
  DeviceKind device = DeviceKind::kUnspecified;
  double tasks_per_second = 0;  // of the whole device, kept busy
  double fixed_seconds = 0;
  std::string device_name;  // "cpu", "emulated:EMULATED-0", "cuda:GPU-…"
  std::string extents;      // of the kernel's inner axes: "k=21"
  double seconds_per_task = 0;
  double up_bytes_per_second = 0, down_bytes_per_second = 0;  // copies; 0: there are none
  std::string bound_by;                                       // its slowest stage: "copy up"
  uint64_t samples = 0;
  absl::Duration age;  // of the last sample
  friend bool operator==(const KernelRate&, const KernelRate&) = default;
};

// Leaves of a job that a worker has still to run: granted, and neither finished nor waiting in an
// accumulator (those stay held until their partial is committed, but keep nobody busy).
struct Backlog {
  JobId job;
  uint64_t leaves = 0;
  uint64_t granted = 0;  // in this session, adopted ones included: more may be on their way
};

// What one device ran of the leases of a LeaseSplit.
struct LeaseShare {
  DeviceKind device = DeviceKind::kUnspecified;
  std::string device_name;  // "cpu", "emulated:EMULATED-0", "cuda:GPU-…"
  uint64_t tasks = 0;
  uint64_t pieces = 0;
  absl::Duration begin, end;            // of its first and its last piece, since the grant came
  absl::Duration host, up, grid, down;  // summed over pieces; the CPU's body counts as a grid
  std::string bound_by;  // the longest of those: "copy up", "grid", …; "cpu": the CPU's body
  friend bool operator==(const LeaseShare&, const LeaseShare&) = default;
};

// How a worker's devices shared out leases that were granted in a row.
struct LeaseSplit {
  JobId job;
  uint64_t lease = 0;  // the number of the first
  uint64_t leases = 0;
  TaskRange granted;
  std::vector<TaskRange> kept;  // what of it ran there, in order
  std::vector<LeaseShare> shares;
  friend bool operator==(const LeaseSplit&, const LeaseSplit&) = default;
};

struct Report {
  uint64_t number = 0;
  std::vector<Commit> commits;
  std::vector<MergeCommit> merges;
  std::vector<Crash> crashes;
  std::vector<Return> returns;
  std::vector<JobFault> job_faults;
  // Not 0: rates told before are void, as forgets of up to this number wanted; what is left of them
  // is told again.
  uint64_t forgot = 0;
  std::vector<KernelRate> rates;
  std::vector<Backlog> backlogs;
  std::vector<LeaseSplit> splits;  // of leases that have ended, some
};

}  // namespace tandem

#endif  // TANDEM_COMMON_MODEL_LEASE_MESSAGES_H_
