// CommitBuilder: from the core's records to what the store appends: a payload for the log, rows of
// the output index, rows of failures, and the segments that must be synced before.
//
//   for (const Record& record : effects.records) builder.Add(record, now);
//   for (const JobStatus& status : effects.statuses) builder.AddResult(status);
//   Commit commit = builder.Take();
//
// Rows of one output whose inline bytes lie behind one another become one row: a thousand leases of
// eight bytes are one row of eight kilobytes.
//
// Thread-safety: one thread. Ownership: the board outlives the builder.
#ifndef TANDEM_MASTER_SERVER_COMMIT_BUILDER_H_
#define TANDEM_MASTER_SERVER_COMMIT_BUILDER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/model/bound_job.h"
#include "common/model/ids.h"
#include "master/core/events.h"
#include "master/core/records.h"
#include "master/server/job_board.h"
#include "master/server/records.h"
#include "master/store/rows.h"

namespace tandem::master {

class CommitBuilder {
 public:
  // What one row of joined pieces holds at most.
  static constexpr size_t kRowBytesMax = 64 << 10;

  struct Commit {
    AppendBatch batch;
    std::vector<SegmentExtent> dirty;
  };

  explicit CommitBuilder(const JobBoard* board) : board_(board) {}

  // REQUIRES: the record's job is on the board.
  // `account`: of the job whose end the record is, serialized; or "".
  void Add(const Record& record, absl::Time now, const std::string& account = "");
  // The reduced outputs of a job whose success is among the records become rows, as if they were
  // one piece.
  void AddResult(const JobStatus& status);
  // With the next records: RecordEncoder::SetStateHash.
  void SetStateHash(uint64_t hash) { encoder_.SetStateHash(hash); }
  bool empty() const { return encoder_.empty() && commit_.batch.outputs.empty(); }
  Commit Take();

 private:
  void AddDone(const LeavesDone& record);
  void AddPiece(const BoundJob& job, const LeavesDone& record, const OutputPiece& piece);
  void AddRow(const BoundOutput& output, OutputRow row);
  void MarkDirty(const CommitOutputs& outputs);
  const BoundJob* Find(JobId job);

  const JobBoard* const board_;
  RecordEncoder encoder_;
  Commit commit_;
  std::vector<JobId> succeeded_;
  std::shared_ptr<const JobAccepted> last_;  // The job looked up last.
};

}  // namespace tandem::master

#endif  // TANDEM_MASTER_SERVER_COMMIT_BUILDER_H_
