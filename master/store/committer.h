// Committer: the thread that makes things durable, so that no other thread waits for a disk.
//
//   Committer committer(store, epoch, syncer, limits, [&](const absl::Status& s, uint64_t seq) {
//     loop.Post(…);
//   });
//   ASSIGN_OR_RETURN(uint64_t seq, committer.Commit(std::move(batch), dirty_segments));
//   // …hold what depends on the batch until the callback has said OK for a number >= seq.
//
// Group commit without a timer: the thread takes everything that is queued, syncs the segments that
// the batches name, appends all of it in one transaction, and calls back once with the highest
// number. What arrives meanwhile is the next group; with nothing queued a batch starts at once.
// When idle it writes rows of history and lets the store do its housekeeping.
//
// The callback, from the committer's thread, must not block:
//   OK                  all batches up to `seq` are durable.
//   RESOURCE_EXHAUSTED  the disk is full (said once a blockage). Everything up to `seq` is durable;
//                       the rest is kept and tried again until there is room, then OK is said.
//                       Meanwhile the queue fills, and Commit refuses when it is full.
//   any other           the store failed or the epoch is stale. Nothing after `seq` is known to be
//                       durable, nothing more will be written, and Commit returns this error: the
//                       process must stop (exit code 74), and its successor reads what there is.
//
// Thread-safety: safe from any thread; batches are numbered in the order of the calls.
// Ownership: store and syncer outlive the committer. The destructor commits what is queued (unless
// the disk is full or failed) and joins the thread.
// Invariants:
//  1. A batch is appended only after each segment it names was synced.
//  2. `seq` never goes down from one callback to the next.
//  3. While the committer lives, nobody else appends to the store.
//  4. History is written only of batches that are durable, and before a snapshot drops their log.
// Failpoints: commit.before_segments, commit.after_segments, and those of the store.
#ifndef TANDEM_MASTER_STORE_COMMITTER_H_
#define TANDEM_MASTER_STORE_COMMITTER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/clock.h"
#include "common/model/ids.h"
#include "common/model/segment_extent.h"
#include "master/store/rows.h"
#include "master/store/store.h"

namespace tandem::master {

// What makes segments durable (the segment store, in a server). Called from the committer's thread.
class SegmentSyncer {
 public:
  virtual ~SegmentSyncer() = default;
  virtual absl::Status Sync(absl::Span<const SegmentExtent> extents) = 0;
};

struct CommitterLimits {
  size_t queued_batches_max = 1 << 16;
  uint64_t queued_bytes_max = uint64_t{256} << 20;
  // What one transaction holds at most (one batch more): bounds its latency.
  uint64_t group_bytes_max = uint64_t{4} << 20;
  // Jobs whose history may wait for an idle moment before it is written in between.
  size_t pending_rows_max = 4096;
  // History and housekeeping wait until no commit came for this long, history at most `lag_max`.
  absl::Duration lull = absl::Milliseconds(20);
  absl::Duration lag_max = absl::Seconds(1);
  // How long a full disk is left alone before it is tried again.
  absl::Duration full_disk_retry = absl::Milliseconds(250);
};

// Totals since the start.
struct CommitterStats {
  uint64_t groups = 0;
  uint64_t batches = 0;
  uint64_t bytes = 0;
  uint64_t full_disk_retries = 0;
  absl::Duration syncing;    // in segments
  absl::Duration appending;  // in the store
  absl::Duration longest;    // group
};

class Committer {
 public:
  using Callback = std::function<void(const absl::Status& status, uint64_t seq)>;

  // Begins after the store's head. `clock` is for the statistics and, with the limits, for retries.
  Committer(Store* store, Epoch epoch, SegmentSyncer* syncer, CommitterLimits limits,
            Callback callback, const Clock* clock = Clock::Real());
  ~Committer();
  Committer(const Committer&) = delete;
  Committer& operator=(const Committer&) = delete;

