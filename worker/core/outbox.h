// Outbox: what is finished and not yet known to be durable: commits, merges, crashes and returns,
// from the moment an executor says so until the master acknowledges the report that carried them.
//
//   an item: staged outputs pushed → ready → in a numbered report → acknowledged → staging released
//
// It survives the loss of the stream: after a Welcome, items whose leaves were all adopted are
// reported again under their new leases; all others are void. Staged outputs are pushed again when
// the epoch has changed, because a new master names no region of its predecessor.
//
// It also keeps the books of staging: a region goes back to its executor once its item is gone and
// no push reads it; an executor that is lost has its staging closed after the last one.
//
// Thread-safety: belongs to the core.
// Invariants: 1. an item is in exactly one of: pushing, ready, reported; 2. pushes_ names live
// pushes only; 3. a staging count is the number of regions that items or orphaned pushes hold.
#ifndef TANDEM_WORKER_CORE_OUTBOX_H_
#define TANDEM_WORKER_CORE_OUTBOX_H_

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "common/base/clock.h"
#include "worker/core/events.h"
#include "worker/core/lease_run.h"
#include "worker/core/options.h"

namespace tandem::worker {

struct OutItem {
  enum class Kind { kCommit, kMerge, kCrash, kReturn };
  Kind kind = Kind::kCommit;
  JobId job;
  std::vector<LeaseRun> runs;  // a merge has none
  bool appends = false;        // may be joined with the adjacent piece's
  std::vector<TaskFailure> failures;
  uint64_t busy_ns = 0;
  uint64_t tasks = 0;
  uint64_t merge_n = 0;
  uint64_t merge_failed = 0;
  std::string text;  // a merge's error, a crash's signal
  bool task_known = false;
  uint64_t task = 0;
  uint64_t suspected_leaves = 0;  // by a crash
  uint64_t gpu_need_bytes = 0;    // a return: no device here has so much for it …
  uint64_t gpu_budget_bytes = 0;
};

class Outbox {
 public:
  explicit Outbox(const CoreOptions& options) : options_(options) {}

  // Takes over outputs that `executor` made: pushes what is staged, keeps what is inline.
  void Add(OutItem item, ExecutorId executor, std::vector<StagedOutput> outputs, Effects* effects);
  // Outputs that nobody wants.
  void Discard(ExecutorId executor, const std::vector<StagedOutput>& outputs, Effects* effects);

  void ExecutorStarted(ExecutorId executor) { staging_[executor] = {}; }
  void ExecutorLost(ExecutorId executor, Effects* effects);

  void PushDone(PushId push, const Region& region, Effects* effects);
  void PushFailed(PushId push, MonoTime now, Effects* effects);
  // Nothing is pushed until the next Rejoin, which pushes what is still to be pushed.
  void MasterLost();
  // Pushes again what failed long enough ago.
  void RetryPushes(MonoTime now, Effects* effects);
  MonoTime next_retry() const;

  // Puts everything ready into reports (as many as the bounds need), the first of them numbered
  // `next_number`; returns the next free number.
  uint64_t Report(uint64_t next_number, std::vector<tandem::Report>* reports);
  void Acked(uint64_t number, Effects* effects);
  void DropJob(JobId job, Effects* effects);
  void DropAll(Effects* effects);

  // After a Welcome. `renew` gives each run its new lease, or says no and changes nothing; it is
  // asked about all runs of an item at once.
  using Renew = absl::FunctionRef<bool(JobId job, std::vector<LeaseRun>* runs)>;
  void Rejoin(bool new_epoch, Renew renew, Effects* effects);

  // f(item) for each, in the order they were added.
  void ForEach(absl::FunctionRef<void(const OutItem&)> f) const;
  bool empty() const { return items_.empty(); }
  bool has_ready() const { return !ready_.empty(); }
  size_t size() const { return items_.size(); }
  uint64_t joined() const { return joined_; }

  // For tests: dies unless the invariants hold.
  void CheckInvariants() const;

 private:
  using ItemId = uint64_t;
  struct Staged {
    ExecutorId executor = 0;
    uint32_t index = 0;  // in outputs
    uint64_t offset = 0;
    uint64_t length = 0;
    PushId push = 0;  // in flight
    bool pushed = false;
  };
  struct Entry {
    OutItem item;
    CommitOutputs outputs;
    OutputsHandle handle;  // once reported; then `outputs` stays only with staged ones
    std::vector<Staged> staged;
    uint64_t inline_bytes = 0;
    uint32_t unpushed = 0;
    uint64_t report = 0;
  };
  struct Push {
    ItemId item = 0;  // 0: an orphan, whose item is void
    size_t staged = 0;
    bool stale = false;  // its region is of an old epoch: pushed once more when it has ended
    Staged region;
  };
  struct Staging {
    bool lost = false;
    uint64_t regions = 0;
  };

  bool TryJoin(OutItem* item, std::vector<StagedOutput>* outputs);
  void StartPush(ItemId id, size_t index, Effects* effects);
  void FillReport(Entry* entry, tandem::Report* report);
  // Void or acknowledged: lets go of its staging.
  void Release(Entry* entry, Effects* effects);
  void ReleaseRegion(const Staged& region, Effects* effects);
  void Forget(ExecutorId executor, Effects* effects);
  void RemoveFromQueues(ItemId id);

  const CoreOptions options_;
  std::map<ItemId, Entry> items_;
  std::vector<ItemId> ready_;
  std::deque<std::pair<uint64_t, ItemId>> reported_;  // by report number
  std::map<PushId, Push> pushes_;
  std::deque<std::pair<MonoTime, std::pair<ItemId, size_t>>> retries_;
  std::map<ExecutorId, Staging> staging_;
  ItemId last_item_ = 0;
  PushId last_push_ = 0;
  uint64_t joined_ = 0;
  bool away_ = false;  // the master
};

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_CORE_OUTBOX_H_
