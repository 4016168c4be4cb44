// State: all that a MasterCore remembers, and how its parts are found.
//
// Thread-safety: as a struct.
#ifndef TANDEM_MASTER_CORE_STATE_H_
#define TANDEM_MASTER_CORE_STATE_H_

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "common/base/clock.h"
#include "master/core/job.h"
#include "master/core/options.h"
#include "master/core/worker.h"
#include "master/policy/policy.h"

namespace tandem::master {

struct KernelEntry {
  std::string identity;
  std::string name;
  std::shared_ptr<const KernelInfo> announced;  // Durable; null: only jobs name it.
  // Over the workers that take work and have it.
  uint64_t workers = 0;
  uint64_t measured = 0;
  double tasks_per_second = 0;  // Sum of the measured ones.
};

// Jobs that the same workers can run: of one kernel and device choice.
struct JobClass {
  size_t kernel = 0;
  DeviceChoice device = DeviceChoice::kAuto;
  absl::btree_map<JobRank, Job*> ready;  // With something free, best first.
};

// How often something unusual happened; for metrics.
struct Counters {
  uint64_t grants = 0;
  uint64_t leases = 0;
  uint64_t commits = 0;
  uint64_t stale_commits = 0;  // Named no live lease of their worker.
  uint64_t stale_returns = 0;
  uint64_t stale_crashes = 0;
  uint64_t malformed = 0;       // Against the protocol; dropped.
  uint64_t voided_commits = 0;  // Reduced outputs that could not be taken whole.
  uint64_t lost_workers = 0;
  uint64_t adopted_leaves = 0;
  uint64_t recalls = 0;
  uint64_t merges = 0;
  uint64_t strikes = 0;
};

struct State {
  explicit State(const Options& o) : options(o) {}

  Options options;
  Epoch epoch;
  uint64_t next_n = 1;  // Leases of this epoch.

  // ---- durable, with the durable parts of jobs ----
  JobId reserved_jobs;  // Numbers up to here count as given after a restart.
  WorkerId last_worker;
  absl::btree_map<JobId, std::unique_ptr<Job>> jobs;
  absl::btree_map<WorkerId, std::string> known_workers;
  absl::flat_hash_map<std::string, JobId> requests;  // By owner and request id.
  absl::btree_set<std::string> drained;              // Names of workers that take no work.

  // ---- not durable ----
  JobId last_job;      // The last number given.
  JobId safe_numbers;  // The reservation of numbers up to here is durable.
  absl::btree_map<WorkerId, std::unique_ptr<Worker>> workers;
  absl::btree_map<std::string, WorkerId> worker_names;
  std::vector<KernelEntry> kernels;
  absl::btree_map<std::string, size_t> kernel_index;  // By identity.
  std::vector<JobClass> classes;
  absl::btree_set<JobId> merge_ready;   // With partials to merge.
  absl::btree_set<JobId> tails;         // Unfinished, nothing free: what is out may be stolen.
  absl::btree_set<JobId> suspect_jobs;  // With free suspects.
  absl::btree_map<int32_t, double>
      served;  // By priority: what the job last picked had been served.
  std::set<std::pair<MonoTime, WorkerId>> timers;
  uint64_t expected = 0;  // Workers in phase Expected: old jobs wait for them.
  WorkerId last_lucky;    // Workers take turns in being served first.
  MonoTime look_at = MonoTime::InfiniteFuture();   // When to schedule again without an event.
  MonoTime promised = MonoTime::InfiniteFuture();  // The deadline that the last Step asked for.
  std::vector<JobId> dirty;
  Counters counters;

  Job* FindJob(JobId id);
  // Null also when it has ended.
  Job* FindActive(JobId id);
  Worker* FindWorker(WorkerId id);
  // The index of a kernel, made if need be.
  size_t KernelOf(const std::string& identity, const std::string& name);
  size_t ClassOf(size_t kernel, DeviceChoice device);
  // May workers hear of the job? Not of a number that could be given to another after a crash.
  bool MayRun(const Job& job) const { return job.durable || job.id <= safe_numbers; }
  // The master waits for workers that it knew before handing out what they may hold.
  bool recovering() const { return expected > 0; }
  static std::string RequestKey(const std::string& owner, const std::string& request_id) {
    return owner + '\0' + request_id;
  }
};

// Puts the job into its class's order, or takes it out, as its free leaves demand. Call after any
// change of what is free or of what it has been served.
void RefreshReady(State& state, Job& job);
// Can this worker run jobs of the class at all (kernel and devices)?
bool Fits(const Worker& worker, const JobClass& job_class);
// … and has it a device with the memory that the job asks for, or a CPU where that will do?
bool HasMemory(const Worker& worker, const Job& job);
// Starts or stops counting the worker's kernels in the cluster's speed.
void CountKernels(State& state, Worker& worker, bool count);
// The worker's speed in a kernel that it has.
void SetRate(State& state, Worker& worker, size_t kernel, double tasks_per_second);
// Asks for a Tick for this worker at its deadline (or the end of its phase).
void SetTimer(State& state, Worker& worker);
void ClearTimer(State& state, Worker& worker);

}  // namespace tandem::master

#endif  // TANDEM_MASTER_CORE_STATE_H_