  // Queues a batch and returns its number. `dirty`: how far its records name bytes of segments that
  // may not be synced yet; costs nothing for those that are. Errors: RESOURCE_EXHAUSTED
  // (OVERLOADED) when the queue is full, or the error that stopped the committer; nothing was
  // queued.
  absl::StatusOr<uint64_t> Commit(AppendBatch batch, std::vector<SegmentExtent> dirty);
  // Whether the caller shall make more batches. Only a call of Commit can make it false; Commit
  // itself refuses at twice the limits.
  bool HasRoom() const;

  // What history says of some jobs as of batch `seq`: written some time after that batch is
  // durable; of two rows of one job perhaps only the later. REQUIRES: seq never goes down.
  void Project(uint64_t seq, std::vector<JobRow> rows);
  // A snapshot of the state after batch `seq`: saved when that batch is durable. One that a later
  // call overtakes, or for which there is no room, is left out.
  void SaveSnapshot(uint64_t seq, std::string bytes);

  // Waits until all that was queued is durable and written, or until the committer cannot go on,
  // and says which.
  absl::Status Flush();

  CommitterStats Stats() const;

 private:
  struct Queued {
    AppendBatch batch;
    std::vector<SegmentExtent> dirty;
    uint64_t bytes = 0;
  };
  struct History {
    uint64_t seq = 0;
    std::vector<JobRow> rows;
  };
  // What is committed together.
  struct Group {
    std::vector<AppendBatch> batches;
    std::vector<SegmentExtent> dirty;
    uint64_t bytes = 0;
    uint64_t last_seq = 0;
  };
  // What the thread does next; the alternatives are in order of urgency.
  enum class Task { kMaintain, kCommit, kSnapshot, kRows, kTidyUp, kStop };

  void Run();
  Task NextTask();
  void WaitForTask(bool rows);
  bool HasRoomLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool HistoryIsDue() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool SnapshotIsDue() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void TakeHistory();
  Group TakeGroup();
  absl::Status CommitGroup();
  absl::Status SyncAndAppend(const Group& group);
  void GroupIsDurable(const Group& group);
  absl::Status WriteSnapshot();
  absl::Status WriteRows();
  absl::Status Maintain();
  bool WaitForRoom(const absl::Status& full);
  void Stop(const absl::Status& status);

  Store* const store_;
  const Epoch epoch_;
  SegmentSyncer* const syncer_;
  const CommitterLimits limits_;
  const Callback callback_;
  const Clock* const clock_;

  // The thread's own.
  std::map<JobId, JobRow> rows_;  // History as of rows_seq_, to be written.
  uint64_t rows_seq_ = 0;
  MonoTime rows_since_;        // When the first of them came.
  bool rows_blocked_ = false;  // There was no room for them; not tried before the next commit.
  bool untidy_ = false;        // The store may have housekeeping to do.

  mutable absl::Mutex mu_;
  std::deque<Queued> queue_ ABSL_GUARDED_BY(mu_);
  uint64_t queued_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t next_seq_ ABSL_GUARDED_BY(mu_) = 1;
  uint64_t durable_seq_ ABSL_GUARDED_BY(mu_) = 0;
  std::deque<History> history_ ABSL_GUARDED_BY(mu_);
  Snapshot snapshot_ ABSL_GUARDED_BY(mu_);  // seq 0: none
  bool idle_ ABSL_GUARDED_BY(mu_) = false;
  int flushing_ ABSL_GUARDED_BY(mu_) = 0;  // Calls of Flush that wait.
  bool full_ ABSL_GUARDED_BY(mu_) = false;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status failed_ ABSL_GUARDED_BY(mu_);
  CommitterStats stats_ ABSL_GUARDED_BY(mu_);

  std::thread thread_;
};

}  // namespace tandem::master

#endif  // TANDEM_MASTER_STORE_COMMITTER_H_
