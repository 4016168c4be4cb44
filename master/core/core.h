// MasterCore: the master as a pure state machine. Jobs are accepted, cut into leases, committed,
// merged and ended; workers come, go and are lost; all by events in and effects out.
//
//   MasterCore core(options);
//   for (const Record& record : log) core.Replay(record);
//   core.Recovered(epoch, clock.Now());
//   core.Step(Tick{}, clock.Now(), &effects);     // Learns the first deadline; ends what can end.
//   …
//   core.Step(event, clock.Now(), &effects);      // events.h says what to do with the effects.
//
// It reads no clock and has no entropy: equal events at equal times give equal effects.
//
// How it fits: master/policy decides how much a worker gets; apply.h is the only code that changes
// durable state, so that a replay of the records rebuilds exactly that; on_*.cc handle events.
//
// Thread-safety: one thread. Ownership: holds everything by value; handles (bound jobs, outputs)
// are shared and immutable.
// Invariants: 1. of an unfinished job each leaf is done, free or leased, exactly one of them;
// 2. a leaf is done once, by one record; 3. memory grows with what is outstanding, failed or not
// yet merged, never with tasks; 4. only a worker that holds a lease under the number it names can
// commit it.
#ifndef TANDEM_MASTER_CORE_CORE_H_
#define TANDEM_MASTER_CORE_CORE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/model/ids.h"
#include "master/core/events.h"
#include "master/core/options.h"
#include "master/core/records.h"
#include "master/core/state.h"

namespace tandem::master {

// What people may want to see of a worker.
struct WorkerView {
  WorkerId id;
  std::string name;
  enum class Phase { kExpected, kAttached, kDetached, kLost } phase = Phase::kExpected;
  bool draining = false;
  static constexpr size_t kJobsMax = 16;
  std::vector<JobId> jobs;  // That it holds leaves of, at most kJobsMax.
  uint32_t merges = 0;
  uint64_t leases = 0;
  double queued_seconds = 0;
  double latency_seconds = 0;
};

// A build of a kernel that some job or worker has named.
struct KernelView {
  std::string name;
  std::string identity;
  uint64_t workers = 0;  // That take work and have it.
};

// What one unfinished job means to one worker.
struct JobAtWorkerView {
  JobId job;
  uint64_t leases = 0;
  uint64_t leaves = 0;
  uint64_t free_leaves = 0;  // That nobody has.
  // Can the worker run it, and if not, why?
  enum class Fit { kFits, kNoKernel, kNoDevice, kRefused } fit = Fit::kFits;
  std::string note;  // One line: what it would be given next and why, or why nothing.
};

class MasterCore {
 public:
  explicit MasterCore(const Options& options);

  // Rebuilds durable state from the log, in order, before Recovered().
  void Replay(const Record& record);
  // Of a replayed job, before Recovered(): it had begun to run so long after its submit.
  void BeganAfter(JobId job, absl::Duration delay);
  // The replay is over; from here on this master is `epoch`. Workers that the log knows have one
  // lease time to come back before what they may hold is handed out. Call Step next.
  void Recovered(Epoch epoch, MonoTime now);
  // REQUIRES: Recovered() was called; `now` never goes back.
  void Step(const Event& event, MonoTime now, Effects* effects);

  // The last Step was: numbers that were reserved ahead are free again for the next master.
  void Close(Effects* effects);

  // The fewest records that make the present durable state.
  void Snapshot(std::vector<Record>* records) const;
  // Equal for equal durable states, live or replayed.
  uint64_t DurableHash() const;
  // Adds the segments in which values of reductions lie, partial ones and results.
  void AddSegments(std::vector<SegmentId>* segments) const;

  // The present status, which may not be durable yet; nothing for an unknown job.
  std::optional<JobStatus> Status(JobId job) const;
  std::vector<JobId> Jobs() const;
  std::vector<WorkerView> Workers() const;
  std::vector<KernelView> Kernels() const;
  const Counters& counters() const { return state_.counters; }
  // Why this worker would be given this much of the job next, in one line; empty if either is
  // unknown.
  std::string Explain(JobId job, WorkerId worker) const;
  // The unfinished jobs as this worker sees them, best first; at most `count`.
  std::vector<JobAtWorkerView> JobsAt(WorkerId worker, size_t count) const;

  // For tests: dies unless the invariants hold. O(state).
  void CheckInvariants() const;

 private:
  State state_;
  std::vector<JobId> unsettled_;  // After a replay: their last records may ask for more.
  bool recovered_ = false;
};

}  // namespace tandem::master

#endif  // TANDEM_MASTER_CORE_CORE_H_
