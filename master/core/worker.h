// Worker: everything the core knows of one worker, and the states it goes through.
//
// Thread-safety: as a struct.
#ifndef TANDEM_MASTER_CORE_WORKER_H_
#define TANDEM_MASTER_CORE_WORKER_H_

#include <cstdint>
#include <string>
#include <variant>

#include "absl/container/btree_map.h"
#include "absl/container/inlined_vector.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "master/core/events.h"
#include "master/core/options.h"

namespace tandem::master {

// Known from the log; it has until then to come back with what it holds.
struct Expected {
  MonoTime until;
};
struct Attached {
  RequestToken stream = 0;
};
// Its stream broke; its leases live on until then.
struct Detached {
  MonoTime until;
};
// Its leases are void. Remembered by name, so that it keeps its number if it returns.
struct Lost {};

using WorkerPhase = std::variant<Expected, Attached, Detached, Lost>;
inline constexpr size_t kWorkerPhases = std::variant_size_v<WorkerPhase>;

// kWorkerMoves[from][to]: may a worker go from one to the other?
inline constexpr bool kWorkerMoves[kWorkerPhases][kWorkerPhases] = {
    // expected, attached, detached, lost
    {false, true, false, true},   // expected
    {false, true, true, true},    // attached (again: the same process on a new stream)
    {false, true, false, true},   // detached
    {false, true, false, false},  // lost
};
// REQUIRES: the move is in kWorkerMoves.
inline void Move(WorkerPhase* phase, WorkerPhase next) {
  CHECK(kWorkerMoves[phase->index()][next.index()]);
  *phase = next;
}

// What a worker's queue holds, by priority: few, most often one.
class QueueLoad {
 public:
  void Add(int32_t priority, int64_t leases, double seconds);
  struct Sum {
    int64_t leases = 0;
    double seconds = 0;
  };
  // Of this priority and above; below it.
  Sum AtLeast(int32_t priority) const;
  Sum Below(int32_t priority) const;
  int64_t leases() const { return leases_; }

 private:
  struct Entry {
    int32_t priority = 0;
    Sum sum;
  };
  absl::InlinedVector<Entry, 2> entries_;
  int64_t leases_ = 0;
};

// One job at one worker.
struct JobAtWorker {
  int64_t leases = 0;
  uint64_t leaves = 0;
  double leaf_seconds = 0;            // As charged to the worker's load.
  double busy_leaf_seconds = 0;       // From the job's own commits; 0: none yet.
  MonoTime heard_at;                  // Since then nothing of `leaves` is known to have finished.
  uint64_t parked = 0;                // Of `leaves`: finished, but waiting in an accumulator.
  int64_t counted_parked_leases = 0;  // As they are in the worker's sums.
  int64_t counted_parked_ns = 0;
  uint64_t granted_leaves = 0;  // In this session, adopted ones included.
  double told_share = -1;       // The last Outlook; negative: none.
  bool described = false;
  bool unfit = false;    // It said that it cannot run the job …
  uint32_t faults = 0;   // … so many times since its last commit,
  MonoTime unfit_until;  // and is not asked again before.
  MonoTime quiet_until;  // No further recall before.
  MonoTime recalled_at = MonoTime::InfinitePast();
  bool yields = false;     // What waits there behind other jobs was recalled: it is for others.
  uint32_t spurned = 0;    // Times that it gave leaves back unasked, since its last commit …
  MonoTime spurned_until;  // … for which it gets no more before.
};

// One kernel at one worker.
struct KernelAtWorker {
  struct OfDevice {
    std::string device;
    double tasks_per_second = 0;
  };
  absl::InlinedVector<OfDevice, 2> reported;
  double tasks_per_second = 0;       // Of all its devices; 0: not measured.
  bool self_measured = false;        // By the core, from commits.
  double busy_seconds_per_task = 0;  // From commits; 0: none yet.
  uint64_t probe_leaves = 1;
};

struct Worker {
  WorkerId id;
  std::string name;
  uint64_t incarnation = 0;
  uint64_t struck = 0;  // The incarnation that said what the one before it was running.
  WorkerPhase phase;
  MonoTime deadline;  // Attached: silent until then means lost.
  MonoTime timer;  // When it is in State::timers; an attached worker's is moved only when it fires.
  bool timer_set = false;
  bool draining = false;
  double latency_seconds = 0;
  uint64_t max_leases = 0;
  uint64_t parallel = 1;  // Leaves that it can run at once.
  bool has_cpu = true;
  bool has_gpu = false;
  uint64_t gpu_budget_bytes = 0;                    // The largest of its devices', for batches.
  absl::btree_map<size_t, KernelAtWorker> kernels;  // By index in State::kernels.
  absl::btree_map<JobId, JobAtWorker> jobs;
  QueueLoad load;             // Everything held …
  int64_t parked_leases = 0;  // … of which so much waits in accumulators.
  int64_t parked_ns = 0;      // Whole, so that sums leave no remainder.
  uint32_t merges = 0;        // Outstanding.
  uint64_t suspects = 0;      // Suspect leaves outstanding.

  int64_t busy_leases() const { return load.leases() - parked_leases; }
  bool attached() const { return std::holds_alternative<Attached>(phase); }
  bool takes_work() const { return attached() && !draining; }
  RequestToken stream() const {
    const auto* a = std::get_if<Attached>(&phase);
    return a == nullptr ? 0 : a->stream;
  }
};

// So many of the leaves that the worker holds of a job wait in an accumulator.
void Park(Worker& worker, JobAtWorker& at, uint64_t leaves);

}  // namespace tandem::master

#endif  // TANDEM_MASTER_CORE_WORKER_H_
