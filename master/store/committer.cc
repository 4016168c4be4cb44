#include "master/store/committer.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "common/base/check.h"
#include "common/base/error.h"
#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace tandem::master {
namespace {

uint64_t BytesOf(const AppendBatch& batch) {
  uint64_t bytes = sizeof(AppendBatch);
  for (const LogRecord& record : batch.records) bytes += sizeof(record) + record.payload.size();
  for (const OutputRow& row : batch.outputs) {
    const auto* inline_bytes = std::get_if<std::string>(&row.where);
    bytes += sizeof(row) + (inline_bytes == nullptr ? 0 : inline_bytes->size());
  }
  for (const FailureRow& row : batch.failures) bytes += sizeof(row) + row.failure.reason.size();
  return bytes;
}

bool IsDiskFull(const absl::Status& status) {
  return status.code() == absl::StatusCode::kResourceExhausted;
}

}  // namespace

Committer::Committer(Store* store, Epoch epoch, SegmentSyncer* syncer, CommitterLimits limits,
                     Callback callback, const Clock* clock)
    : store_(store),
      epoch_(epoch),
      syncer_(syncer),
      limits_(limits),
      callback_(std::move(callback)),
      clock_(clock) {
  {
    absl::MutexLock lock(&mu_);
    durable_seq_ = store->HeadSeq();
    next_seq_ = durable_seq_ + 1;
  }
  thread_ = std::thread([this] { Run(); });
}

Committer::~Committer() {
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
  }
  thread_.join();
}

absl::StatusOr<uint64_t> Committer::Commit(AppendBatch batch, std::vector<SegmentExtent> dirty) {
  Queued queued{std::move(batch), std::move(dirty), 0};
  queued.bytes = BytesOf(queued.batch);
  absl::MutexLock lock(&mu_);
  RETURN_IF_ERROR(failed_);
  // What the caller's own clock makes after it stopped taking more has a place, too.
  if (queue_.size() >= 2 * limits_.queued_batches_max ||
      queued_bytes_ >= 2 * limits_.queued_bytes_max) {
    return Error(absl::StatusCode::kResourceExhausted, reason::kOverloaded,
                 StrCat(queue_.size(), " batches of ", HumanSize(queued_bytes_),
                        " wait for the disk already", full_ ? ", which is full" : ""));
  }
  queued_bytes_ += queued.bytes;
  queue_.push_back(std::move(queued));
  return next_seq_++;
}

bool Committer::HasRoom() const {
  absl::MutexLock lock(&mu_);
  return HasRoomLocked();
}

bool Committer::HasRoomLocked() const {
  return queue_.size() < limits_.queued_batches_max && queued_bytes_ < limits_.queued_bytes_max;
}

void Committer::Project(uint64_t seq, std::vector<JobRow> rows) {
  absl::MutexLock lock(&mu_);
  history_.push_back({seq, std::move(rows)});
}

void Committer::SaveSnapshot(uint64_t seq, std::string bytes) {
  absl::MutexLock lock(&mu_);
  if (seq >= snapshot_.seq) snapshot_ = {seq, std::move(bytes)};
}

absl::Status Committer::Flush() {
  absl::MutexLock lock(&mu_);
  ++flushing_;
  const auto settled = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return !failed_.ok() || full_ ||
           (idle_ && queue_.empty() && !HistoryIsDue() && !SnapshotIsDue());
  };
  mu_.Await(absl::Condition(&settled));
  --flushing_;
  if (failed_.ok() && full_) {
    return Error(absl::StatusCode::kResourceExhausted, reason::kJournalFull,
                 "the disk is full: what is queued waits for room");
  }
  return failed_;
}

CommitterStats Committer::Stats() const {
  absl::MutexLock lock(&mu_);
  return stats_;
}

// Rows and a snapshot as of a batch that is not durable wait for it.
bool Committer::HistoryIsDue() const {
  return !history_.empty() && history_.front().seq <= durable_seq_;
}
bool Committer::SnapshotIsDue() const {
  return snapshot_.seq != 0 && snapshot_.seq <= durable_seq_;
}

