// Turn: one Step of the core: the state, the time, where effects go, and what is still to be done
// before the Step ends. The on_*.cc files handle events in terms of it.
//
// Thread-safety: as a struct; lives for one Step.
#ifndef TANDEM_MASTER_CORE_TURN_H_
#define TANDEM_MASTER_CORE_TURN_H_

#include <string>
#include <string_view>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "master/core/apply.h"
#include "master/core/events.h"
#include "master/core/state.h"

namespace tandem::master {

struct Turn {
  State& state;
  MonoTime now;
  Effects& out;
  bool schedule_all = false;                      // Work became free, or workers came or went.
  bool workers_changed = false;                   // Why jobs wait may have changed.
  absl::InlinedVector<WorkerId, 4> touched = {};  // Whose queues have shrunk.

  // Changes the durable state and journals the change.
  template <class R>
  void Record(R record) {
    Apply(state, record);
    out.records.emplace_back(std::move(record));
  }
  // The job's status goes out at the end of the Step.
  void MarkDirty(Job& job) {
    if (job.dirty) return;
    job.dirty = true;
    state.dirty.push_back(job.id);
  }
  void Touch(const Worker& worker) {
    if (touched.empty() || touched.back() != worker.id) touched.push_back(worker.id);
  }
  void Answer(RequestToken token, absl::StatusOr<JobId> result) {
    if (token != 0) out.replies.push_back({token, std::move(result)});
  }
};

// ---- one handler an event ----
void OnSubmit(Turn& turn, const SubmitJob& event);
void OnDurable(Turn& turn, const JobDurable& event);
void OnCancel(Turn& turn, const CancelJob& event);
void OnDelete(Turn& turn, const DeleteJob& event);
void OnAttach(Turn& turn, const WorkerAttach& event);
void OnDetached(Turn& turn, const WorkerDetached& event);
void OnLeft(Turn& turn, const WorkerLeft& event);
void OnReported(Turn& turn, const WorkerReported& event);
void OnPulsed(Turn& turn, const WorkerPulsed& event);
void OnAnnounced(Turn& turn, const WorkerAnnounced& event);
void OnDrain(Turn& turn, const DrainWorker& event);
void OnTick(Turn& turn);

// ---- what handlers share ----

// Ends the job now: voids its leases and merges, and tells its workers to drop it.
void EndJob(Turn& turn, Job& job, JobState state, std::string reason);
// After leaves became done or a merge ended: ends the job, or asks for merges.
void AfterProgress(Turn& turn, Job& job);
// Books a new run of leases, which are out of the job's free leaves already.
void BookLease(Turn& turn, Job& job, Worker& worker, const LeaseRun& run);
// What the worker holds of the job is charged at what is known of its speed now.
void Recharge(const State& state, Job& job, Worker& worker, JobAtWorker& at);
// Books the end of leases; called from within the lease table's Take.
void ReleaseLease(Turn& turn, Job& job, Worker& worker, uint64_t leaves, int64_t leases,
                  bool suspect);
// Makes leaves free again, as their retry attributes say (suspects apart).
void FreeLeaves(Turn& turn, Job& job, LeafRange leaves);
// Takes leaves that were not finished by the run that had them back: they get a larger attempt.
void RequeueAfterLoss(Turn& turn, Job& job, LeafRange leaves, uint32_t attempt);
// Voids every lease and merge of the worker. `leaves` are given to f(Job&, LeafRange, attempt).
void LoseLeases(Turn& turn, Worker& worker);
// The worker knows of no job any more. REQUIRES: it holds no lease.
void ForgetJobs(State& state, Worker& worker);
// The merges of a job or of a worker are void: their partials are free for others.
void VoidMerges(Turn& turn, Job& job, WorkerId worker_or_none);
// Grants merges and leaves, recalls and steals, as far as this Step has made that possible.
void Schedule(Turn& turn);
// Waits for workers of before the restart are over.
void EndRecovery(Turn& turn);
// Why the job waits now.
WaitReason WhyWaiting(const State& state, const Job& job);
// … and what there is to say about it; may be empty.
std::string WaitNote(const State& state, const Job& job, WaitReason why);
void RefreshWaits(Turn& turn);
// Ends those jobs that are not to wait and that no attached worker may run.
void FailUnsatisfiable(Turn& turn);
// Its status as of now; counts the sequence up.
JobStatus MakeStatus(const State& state, const Job& job);
void FlushStatuses(Turn& turn);

// Tells the worker about the job, once.
void Describe(Turn& turn, Job& job, Worker& worker);
// The view on which the policy decides about this job and worker.
GrantView ViewOf(const State& state, const Job& job, const Worker& worker);
// What a leaf of the job has taken this worker; 0: not known (any more).
void SetLeafSeconds(Job& job, JobAtWorker& at, double busy_leaf_seconds);
// The predicted time of one leaf of the job at this worker: as it was there, else as it is
// elsewhere, else as the kernel's hint and other jobs say.
double LeafSeconds(const State& state, const Job& job, const Worker& worker);

}  // namespace tandem::master

#endif  // TANDEM_MASTER_CORE_TURN_H_
