// EventLoop::Recover: from the store to a core that goes on where the last master ended.
#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/btree_set.h"
#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "master/server/event_loop.h"
#include "master/server/records.h"
#include "master/server/syncer.h"
#include "master/server/timestamps.h"

namespace tandem::master {
namespace {

// The least age of a job from before the restart: whatever the wall clock says.
constexpr absl::Duration kRestarted = absl::Nanoseconds(1);

}  // namespace

absl::Status EventLoop::Replay(std::string_view payload, std::map<JobId, absl::Time>* ended) {
  uint64_t hash = 0;
  const auto replay = [this, ended](DecodedRecord decoded) {
    if (const auto* accepted = std::get_if<JobAccepted>(&decoded.record)) {
      parts_.board->Accept(std::make_shared<const JobAccepted>(*accepted));
    } else if (const auto* announced = std::get_if<KernelAnnounced>(&decoded.record)) {
      parts_.kernels->Announce(announced->kernel);
    } else if (const auto* end = std::get_if<JobEnded>(&decoded.record)) {
      (*ended)[end->job] = decoded.ended.value_or(absl::InfinitePast());
      if (!decoded.account.empty()) ledger_.Restore(end->job, std::move(decoded.account));
    } else if (const auto* deleted = std::get_if<JobDeleted>(&decoded.record)) {
      parts_.board->Remove(deleted->job);
      ledger_.Forget(deleted->job);
      ended->erase(deleted->job);
    }
    core_.Replay(decoded.record);
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(DecodeRecords(payload, replay, &hash));
  // What is durable counts, whatever the last master took its state to be; but somebody should
  // know.
  if (hash != 0 && hash != core_.DurableHash()) {
    ++replay_differences_;
    TLOG(Error, "replay_differs", "epoch", epoch_);
  }
  return absl::OkStatus();
}

absl::Status EventLoop::Recover() {
  // The epoch comes first: from here on the store refuses every older master.
  ASSIGN_OR_RETURN(epoch_, parts_.store->RaiseEpoch());
  std::map<JobId, absl::Time> ended;
  ASSIGN_OR_RETURN(const std::optional<Snapshot> snapshot, parts_.store->LoadSnapshot());
  uint64_t from = 1;
  if (snapshot) {
    RETURN_IF_ERROR(WithContext(Replay(snapshot->bytes, &ended), "snapshot"));
    from = snapshot->seq + 1;
  }
  RETURN_IF_ERROR(
      parts_.store->ReadFrom(from, [&](uint64_t seq, absl::Span<const std::string_view> records) {
        for (const std::string_view record : records) {
          RETURN_IF_ERROR(WithContext(Replay(record, &ended), StrCat("log record ", seq)));
        }
        return absl::OkStatus();
      }));
  last_seq_ = durable_seq_ = parts_.store->HeadSeq();
  {
    absl::MutexLock lock(&mu_);
    told_durable_ = durable_seq_;
  }
  now_ = parts_.clock->Now();
  next_pulse_ = now_ + options_.core.heartbeat;
  RETURN_IF_ERROR(RestoreStarts());
  core_.Recovered(epoch_, now_);
  RETURN_IF_ERROR(DeleteUnreferencedSegments());
  committer_ = std::make_unique<Committer>(
      parts_.store, epoch_, syncer_.get(), options_.committer,
      [this](const absl::Status& status, uint64_t seq) { OnDurable(status, seq); }, parts_.clock);
  PublishRecovered(ended);
  Step(Tick{});
  Act();
  return absl::OkStatus();
}

// When jobs began to run is in no record, but in the rows of history.
absl::Status EventLoop::RestoreStarts() {
  for (const JobId job : core_.Jobs()) {
    const absl::StatusOr<JobRow> row = parts_.store->FindJob(job);
    if (absl::IsNotFound(row.status())) continue;  // Accepted, and not yet seen by anybody.
    RETURN_IF_ERROR(row.status());
    if (row->started != absl::InfiniteFuture()) {
      core_.BeganAfter(job, row->started - row->submitted);
    }
  }
  return absl::OkStatus();
}

void EventLoop::PublishRecovered(const std::map<JobId, absl::Time>& ended) {
  std::vector<JobRow> rows;
  size_t unfinished = 0;
  for (const JobId job : core_.Jobs()) {
    std::optional<JobStatus> status = core_.Status(job);
    if (!status) continue;
    const auto end = ended.find(job);
    if (!HasEnded(status->state)) {
      ++unfinished;
      const std::shared_ptr<const JobAccepted> accepted = parts_.board->FindAccepted(job);
      ledger_.Accepted(job, now_,
                       std::max(parts_.clock->WallNow() - accepted->submitted, kRestarted));
      ledger_.Became(*status, now_);
    }
    parts_.board->Publish(*std::move(status),
                          end == ended.end() ? absl::InfiniteFuture() : end->second);
    const std::optional<JobView> view = parts_.board->Find(job);
    if (std::optional<JobRow> row = history_.Note(*view, now_)) rows.push_back(*std::move(row));
  }
  jobs_ended_ = true;
  TLOG(Info, "recovered", "epoch", epoch_, "seq", last_seq_, "jobs", rows.size(), "unfinished",
       unfinished);
  if (!rows.empty()) committer_->Project(last_seq_, std::move(rows));
}

absl::Status EventLoop::DeleteUnreferencedSegments() {
  ASSIGN_OR_RETURN(const std::vector<SegmentId> rows, parts_.store->ReferencedSegments());
  absl::btree_set<SegmentId> referenced(rows.begin(), rows.end());
  // Partials are in records, not in rows.
  const auto add = [&referenced](const OutputsHandle& outputs) {
    if (outputs == nullptr) return;
    for (const OutputPiece& piece : *outputs) {
      if (const auto* region = std::get_if<Region>(&piece.where)) {
        referenced.insert(region->segment);
      }
    }
  };
  std::vector<Record> records;
  core_.Snapshot(&records);
  for (const Record& record : records) {
    if (const auto* done = std::get_if<LeavesDone>(&record)) add(done->outputs);
    if (const auto* merged = std::get_if<PartialsMerged>(&record)) add(merged->result.outputs);
  }
  const std::vector<SegmentId> all(referenced.begin(), referenced.end());
  ASSIGN_OR_RETURN(const uint64_t freed, parts_.segments->DeleteUnreferenced(all));
  if (freed > 0) TLOG(Info, "segments_deleted", "bytes", freed);
  return absl::OkStatus();
}

}  // namespace tandem::master
