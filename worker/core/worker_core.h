// WorkerCore: the supervisor's mind. Pools granted leaves, hands pieces to the lanes of its devices
// (core groups, GPUs) that have room, collects what they finish into reports, and reconciles after
// the loss of either side.
//
//   WorkerCore core(options, seed);
//   for (Event& event : batch) core.Step(std::move(event), now, &effects);
//   core.Settle(now, &effects);
//   … act on effects; call again at effects.next_deadline or when something happens …
//
// Pure and deterministic: equal options, seed, events and times give equal effects.
//
// The life of a leaf here: pool → piece in flight → (accumulator →) outbox → acknowledged. Leaves
// leave it early as returns, as crashes (suspects), or silently when their leases are void.
//
// Thread-safety: one thread.
// Invariants (checked by CheckInvariants): 1. a job is runnable exactly when its pool is not empty;
// 2. counts of pieces and leaves equal what is in flight; 3. a lane holds at most pieces_per_group
// pieces, or more small ones, all of one owner; 4. beside a suspect only others of its set run in
// its executor; 5. those of Pool and Outbox.
#ifndef TANDEM_WORKER_CORE_WORKER_CORE_H_
#define TANDEM_WORKER_CORE_WORKER_CORE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/container/inlined_vector.h"
#include "common/base/rng.h"
#include "worker/core/events.h"
#include "worker/core/lease_splits.h"
#include "worker/core/note_budget.h"
#include "worker/core/options.h"
#include "worker/core/outbox.h"
#include "worker/core/state.h"

namespace tandem::worker {

class WorkerCore {
 public:
  WorkerCore(const CoreOptions& options, uint64_t seed);

  // Takes one event. Effects are added behind what is there.
  void Step(Event event, MonoTime now, Effects* effects);
  // Ends a batch of events: hands out pieces, closes accumulators, makes the report and sets
  // effects->next_deadline.
  void Settle(MonoTime now, Effects* effects);

  const CoreCounters& counters() const { return counters_; }
  bool attached() const { return link_ == Link::kAttached; }
  uint64_t max_epoch() const { return max_epoch_; }
  // Unstarted and running leaves of all jobs.
  uint64_t backlog_leaves() const;
  // What is held, as a Hello would say it.
  std::vector<HeldLeaves> Held() const;
  // What was learned of the devices, to be kept over restarts; and a number that grows with it.
  std::vector<LearnedDevice> Learned(MonoTime now) const;
  uint64_t learned_version() const;

  // How long a thread may take over these leaves, or over one task of them, before the job's time
  // limit ends it; infinite where there is none.
  absl::Duration TimeAllowed(JobId job, LeafInterval leaves, bool one_task) const;
  // What a thread takes over these leaves on the slowest device that may run them, several times
  // over; as far as that is predicted: zero where nothing is known.
  absl::Duration TimeExpected(JobId job, LeafInterval leaves) const;
  // The shortest limit of a job that may be running; infinite: none has one.
  absl::Duration ShortestLimit() const;

  // For tests: dies unless the invariants hold.
  void CheckInvariants() const;

 private:
  // invariants.cc
  void CheckLanes() const;
  void CheckJob(JobId id, const JobState& job) const;
  void CheckRange(JobId id, const JobState& job, const LeaseSplits::Range& range) const;
  enum class Link { kDown, kGreeting, kAttached };
  // Leaves that a Welcome re-leased, by job; what nothing claims goes to the pool.
  struct Adoption;

