#include "master/server/commit_builder.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

#include "common/model/range_tree.h"
#include "master/core/job.h"
#include "master/server/job_view.h"

namespace tandem::master {
namespace {

// Are the bytes of consecutive tasks behind one another?
bool Leading(const BoundOutput& output) {
  return output.kind == BoundOutput::Kind::kConcat && output.dim == 0;
}

}  // namespace

const BoundJob* CommitBuilder::Find(JobId job) {
  if (last_ == nullptr || last_->job != job) last_ = board_->FindAccepted(job);
  return last_ == nullptr ? nullptr : last_->bound.get();
}

void CommitBuilder::MarkDirty(const CommitOutputs& outputs) {
  for (const OutputPiece& piece : outputs) {
    const auto* region = std::get_if<Region>(&piece.where);
    if (region == nullptr) continue;
    const uint64_t end = region->offset + region->length;
    const auto known = std::ranges::find(commit_.dirty, region->segment, &SegmentExtent::segment);
    if (known == commit_.dirty.end()) {
      commit_.dirty.push_back({region->segment, end});
    } else {
      known->end = std::max(known->end, end);
    }
  }
}

void CommitBuilder::Add(const Record& record, absl::Time now, const std::string& account) {
  encoder_.Add(record, now, account);
  if (const auto* done = std::get_if<LeavesDone>(&record)) {
    AddDone(*done);
  } else if (const auto* merged = std::get_if<PartialsMerged>(&record)) {
    if (merged->result.outputs != nullptr) MarkDirty(*merged->result.outputs);
  } else if (const auto* ended = std::get_if<JobEnded>(&record)) {
    if (static_cast<JobState>(ended->state) == JobState::kSucceeded) {
      succeeded_.push_back(ended->job);
    }
  } else if (const auto* deleted = std::get_if<JobDeleted>(&record)) {
    commit_.batch.forgotten.push_back(deleted->job);
    // Nothing else knows of the job when this is durable.
    if (const auto view = board_->Find(deleted->job)) {
      commit_.batch.history.push_back(RowOf(*view, /*with_spec=*/true));
    }
  }
}

void CommitBuilder::AddDone(const LeavesDone& record) {
  for (const TaskFailure& failure : record.failures) {
    commit_.batch.failures.push_back({record.job, failure});
  }
  if (record.outputs == nullptr) return;
  MarkDirty(*record.outputs);
  const BoundJob* job = Find(record.job);
  if (job == nullptr) return;
  for (const OutputPiece& piece : *record.outputs) {
    if (piece.output < job->outputs.size() && !job->outputs[piece.output].reduced()) {
      AddPiece(*job, record, piece);
    }
  }
}

void CommitBuilder::AddPiece(const BoundJob& job, const LeavesDone& record,
                             const OutputPiece& piece) {
  const BoundOutput& output = job.outputs[piece.output];
  const LeafIntervals& covered = record.covered.empty() ? record.leaves : record.covered;
  const TaskRange whole = job.tree.Tasks(RangeOf(covered.front()));
  const auto* bytes = std::get_if<std::string>(&piece.where);
  for (const LeafInterval& leaves : record.leaves) {
    const TaskRange tasks = job.tree.Tasks(RangeOf(leaves));
    OutputRow row{.job = record.job,
                  .output = piece.output,
                  .generation = 0,
                  .first_task = tasks.begin,
                  .task_count = tasks.size(),
                  .skip_tasks = tasks.begin - whole.begin,
                  .piece_tasks = whole.size(),
                  .where = {}};
    if (bytes != nullptr && Leading(output)) {
      const uint64_t width = output.PieceBytes(1);
      row.where = bytes->substr(row.skip_tasks * width, tasks.size() * width);
      row.skip_tasks = 0;
      row.piece_tasks = tasks.size();
    } else {
      row.where = piece.where;
    }
    AddRow(output, std::move(row));
  }
}

void CommitBuilder::AddRow(const BoundOutput& output, OutputRow row) {
  std::vector<OutputRow>& rows = commit_.batch.outputs;
  auto* bytes = std::get_if<std::string>(&row.where);
  if (bytes != nullptr && Leading(output)) {
    // Outputs of one commit alternate: look back over as many rows as a job may have outputs.
    size_t looked = 0;
    for (auto it = rows.rbegin(); it != rows.rend() && looked < 8; ++it, ++looked) {
      if (it->job != row.job || it->output != row.output) continue;
      auto* before = std::get_if<std::string>(&it->where);
      if (before == nullptr || it->skip_tasks != 0 ||
          it->first_task + it->task_count != row.first_task ||
          before->size() + bytes->size() > kRowBytesMax) {
        break;
      }
      before->append(*bytes);
      it->task_count += row.task_count;
      it->piece_tasks += row.piece_tasks;
      return;
    }
  }
  rows.push_back(std::move(row));
}

void CommitBuilder::AddResult(const JobStatus& status) {
  if (status.result == nullptr || std::erase(succeeded_, status.job) == 0) return;
  const BoundJob* job = Find(status.job);
  if (job == nullptr) return;
  for (const OutputPiece& piece : *status.result) {
    if (piece.output >= job->outputs.size() || !job->outputs[piece.output].reduced()) continue;
    commit_.batch.outputs.push_back({.job = status.job,
                                     .output = piece.output,
                                     .generation = 0,
                                     .first_task = 0,
                                     .task_count = std::max<uint64_t>(1, job->task_count()),
                                     .skip_tasks = 0,
                                     .piece_tasks = std::max<uint64_t>(1, job->task_count()),
                                     .where = piece.where});
  }
  MarkDirty(*status.result);
}

CommitBuilder::Commit CommitBuilder::Take() {
  Commit commit = std::move(commit_);
  commit_ = Commit();
  succeeded_.clear();
  if (!encoder_.empty()) commit.batch.records.push_back({encoder_.Take()});
  return commit;
}

}  // namespace tandem::master
