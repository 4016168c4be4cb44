// EventLoop: the one thread that owns the master's core.
//
// RPCs and workers' streams push events into a bounded queue; the loop takes all that is there,
// steps the core through it, and acts on the effects once: what waits for no record is sent at
// once, records go to the committer, the rest (answers, acknowledgements, visible states) when the
// committer says that they are durable. A disk that stalls stops no renewal.
//
//   EventLoop loop(parts, options);
//   RETURN_IF_ERROR(loop.Recover());     // replays the store
//   loop.Start();
//   RETURN_IF_ERROR(loop.Submit({…}, [](absl::StatusOr<JobId> id) { … }));
//   loop.Stop();
//
// When the store fails, on_failed is called once, from the loop's thread, and nothing happens
// afterwards: the process must exit with code 74.
//
// Thread-safety: after Start, everything but Recover and Start may be called from any thread.
// Ownership: the parts outlive the loop. Calls run on the loop's thread, answers on one of their
// own; neither must block.
#ifndef TANDEM_MASTER_SERVER_EVENT_LOOP_H_
#define TANDEM_MASTER_SERVER_EVENT_LOOP_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/data/io_pool.h"
#include "common/data/segment_store.h"
#include "master/core/core.h"
#include "master/core/events.h"
#include "master/server/answers.h"
#include "master/server/commit_builder.h"
#include "master/server/history.h"
#include "master/server/job_board.h"
#include "master/server/job_ledger.h"
#include "master/server/kernel_book.h"
#include "master/server/worker_hub.h"
#include "master/server/worker_stream.h"
#include "master/store/committer.h"
#include "master/store/store.h"

namespace tandem::master {

struct LoopOptions {
  Options core;
  uint64_t snapshot_every = 100'000;                    // Records between two snapshots, at least.
  uint64_t ended_jobs_kept = 10'000;                    // More: the oldest lose their results.
  absl::Duration retention = absl::InfiniteDuration();  // So do those that ended so long ago.
  // A segment that only deleted jobs name goes once nothing was appended to it for so long. Longer
  // than a worker may keep a piece that it has pushed before it names it.
  absl::Duration segment_quiet = absl::Minutes(15);
  size_t queue_max = 1 << 16;                       // Calls that wait for the loop.
  absl::Duration history_every = absl::Seconds(1);  // Of a running job's row.
  CommitterLimits committer;
};

struct LoopParts {
  Store* store = nullptr;
  SegmentStore* segments = nullptr;
  JobBoard* board = nullptr;
  KernelBook* kernels = nullptr;
  IoPool* pool = nullptr;             // For what waits for a disk; outlived by store and segments.
  std::function<bool()> low_on_room;  // The disk has no room but for the journal. Any thread.
  const Clock* clock = Clock::Real();
  std::string cluster_id;
  std::string host_id;
  std::string handover;  // The socket where workers on this host hand memory over; "": none.
};

// What a Call sees.
struct LoopView {
  const MasterCore& core;
  const WorkerHub& hub;
  Epoch epoch;
  const JobLedger& ledger;
  MonoTime now;
  CommitterStats committer;
  uint64_t batches = 0;  // Steps taken together.
  uint64_t events = 0;
  uint64_t replay_differences = 0;  // States that the log made otherwise than they had been.
};

class EventLoop final : public WorkerInbox {
 public:
  using Done = std::function<void(absl::StatusOr<JobId>)>;

  EventLoop(LoopParts parts, LoopOptions options,
            std::function<void(const absl::Status&)> on_failed);
  ~EventLoop() override;

  // Reads the store, becomes the next epoch, throws away segments that nothing names.
  absl::Status Recover();
  void Start();
  // Answers every call that waits with UNAVAILABLE, closes the workers' streams, makes durable what
  // is queued.
  void Stop();

  // Each: OK: queued, and `done` will be called once. Errors: UNAVAILABLE (SHUTTING_DOWN),
  // RESOURCE_EXHAUSTED (OVERLOADED, JOURNAL_FULL): `done` is not called.
  absl::Status Submit(SubmitJob event, Done done);
  absl::Status Cancel(CancelJob event, Done done);
  absl::Status Delete(DeleteJob event, Done done);
  // Also: the worker is named, not numbered. `done` gets no job's id.
  absl::Status Drain(DrainWorker event, Done done);
  // `done`: as WorkerHub's says.
  absl::Status ForgetRates(WorkerId worker, std::string kernel,
                           std::function<void(const absl::Status&)> done);
  absl::Status Call(std::function<void(const LoopView&)> call);

  Epoch epoch() const { return epoch_; }
  // Nothing new is accepted, because the disk is full. From any thread.
  bool journal_full() const;

