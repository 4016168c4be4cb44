// MemoryStore: a Store for tests and the simulator, with a disk that can lie, fill up and fail.
//
//   store.set_lying(true);   // from here on appends say OK and are not on disk
//   store.Crash();           // …and are gone
//
// Thread-safety: safe from any thread.
#ifndef TANDEM_MASTER_STORE_MEMORY_STORE_H_
#define TANDEM_MASTER_STORE_MEMORY_STORE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "master/store/log_codec.h"
#include "master/store/rows.h"
#include "master/store/store.h"

namespace tandem::master {

class MemoryStore final : public Store {
 public:
  explicit MemoryStore(StoreLimits limits = StoreLimits()) : limits_(limits) {}

  // While it lies, what is written is lost in a crash. Set false, all of it becomes durable.
  void set_lying(bool lying);
  // Back to what is durable, as after a power cut and a restart.
  void Crash();
  // Every write fails with this until it is set OK.
  void set_write_error(absl::Status error);
  // Changes a byte of the commit that holds `seq`. REQUIRES: it is in the log and not empty.
  void FlipLogByte(uint64_t seq);

  absl::StatusOr<Epoch> RaiseEpoch() override;
  absl::StatusOr<Epoch> CurrentEpoch() override;
  absl::StatusOr<uint64_t> Append(Epoch epoch, absl::Span<const AppendBatch> batches) override;
  uint64_t HeadSeq() override;
  absl::Status ReadFrom(uint64_t seq, const Visitor& visit) override;
  absl::Status SaveSnapshot(Epoch epoch, uint64_t seq, std::string_view bytes) override;
  absl::StatusOr<std::optional<Snapshot>> LoadSnapshot() override;
  absl::StatusOr<OutputPage> OutputsOf(JobId job, uint32_t output, uint64_t first_task,
                                       uint64_t task_count) override;
  absl::StatusOr<FailurePage> FailuresOf(JobId job, uint32_t page_size,
                                         std::string_view page_token) override;
  absl::StatusOr<std::vector<SegmentId>> ReferencedSegments() override;
  absl::Status Project(uint64_t seq, absl::Span<const JobRow> rows) override;
  absl::StatusOr<uint64_t> ProjectedSeq() override;
  absl::StatusOr<JobPage> ListJobs(const JobFilter& filter, uint32_t page_size,
                                   std::string_view page_token) override;
  absl::StatusOr<JobRow> FindJob(JobId job) override;
  absl::Status EraseJob(JobId job) override;
  absl::StatusOr<bool> Maintain() override;
  bool NeedsMaintenance() override { return false; }
  absl::StatusOr<VerifyReport> Verify() override;

 private:
  struct Commit {
    CommitHeader header;
    std::string payload;
  };
  // Job, output, generation, first task.
  using OutputKey = std::tuple<JobId, uint32_t, uint32_t, uint64_t>;
  using FailureKey = std::tuple<JobId, uint64_t, uint32_t>;
  // All that a disk would hold.
  struct State {
    Epoch epoch;
    uint64_t base_seq = 0;
    uint64_t base_checksum = kChainStart;
    std::vector<Commit> log;
    std::optional<Snapshot> snapshot;
    std::map<OutputKey, OutputRow> outputs;
    std::map<FailureKey, FailureRow> failures;
    std::set<JobId> forgotten;
    std::map<JobId, JobRow> jobs;
    uint64_t projected_seq = 0;

    uint64_t head_seq() const { return log.empty() ? base_seq : log.back().header.last_seq; }
    uint64_t head_checksum() const {
      return log.empty() ? base_checksum : log.back().header.checksum;
    }
  };

  absl::Status CheckWriter(Epoch epoch) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status CheckNewRows(absl::Span<const AppendBatch> batches) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void ApplyRows(const AppendBatch& batch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void UpsertJob(const JobRow& row) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<std::vector<Commit>> CheckedLogFrom(uint64_t seq);

  const StoreLimits limits_;
  absl::Mutex mu_;
  State state_ ABSL_GUARDED_BY(mu_);
  std::optional<State> durable_ ABSL_GUARDED_BY(mu_);  // Set while the disk lies.
  absl::Status write_error_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tandem::master

#endif  // TANDEM_MASTER_STORE_MEMORY_STORE_H_