void Committer::Run() {
  while (true) {
    absl::Status status;
    switch (NextTask()) {
      case Task::kStop:
        return;
      case Task::kCommit:
        status = CommitGroup();
        break;
      case Task::kSnapshot:
        status = WriteSnapshot();
        break;
      case Task::kRows:
        status = WriteRows();
        break;
      case Task::kMaintain:
      case Task::kTidyUp:
        status = Maintain();
        break;
    }
    if (!status.ok()) {
      Stop(status);
      return;
    }
  }
}

// Takes over the rows of batches that are durable, the later of each job.
void Committer::TakeHistory() {
  std::vector<History> due;
  {
    absl::MutexLock lock(&mu_);
    while (HistoryIsDue()) {
      due.push_back(std::move(history_.front()));
      history_.pop_front();
    }
  }
  if (rows_.empty() && !due.empty()) rows_since_ = clock_->Now();
  for (History& history : due) {
    rows_seq_ = history.seq;
    for (JobRow& row : history.rows) {
      JobRow& pending = rows_[row.id];
      if (!row.spec.has_value()) row.spec = std::move(pending.spec);
      pending = std::move(row);
    }
  }
}

// Waits until there is something to do; for a lull if that is not urgent.
void Committer::WaitForTask(bool rows) {
  const auto urgent = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return stopping_ || flushing_ > 0 || !queue_.empty() || SnapshotIsDue();
  };
  const auto any = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return stopping_ || !queue_.empty() || SnapshotIsDue() || HistoryIsDue();
  };
  if (rows || untidy_) {
    const absl::Duration left =
        rows ? limits_.lag_max - (clock_->Now() - rows_since_) : limits_.lull;
    mu_.AwaitWithTimeout(absl::Condition(&urgent), std::min(limits_.lull, left));
    return;
  }
  idle_ = true;
  mu_.Await(absl::Condition(&any));
  idle_ = false;
}

Committer::Task Committer::NextTask() {
  TakeHistory();
  if (untidy_ && store_->NeedsMaintenance()) return Task::kMaintain;
  const bool rows = !rows_.empty() && !rows_blocked_;
  if (rows && (rows_.size() >= limits_.pending_rows_max ||
               clock_->Now() - rows_since_ >= limits_.lag_max)) {
    return Task::kRows;
  }
  absl::MutexLock lock(&mu_);
  WaitForTask(rows);
  if (!queue_.empty()) return Task::kCommit;
  if (SnapshotIsDue()) return Task::kSnapshot;
  if (rows || HistoryIsDue()) return Task::kRows;
  if (stopping_) return Task::kStop;
  return Task::kTidyUp;
}

Committer::Group Committer::TakeGroup() {
  Group group;
  absl::MutexLock lock(&mu_);
  while (!queue_.empty() && group.bytes < limits_.group_bytes_max) {
    Queued& first = queue_.front();
    group.bytes += first.bytes;
    group.batches.push_back(std::move(first.batch));
    group.dirty.insert(group.dirty.end(), first.dirty.begin(), first.dirty.end());
    queue_.pop_front();
  }
  queued_bytes_ -= group.bytes;
  group.last_seq = durable_seq_ + group.batches.size();
  // The farthest of each segment is enough.
  std::sort(group.dirty.begin(), group.dirty.end(),
            [](const SegmentExtent& a, const SegmentExtent& b) {
              return a.segment != b.segment ? a.segment < b.segment : a.end > b.end;
            });
  const auto same = [](const SegmentExtent& a, const SegmentExtent& b) {
    return a.segment == b.segment;
  };
  group.dirty.erase(std::unique(group.dirty.begin(), group.dirty.end(), same), group.dirty.end());
  return group;
}