  // worker_core.cc: the master's events and the life of a session
  void On(Connected, MonoTime now, Effects* effects);
  void On(Disconnected, MonoTime now, Effects* effects);
  void On(JobDescribed event, MonoTime now, Effects* effects);
  void On(Granted event, MonoTime now, Effects* effects);
  void On(MergeGranted event, MonoTime now, Effects* effects);
  void On(Recalled event, MonoTime now, Effects* effects);
  void On(OutlookSaid event, MonoTime now, Effects* effects);
  void On(JobDropped event, MonoTime now, Effects* effects);
  void On(ReportAcked event, MonoTime now, Effects* effects);
  void On(DrainSaid event, MonoTime now, Effects* effects);
  void On(ForgetSaid event, MonoTime now, Effects* effects);
  void On(PushDone event, MonoTime now, Effects* effects);
  void On(PushFailed event, MonoTime now, Effects* effects);
  void On(Tick, MonoTime now, Effects* effects);
  void On(FormerLife event, MonoTime now, Effects* effects);
  void On(LearnedBefore event, MonoTime now, Effects* effects);
  void On(Shutdown, MonoTime now, Effects* effects);
  // rejoin.cc
  void On(Welcomed event, MonoTime now, Effects* effects);
  void AdoptPieces(Adoption* adoption, Effects* effects);
  void AdoptAccumulators(Adoption* adoption, Effects* effects);
  void AdoptRest(Adoption* adoption, Effects* effects);
  void ForgetUndescribedJobs(Effects* effects);
  // Kills what runs and drops what is held.
  void DropEverything(Effects* effects);
  void FenceIfPaused(MonoTime now, Effects* effects);
  // executors.cc: what executors say; lives.cc: devices, and executors' lives on them
  void On(ExecutorReady event, MonoTime now, Effects* effects);
  void On(ExecutorLost event, MonoTime now, Effects* effects);
  void On(DeviceFound event, MonoTime now, Effects* effects);
  void On(DeviceTroubled event, MonoTime now, Effects* effects);
  void RefuseIfNowhere(JobState* job, Effects* effects);
  // Pieces of an executor that ended: which jobs had begun something, and which not.
  struct LostPieces {
    bool explained = false;  // the start page says why it ended
    absl::btree_set<JobId> begun, waiting;
  };
  LostPieces LosePieces(OwnersExecutor* executor, const ExecutorLost& event, Effects* effects);
  void On(PieceFinished event, MonoTime now, Effects* effects);
  void On(PartialFinished event, MonoTime now, Effects* effects);
  void On(MergeFinished event, MonoTime now, Effects* effects);
  void On(PieceReturned event, MonoTime now, Effects* effects);
  void On(PieceShrunk event, MonoTime now, Effects* effects);    // take_back.cc
  void On(PieceTooLarge event, MonoTime now, Effects* effects);  // too_large.cc
  void On(JobErrored event, MonoTime now, Effects* effects);
  // True: the start page says what of it had begun.
  bool LosePiece(InFlightPiece piece, const ExecutorLost& event, uint64_t suspected,
                 Effects* effects);
  void CountLoss(JobId job, const ExecutorLost& event, MonoTime now, Effects* effects);
  void PlanRestart(OwnersExecutor* executor, bool explained, MonoTime now);
  void LoseMerge(InFlightPiece piece, const ExecutorLost& event, Effects* effects);
  void GiveUpOn(OwnersExecutor* executor, const std::string& how, MonoTime now, Effects* effects);
  void Learn(JobState* job, DeviceIndex device, double tasks, const PieceFinished& event,
             MonoTime now);
  void ManageExecutors(MonoTime now, Effects* effects);
  void ManageExecutor(OwnersExecutor* executor, MonoTime now, Effects* effects);
  // Is there something that it could run?
  bool HasWorkFor(const OwnerState& owner, DeviceIndex device) const;
  bool Accumulates(const OwnersExecutor& executor) const;
  void KillExecutor(OwnersExecutor* executor, Effects* effects);
  // accumulators.cc
  void FlushWhatIsDue(MonoTime now, Effects* effects);
  bool FlushIsDue(const JobState& job, DeviceIndex device, MonoTime now) const;
  absl::Duration PushTime(const JobState& job) const;
  absl::Duration Linger(const JobState& job) const;
  void Flush(JobState* job, DeviceIndex device, Effects* effects);
  void RunAgain(JobState* job, DeviceIndex device, std::vector<PieceId> pieces, Effects* effects);
  // dispatch.cc
  void Dispatch(MonoTime now, Effects* effects);
  // Who may use the lane now, in the order in which they are asked.
  absl::InlinedVector<OwnerState*, 4> OwnersFor(const PullLane& lane, MonoTime now);
  OwnersExecutor* ExecutorFor(OwnerState* owner, const PullLane& lane) const;
  bool CanFeed(OwnerState* owner, const PullLane& lane) const;
  // Shall the job's next piece be alone in its executor?
  bool RunsAlone(const JobState& job, PoolEnd end) const;
  // Would nothing else be lost with the executor?
  bool NothingBeside(const OwnersExecutor& executor) const;
  bool IsOfItsSet(const OwnersExecutor& executor, const JobState& job) const;
  bool MayJoin(const OwnersExecutor& executor, const JobState& job, PoolEnd end) const;
  bool HasRoom(const PullLane& lane) const;
  bool Feed(uint32_t lane, MonoTime now, Effects* effects);
  InFlightPiece* NewPiece(OwnersExecutor* executor, uint32_t lane, JobId job, MonoTime now,
                          PieceId* id);
  void PullMerge(OwnerState* owner, uint32_t lane, MonoTime now, Effects* effects);
  // Of the first of the owner's jobs that has something for the lane. False: none has.
  bool PullPiece(OwnerState* owner, uint32_t lane, MonoTime now, Effects* effects);
  void StartPiece(JobState* job, uint32_t lane, uint64_t leaves, PoolEnd end, MonoTime now,
                  Effects* effects);
  void Predict(JobState* job, double tasks, InFlightPiece* piece);
  void SetUp(OwnersExecutor* executor, JobId job, Effects* effects);
  // asking.cc: which devices may run a job, its puller, and what that must be told
  bool Eligible(const JobState& job, DeviceIndex device) const;
  // Has its budget room for the run's leaves, as far as is known?
  bool Holds(DeviceIndex device, const LeaseRun& run) const;
  std::string WhyNowhere(const JobState& job) const;
  JobOnDevice& OnDevice(JobState* job, DeviceIndex device) const;
  Estimate EstimateOf(const JobState& job, DeviceIndex device) const;
  // By what the device has learned, or one that is like it.
  std::optional<Prediction> LearnedOf(const JobState& job, DeviceIndex device) const;
  // Of a piece, from what was fitted.
  double FixedCost(double fitted) const;
  PullDevice PredictionOf(const JobState& job, const PullLane& lane) const;
  void TellPuller(JobState* job, MonoTime now) const;
  void TellOthers(JobState* job, uint32_t lane, MonoTime now) const;
  PoolEnd EndAt(const JobState& job, DeviceIndex device) const;
  // How many leaves the lane should take now; 0: none. Notes when to look again.
  uint64_t Ask(JobState* job, uint32_t lane, PoolEnd end, MonoTime now);
  void TellFinished(const PieceFinished& event, MonoTime now);
  // The piece is no longer the job's on its lane.
  void LeavePulls(JobState* job, PieceId id, const InFlightPiece& piece);
  // take_back.cc
  void TakeBack(MonoTime now, Effects* effects);
  void TakeBackOf(JobState* job, bool idle, MonoTime now, Effects* effects);
  void TakeBackPiece(JobState* job, const Puller::Steal& steal, Effects* effects);
  // For the master.
  void Recall(JobState* job, uint64_t from, uint64_t to, Effects* effects);
  void AskBack(const JobState& job, PieceId id, const InFlightPiece& piece, uint64_t keep,
               Effects* effects);
  // too_large.cc
  bool HeldSomewhere(const JobState& job, const LeaseRun& run) const;
  void ReturnTooLarge(JobId job, LeaseRun run, uint64_t budget_bytes, Effects* effects);
  // What waits for a device that may not run the job any more.
  void ReturnWhatFitsNowhere(JobState* job, Effects* effects);
  // splitting.cc: how devices share out leases, for people
  // Is this grant one of the few that are followed?
  bool MayNote(JobState* job, const LeaseRun& run);
  void NoteFinished(JobState* job, const LeaseRun& run, const LeaseSplits::Share& piece);
  // Leaves that will not be finished here.
  void NoteLeft(JobId id, const std::vector<LeaseRun>& runs);
  void TellSplit(JobState* job, const LeaseSplits::Range& range);
  // worker_core.cc: shared steps
  JobState* FindJob(JobId id);
  void Accept(JobState* job, LeaseRun run, bool front, Effects* effects);
  void UpdateRunnable(JobState* job);
  // REQUIRES: it is runnable, or was before a piece was taken.
  void TakeTurn(JobState* job);
  void Return(JobId job, std::vector<LeaseRun> runs, Effects* effects);
  void ReturnPool(JobState* job, Effects* effects);
  void ReturnUnstarted(Effects* effects);
  void EndJob(JobState* job, Effects* effects);
  void ForgetSetups(JobState* job, Effects* effects);
  void RefuseJob(JobState* job, JobFault fault, MonoTime until, Effects* effects);
  // May the job be tried here? Forgets a refusal that has been long enough.
  bool Welcome(JobState* job, Effects* effects);
  // Takes a piece out of flight. Nothing when it is not known.
  bool TakePiece(PieceId id, InFlightPiece* piece);
  // Nor when it is another executor's, or not of this kind: what an executor says of pieces that it
  // was not given counts for nothing.
  enum class PieceKind { kAny, kRun, kMerge };
  bool TakePieceOf(ExecutorId executor, PieceId id, PieceKind kind, InFlightPiece* piece);
  static std::vector<LeaseRun> RunsOf(InFlightPiece* piece);
  void VoidPiece(PieceId id, InFlightPiece* piece, Effects* effects);
  void MakeReports(MonoTime now, Effects* effects);
  void AddRates(MonoTime now, std::vector<KernelRate>* rates);
  void AddRates(WorkerDevice* device, MonoTime now, std::vector<KernelRate>* rates);
  void TellRatesAgain();
  void AddBacklogs(std::vector<Backlog>* backlogs);
  void LeaveIfDone(Effects* effects);
  MonoTime NextDeadline(MonoTime now) const;

