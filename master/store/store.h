// Store: the master's durable state. A log of records with sequence numbers, a snapshot that
// replaces the log's beginning, the index of outputs and failures (written with the records), and
// a lagging history of jobs.
//
//   ASSIGN_OR_RETURN(Epoch epoch, store->RaiseEpoch());           // at each start
//   ASSIGN_OR_RETURN(auto snapshot, store->LoadSnapshot());       // then replay what follows
//   store->ReadFrom(snapshot ? snapshot->seq + 1 : 1, visitor);
//   store->Append(epoch, batches);                                // OK: durable
//
// SqliteStore (sqlite_store.h) is the embedded default, MemoryStore (memory_store.h) serves tests
// and the simulator; one contract test holds for both. Writes usually go through a Committer.
//
// Errors, everywhere: RESOURCE_EXHAUSTED with reason JOURNAL_FULL when there is no room: nothing
// was written and the call may be repeated. INTERNAL with reason JOURNAL_IO when the disk failed:
// whether it was written is unknown; stop. DATA_LOSS with reason STORE_CORRUPT when what is read
// is not what was written, naming the sequence number or row. FAILED_PRECONDITION with reason
// STALE_EPOCH for a writer whose epoch is not the store's.
//
// Thread-safety: safe from any thread. Queries do not wait for appends.
// Invariants:
//  1. Sequence numbers are 1, 2, 3, … without gaps, one a batch; one Append is one transaction.
//  2. Each commit's checksum covers the commit before it, so nothing in the middle can change,
//     vanish or move unseen.
//  3. No append of an epoch that is not the present one is ever taken.
#ifndef TANDEM_MASTER_STORE_STORE_H_
#define TANDEM_MASTER_STORE_STORE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/model/ids.h"
#include "common/model/outputs.h"
#include "master/store/rows.h"

namespace tandem::master {

struct Snapshot {
  uint64_t seq = 0;  // It holds the effect of all batches up to this one.
  std::string bytes;
};

// Rows of one output that overlap [the range's begin, next_task): all of them, in order of
// (first_task, generation). Where generations overlap, the larger one counts.
struct OutputPage {
  std::vector<OutputRow> rows;
  uint64_t next_task = 0;  // Where the next page begins; the range's end when there is none.
};

struct FailurePage {
  std::vector<FailureRow> rows;  // In order of (task, attempt).
  std::string next_page_token;   // Empty: no more.
};

struct JobFilter {
  std::string owner;             // Empty: any.
  std::vector<uint32_t> states;  // Empty: any.
  std::string name_prefix;
  std::map<std::string, std::string> labels;  // All of them.
  std::string kernel;                         // Its name, whatever its content; empty: any.
  absl::Time submitted_since = absl::InfinitePast();

  // Is `reference` ("noop", "noop@0123…") of the kernel that is asked for?
  bool TakesKernel(std::string_view reference) const {
    return kernel.empty() || reference.substr(0, reference.find('@')) == kernel;
  }
};

struct JobPage {
  std::vector<JobRow> rows;     // Newest first, without `spec`.
  std::string next_page_token;  // Empty: no more.
};

// What Verify found. Counts are of what was read and found whole.
struct VerifyReport {
  uint64_t commits = 0;
  uint64_t output_rows = 0;
  std::vector<std::string> problems;
};

struct StoreLimits {
  uint32_t page_rows_max = 1000;
  uint64_t page_bytes_max = uint64_t{8} << 20;     // Inline bytes of an output page (one row more).
  uint64_t record_bytes_max = uint64_t{64} << 20;  // One record; also what a reader will allocate.
  uint64_t append_bytes_max = uint64_t{256} << 20;
};

class Store {
 public:
  virtual ~Store() = default;

  // Makes this process the only writer: the present epoch plus one, durable when it returns.
  virtual absl::StatusOr<Epoch> RaiseEpoch() = 0;
  // 0 before the first RaiseEpoch.
  virtual absl::StatusOr<Epoch> CurrentEpoch() = 0;

  // Appends the batches, which get the numbers HeadSeq() + 1, …, as one transaction, and returns
  // the last one once it is durable. Errors also: ALREADY_EXISTS for an output row that is there
  // already, INVALID_ARGUMENT for no batch at all or one over the limits; nothing was written.
  virtual absl::StatusOr<uint64_t> Append(Epoch epoch, absl::Span<const AppendBatch> batches) = 0;
  // The last number used; 0 for an empty store.
  virtual uint64_t HeadSeq() = 0;

  // Calls `visit` for each batch with number >= seq, in order; stops at its first error and
  // returns that. `records` are valid during the call only. Errors also: OUT_OF_RANGE when the
  // log begins after `seq`, because a snapshot replaced its beginning.
  using Visitor =
      std::function<absl::Status(uint64_t seq, absl::Span<const std::string_view> records)>;
  virtual absl::Status ReadFrom(uint64_t seq, const Visitor& visit) = 0;

  // Keeps `bytes` as the state after batch `seq` and drops log and snapshot before it. Fences like
  // Append. Errors also: OUT_OF_RANGE for a seq after the head or before the present snapshot.
  virtual absl::Status SaveSnapshot(Epoch epoch, uint64_t seq, std::string_view bytes) = 0;
  virtual absl::StatusOr<std::optional<Snapshot>> LoadSnapshot() = 0;

  // `task_count` tasks from first_task; a page holds at most the limits' rows and bytes.
  virtual absl::StatusOr<OutputPage> OutputsOf(JobId job, uint32_t output, uint64_t first_task,
                                               uint64_t task_count) = 0;
  virtual absl::StatusOr<FailurePage> FailuresOf(JobId job, uint32_t page_size,
                                                 std::string_view page_token) = 0;
  // Segments that a row still names: after a restart or a forgotten job, the others can go.
  virtual absl::StatusOr<std::vector<SegmentId>> ReferencedSegments() = 0;

  // Writes what history says of some jobs as of batch `seq`. Lags behind the log and may be lost
  // in a crash; ProjectedSeq says how far it is, so that a restarted master writes again what is
  // missing. A call with seq < ProjectedSeq() changes nothing.
  virtual absl::Status Project(uint64_t seq, absl::Span<const JobRow> rows) = 0;
  virtual absl::StatusOr<uint64_t> ProjectedSeq() = 0;
  // page_size 0: the limit. Errors also: INVALID_ARGUMENT (BAD_PAGE_TOKEN).
  virtual absl::StatusOr<JobPage> ListJobs(const JobFilter& filter, uint32_t page_size,
                                           std::string_view page_token) = 0;
  // With its spec. Errors also: NOT_FOUND (JOB_NOT_FOUND).
  virtual absl::StatusOr<JobRow> FindJob(JobId job) = 0;
  // Removes a job from history. OK when it is not there.
  virtual absl::Status EraseJob(JobId job) = 0;

  // Housekeeping, a bounded slice a call: rows of forgotten jobs, log files that have grown.
  // Returns whether there is more to do. Call it from the thread that appends, when it is idle.
  virtual absl::StatusOr<bool> Maintain() = 0;
  // Whether Maintain is overdue, so that it should be called though there is work waiting.
  virtual bool NeedsMaintenance() = 0;

  // Reads everything and says what is not as it was written. An error only when it cannot be read
  // at all.
  virtual absl::StatusOr<VerifyReport> Verify() = 0;
};

}  // namespace tandem::master

#endif  // TANDEM_MASTER_STORE_STORE_H_
