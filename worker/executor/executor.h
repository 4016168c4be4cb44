// Executor: runs the pieces of one owner on one device; what tandem-executor is made of.
//
//   Executor executor(&device, &staging, &kernels, resources, wake);
//   for (;;) {
//     while (channel->Receive(&message)) executor.Handle(&message);
//     while (executor.Pump()) {}
//     if (executor.TakeReply(&reply)) channel->Send(reply);
//     if (executor.finished()) break;
//     …sleep, if executor.PrepareToSleep()…
//   }
//
// A piece waits for its operands (I/O threads), becomes ready, and goes to its lane's device in a
// batch. Whatever is ready on a lane for one kernel goes in one batch, across jobs and scalars, as
// long as it is small: so a thousand tiny jobs cost one call of the device. A busy lane gets its
// next batch before it is idle if that batch is large; small pieces rather wait and gather.
//
// Errors: nothing in a message can stop the process: what is wrong with it comes back as JobError,
// MergeDone.error or a returned piece.
//
// Thread-safety: one thread calls everything. Ownership: device, staging, kernels and what
// resources point to outlive the executor; so does everything that `wake` uses.
#ifndef TANDEM_WORKER_EXECUTOR_EXECUTOR_H_
#define TANDEM_WORKER_EXECUTOR_EXECUTOR_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "common/data/io_pool.h"
#include "tandem/executor/v1/executor.pb.h"
#include "worker/device/device.h"
#include "worker/executor/completion_queue.h"
#include "worker/executor/content_ids.h"
#include "worker/executor/job.h"
#include "worker/executor/kernel_table.h"
#include "worker/executor/merge.h"
#include "worker/executor/output_store.h"
#include "worker/executor/piece.h"

namespace tandem::worker {

struct ExecutorLimits {
  // Those that suit a device: one with a memory of its own has a launch and two copies to pay for
  // each batch, does more in the time of one core, and overlaps the copies of several batches.
  static ExecutorLimits For(const DeviceProperties& device);

  int io_threads = 4;
  // A batch takes further pieces while it is expected to take less than this.
  double merge_ns = 500'000;
  size_t merge_pieces_max = 4096;
  // Batches that a lane has at a time.
  uint32_t batches_a_lane = 2;
  // A lane that has so many gets another batch only if that is expected to take this long.
  uint32_t small_batches_a_lane = 1;
  double queue_ns = 200'000;
  // A piece that is expected to take one core so long can be cut short while it runs.
  double cut_ns = 1'000'000;
  // A merge of less than this runs on the loop.
  uint64_t merge_here_bytes = 64 << 10;
};

class Executor {
 public:
  Executor(Device* device, StagingAllocator* staging, const KernelTable* kernels,
           JobResources resources, std::function<void()> wake, const ExecutorLimits& limits = {});
  ~Executor();

  // What is said first.
  void SayReady();
  // `message` is consumed.
  void Handle(executor::v1::ToExecutor* message);
  // Goes on with what has finished and starts what can start. True: there was something.
  bool Pump();
  // False: there is nothing to say.
  bool TakeReply(executor::v1::FromExecutor* reply);
  // Not OK when what it holds can no longer be trusted: the process is to end, without a word more,
  // so that the supervisor takes everything back.
  const absl::Status& health() const { return health_; }
  // After a shutdown: nothing runs any more.
  bool finished() const { return shutdown_ && running_ == 0; }

  bool PrepareToSleep() { return completions_.PrepareToSleep(); }
  void Awake() { completions_.Awake(); }

 private:
  struct Run;
  struct LaneState {
    std::deque<Piece*> ready;
    std::deque<Merge*> merges;
    std::vector<Run*> runs;     // submitted
    uint32_t in_flight = 0;     // those, and merges
    int64_t idle_since_ns = 0;  // once nothing is in flight
    bool idle() const { return in_flight == 0 && ready.empty() && merges.empty(); }
  };
  struct BrokenJob {
    std::string reason;
    bool fatal = false;
  };