  void OnHello(std::shared_ptr<WorkerStream> stream, wire::WorkerHello hello) override;
  void OnMessage(std::shared_ptr<WorkerStream> stream, FromWorker message) override;
  void OnGone(std::shared_ptr<WorkerStream> stream) override;

 private:
  struct Asked {
    Event event;
    Done done;
  };
  struct Hello {
    std::shared_ptr<WorkerStream> stream;
    wire::WorkerHello hello;
  };
  struct Message {
    std::shared_ptr<WorkerStream> stream;
    FromWorker said;
  };
  struct Gone {
    std::shared_ptr<WorkerStream> stream;
  };
  struct Forget {
    WorkerId worker;
    std::string kernel;
    std::function<void(const absl::Status&)> done;
  };
  using Called = std::function<void(const LoopView&)>;
  using Item = std::variant<Asked, Hello, Message, Gone, Forget, Called>;

  // Effects that wait for batch `seq`.
  struct Waiting {
    uint64_t seq = 0;
    absl::Time wall;  // As in the records of the same round.
    MonoTime at;
    std::vector<DropJob> drops;
    std::vector<AckReport> acks;
    std::vector<Reply> replies;
    std::vector<JobStatus> statuses;
    std::vector<JobId> accepted;
    std::vector<JobId> deleted;
  };

  absl::Status Ask(Event event, Done done);
  absl::Status Enqueue(Item item);
  void EnqueueUnbounded(Item item);

  // On the loop's thread.
  void Run();
  bool WaitForWork(std::vector<Item>* items);
  bool Ready() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Handle(Item item);
  void Step(const Event& event);
  void HandleHello(Hello hello);
  void HandleTimers();
  void RenewAll();
  void Act();
  void NoteRecords();
  void NoteWork();
  LoopView View() const;
  void Commit(absl::Time wall);
  void Release(Waiting waiting);
  void ReleaseDurable();
  void AnswerAll();
  void DeleteOldJobs();
  void DeleteJobsPastRetention();
  void FreeSegments();
  void SaveSnapshotIfDue();
  void Fail(const absl::Status& status);
  void EndEverything();

  // In recovery.cc.
  absl::Status Replay(std::string_view payload, std::map<JobId, absl::Time>* ended);
  absl::Status RestoreStarts();
  void PublishRecovered(const std::map<JobId, absl::Time>& ended);
  absl::Status DeleteUnreferencedSegments();

  void OnDurable(const absl::Status& status, uint64_t seq);

  const LoopParts parts_;
  const LoopOptions options_;
  const std::function<void(const absl::Status&)> on_failed_;

  // Of the loop's thread (before Start: of Recover's).
  MasterCore core_;
  WorkerHub hub_;
  JobLedger ledger_;
  CommitBuilder builder_;
  History history_;
  Epoch epoch_;
  MonoTime now_;
  absl::Time wall_;
  MonoTime next_pulse_;
  Effects effects_;
  std::deque<Waiting> waiting_;
  std::map<RequestToken, Done> asked_;
  std::vector<Reply> replies_;  // To be given when what was decided has been sent.
  RequestToken last_token_ = 0;
  uint64_t last_seq_ = 0;
  uint64_t durable_seq_ = 0;
  uint64_t batches_ = 0;
  uint64_t events_ = 0;
  uint64_t records_since_snapshot_ = 0;
  uint64_t replay_differences_ = 0;
  uint64_t snapshot_records_ = 0;  // In the last snapshot.
  bool jobs_ended_ = false;        // Since DeleteOldJobs looked.
  bool jobs_deleted_ = true;       // Since the start; perhaps just before it.
  MonoTime next_free_;             // When to look for segments that nothing names.
  std::shared_ptr<std::atomic<bool>> freeing_ = std::make_shared<std::atomic<bool>>(false);
  bool failed_ = false;

  struct Syncer;
  std::unique_ptr<Syncer> syncer_;
  std::unique_ptr<Committer> committer_;
  Answers answers_;
  std::atomic<bool> journal_full_{false};

  absl::Mutex mu_;
  std::vector<Item> queue_ ABSL_GUARDED_BY(mu_);
  bool stalled_ ABSL_GUARDED_BY(mu_) = false;  // The committer takes nothing: leave the queue.
  uint64_t told_durable_ ABSL_GUARDED_BY(mu_) = 0;
  bool told_ ABSL_GUARDED_BY(mu_) = false;  // The committer has said something new.
  absl::Status store_error_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;  // Takes no more.

  std::thread thread_;
};

}  // namespace tandem::master

#endif  // TANDEM_MASTER_SERVER_EVENT_LOOP_H_
