// OutputReader: outputs of jobs as bytes, while the job runs and long after (the master's part of
// the Data service).
//
// Nobody ever wrote an output in place: its bytes are pieces in segments and rows, found by the
// output index. A read puts them together in the output's own row-major order: pieces one after the
// other where the split axis leads, bands of rows where it does not.
//
// Errors: NOT_FOUND (JOB_NOT_FOUND, OUTPUT_NOT_FOUND), OUT_OF_RANGE, FAILED_PRECONDITION
// (RESULT_NOT_READY: not done yet; TASK_FAILED: read with failed_as_zero; JOB_CANCELLED,
// JOB_FAILED: never run), INVALID_ARGUMENT, DATA_LOSS (CHECKSUM_MISMATCH).
//
// Thread-safety: safe from any thread; sources belong to one reader each. Ownership: the parts
// outlive reader and sources.
#ifndef TANDEM_MASTER_SERVER_OUTPUT_READER_H_
#define TANDEM_MASTER_SERVER_OUTPUT_READER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/data/byte_source.h"
#include "common/data/data_service.h"
#include "common/data/segment_store.h"
#include "master/server/job_board.h"
#include "master/server/job_finder.h"
#include "master/server/job_view.h"
#include "master/store/store.h"

namespace tandem::master {

class OutputReader final : public OutputSource {
 public:
  static constexpr uint32_t kPageSizeMax = 1000;

  OutputReader(const JobFinder* finder, JobBoard* board, Store* store, SegmentStore* segments)
      : finder_(finder), board_(board), store_(store), segments_(segments) {}

  absl::StatusOr<std::unique_ptr<ByteSource>> OpenOutput(
      std::string_view owner, const v1::ReadOutputRequest& request) override;
  absl::Status ListOutput(std::string_view owner, const v1::ListOutputRequest& request,
                          v1::ListOutputResponse* response) override;
  ChunkStream::Withdraw WhenEnded(std::string_view owner, uint64_t job,
                                  std::function<void()> then) override;

 private:
  struct Found {
    JobView view;
    uint32_t output = 0;
    const BoundOutput& bound() const { return view.bound().outputs[output]; }
  };
  absl::StatusOr<Found> Find(std::string_view owner, uint64_t job, const std::string& output) const;
  absl::StatusOr<std::unique_ptr<ByteSource>> OpenReduced(const Found& found);
  absl::Status CheckFailures(const Found& found, uint64_t first_task, uint64_t task_count) const;

  const JobFinder* const finder_;
  JobBoard* const board_;
  Store* const store_;
  SegmentStore* const segments_;
};

}  // namespace tandem::master

#endif  // TANDEM_MASTER_SERVER_OUTPUT_READER_H_