  const CoreOptions options_;
  Rng rng_;
  CoreCounters counters_;

  Link link_ = Link::kDown;
  uint64_t session_ = 0;
  Epoch epoch_;
  uint64_t max_epoch_ = 0;
  absl::Duration lease_ttl_;
  absl::Duration heartbeat_;
  MonoTime heartbeat_at_;
  MonoTime last_step_ = MonoTime::InfinitePast();
  MonoTime down_since_ = MonoTime::InfinitePast();
  MonoTime lost_at_ = MonoTime::InfinitePast();  // when it was last attached
  bool draining_ = false;
  bool shutting_down_ = false;

  std::map<std::string, OwnerState> owners_;
  std::map<JobId, JobState> jobs_;
  std::vector<WorkerDevice> devices_;
  uint64_t devices_version_ = 1;
  absl::btree_map<ExecutorId, OwnersExecutor*> executors_;  // live ones
  absl::btree_map<PieceId, InFlightPiece> pieces_;
  std::vector<PullLane> lanes_;
  // Accumulators that are not empty.
  absl::btree_set<std::pair<JobId, DeviceIndex>> accumulating_;
  Outbox outbox_;
  std::vector<JobFault> faults_;    // to be reported
  std::vector<LeaseSplit> splits_;  // so are these
  NoteBudget notes_;                // of which there may be only so many
  uint64_t forgot_ = 0;             // so is this, when it is not 0: the last ForgetSaid's number
  // When a lane that declined counted on others: then it is asked again.
  MonoTime look_again_ = MonoTime::InfiniteFuture();

  uint64_t limited_jobs_ = 0;         // with a time limit
  std::vector<Suspect> former_life_;  // until the master has counted it
  uint64_t former_life_report_ = 0;   // that says so on this stream

  uint64_t last_order_ = 0;
  uint64_t last_turn_ = 0;
  uint64_t next_report_ = 1;
  PieceId last_piece_ = 0;
  ExecutorId last_executor_ = 0;
};

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_CORE_WORKER_CORE_H_