  // Messages.
  void SetUp(executor::v1::JobSetup* setup);
  void StartPiece(const executor::v1::RunPiece& run);
  void StartMerge(executor::v1::MergePiece* message);
  void Cancel(uint64_t piece);
  void Shrink(const executor::v1::ShrinkPiece& shrink);
  void SayShrunk(uint64_t piece, uint64_t leaves);
  // The piece with its first `leaves` alone, as if it had just come.
  void Restart(Piece* piece, uint64_t leaves);
  void Settle(Piece* piece);
  void Forget(uint64_t job);
  void Shutdown();
  Job* FindJob(uint64_t id);

  // Pieces and batches (dispatch.cc).
  void PieceSettled(Piece* piece, const absl::Status& status);
  void DispatchLane(uint32_t lane);
  bool LaneTakes(const LaneState& lane, double device_ns) const;
  std::unique_ptr<Run> GatherRun(uint32_t lane);
  bool Joins(const Run& run, const Piece& piece) const;
  void AllocateRun(Run* run);
  void SubmitRun(std::unique_ptr<Run> run);
  bool Withdraw(Piece* piece);
  void TakeCut(Run* run);
  void HalveRun(std::unique_ptr<Run> run);
  void HalvePiece(Piece* piece, const Batch& batch);
  void RunDone(Run* run);
  PieceCost CostOf(const Run& run, double share) const;
  void LearnDeviceTime(const Run& run);
  void FinishPiece(Piece* piece, int64_t failed);
  void Learn(const Run& run);
  void FailPiece(Piece* piece, const absl::Status& status, bool fatal);
  void ErasePiece(Piece* piece);

  // Accumulators and merges (reductions.cc).
  absl::Status Accumulate(Piece* piece);
  void QuitAccumulator(Piece* piece);
  void LeaveAccumulator(Piece* piece, executor::v1::PieceDone* done);
  void Flush(uint64_t job);
  void SayNothingGathered(uint64_t job);
  void Discard(uint64_t job);
  void Collect(std::shared_ptr<JobAccumulator> accumulator, Job* job);
  void CollectPiece(Piece* piece, int64_t failed);
  void MergeSettled(Merge* merge, const absl::Status& status);
  void RunMerge(Merge* merge);
  void MergeRan(Merge* merge, const absl::Status& status, int64_t busy_ns);

  void SayJobError(uint64_t job, const std::string& reason, bool fatal, uint64_t piece);
  void Count(const char* counter, uint64_t n);
  // Usage of a job, which is told with the next reply.
  Usage& CountFor(Job* job);
  void SayUsage(Job* job);
  void ReleaseJob(Job* job);

  Device* const device_;
  const KernelTable* const kernels_;
  JobResources resources_;
  const ExecutorLimits limits_;
  OutputStore outputs_;
  ContentIds contents_;
  CompletionQueue completions_;

  std::map<uint64_t, std::unique_ptr<Job>> jobs_;
  std::vector<std::unique_ptr<Job>> retired_;  // forgotten, set up anew, and still in flight
  std::map<uint64_t, BrokenJob> broken_;
  absl::flat_hash_map<uint64_t, std::unique_ptr<Piece>> pieces_;
  absl::flat_hash_map<uint64_t, std::unique_ptr<Merge>> merges_;
  std::vector<LaneState> lanes_;
  // Accumulators that are closed and wait for the pieces that run in them.
  std::map<JobAccumulator*, std::shared_ptr<JobAccumulator>> closing_;
  std::map<std::string, double, std::less<>> kernel_factor_;  // measured over hinted cost
  std::map<std::string, double, std::less<>> device_time_;    // of a kernel: Job::device_time
  uint64_t running_ = 0;  // batches, merges, collections and waits that will complete
  bool shutdown_ = false;
  absl::Status health_;

  executor::v1::FromExecutor reply_;
  bool has_reply_ = false;
  std::vector<Job*> counted_;   // with usage to tell
  std::unique_ptr<IoPool> io_;  // Goes first: its threads use everything above.
};

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_EXECUTOR_EXECUTOR_H_