absl::Status Committer::CommitGroup() {
  Group group = TakeGroup();
  while (true) {
    const absl::Status status = SyncAndAppend(group);
    if (status.ok()) break;
    // Only a disk without room is worth another try; what was not written keeps its place.
    if (!IsDiskFull(status) || !WaitForRoom(status)) return status;
  }
  GroupIsDurable(group);
  return absl::OkStatus();
}

absl::Status Committer::SyncAndAppend(const Group& group) {
  const MonoTime begin = clock_->Now();
  if (!group.dirty.empty()) {
    RETURN_IF_ERROR(TANDEM_FAILPOINT("commit.before_segments"));
    RETURN_IF_ERROR(syncer_->Sync(group.dirty));
    RETURN_IF_ERROR(TANDEM_FAILPOINT("commit.after_segments"));
  }
  const MonoTime synced = clock_->Now();
  ASSIGN_OR_RETURN(const uint64_t last, store_->Append(epoch_, group.batches));
  CHECK_MSG(last == group.last_seq, "somebody else appends to the store");
  const MonoTime end = clock_->Now();
  absl::MutexLock lock(&mu_);
  stats_.syncing += synced - begin;
  stats_.appending += end - synced;
  stats_.longest = std::max(stats_.longest, end - begin);
  return absl::OkStatus();
}

void Committer::GroupIsDurable(const Group& group) {
  {
    absl::MutexLock lock(&mu_);
    durable_seq_ = group.last_seq;
    full_ = false;
    ++stats_.groups;
    stats_.batches += group.batches.size();
    stats_.bytes += group.bytes;
  }
  callback_(absl::OkStatus(), group.last_seq);
  rows_blocked_ = false;
  untidy_ = true;
}

// Neither a snapshot nor history nor housekeeping is worth holding up commits for, so a full disk
// puts them off; any other error is final.
absl::Status Committer::WriteRows() {
  TakeHistory();
  std::vector<JobRow> rows;
  rows.reserve(rows_.size());
  for (auto& [id, row] : rows_) rows.push_back(std::move(row));
  if (rows.empty()) return absl::OkStatus();
  const absl::Status status = store_->Project(rows_seq_, rows);
  if (IsDiskFull(status)) {
    for (JobRow& row : rows) rows_[row.id] = std::move(row);
    rows_blocked_ = true;
    return absl::OkStatus();
  }
  rows_.clear();
  return status;
}

absl::Status Committer::WriteSnapshot() {
  Snapshot snapshot;
  {
    absl::MutexLock lock(&mu_);
    std::swap(snapshot, snapshot_);
  }
  // The log that a snapshot drops is what history could be written from again.
  RETURN_IF_ERROR(WriteRows());
  if (rows_blocked_) return absl::OkStatus();
  const absl::Status status = store_->SaveSnapshot(epoch_, snapshot.seq, snapshot.bytes);
  if (!IsDiskFull(status)) return status;
  TLOG(Warning, "snapshot_left_out", "seq", snapshot.seq, "reason", ToStd(status.message()));
  return absl::OkStatus();
}

absl::Status Committer::Maintain() {
  const absl::StatusOr<bool> more = store_->Maintain();
  untidy_ = more.ok() && *more;
  return IsDiskFull(more.status()) ? absl::OkStatus() : more.status();
}

// Says once that the disk is full, and waits before the next try. False: the committer is to stop.
bool Committer::WaitForRoom(const absl::Status& full) {
  uint64_t durable = 0;
  bool first = false;
  {
    absl::MutexLock lock(&mu_);
    first = !full_;
    full_ = true;
    durable = durable_seq_;
    ++stats_.full_disk_retries;
  }
  if (first) callback_(full, durable);
  absl::MutexLock lock(&mu_);
  return !mu_.AwaitWithTimeout(absl::Condition(&stopping_), limits_.full_disk_retry);
}

void Committer::Stop(const absl::Status& status) {
  uint64_t durable = 0;
  {
    absl::MutexLock lock(&mu_);
    failed_ = status;
    durable = durable_seq_;
  }
  callback_(status, durable);
}

}  // namespace tandem::master
