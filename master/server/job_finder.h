// JobFinder: a job of an owner, wherever it is: on the board, or in history only.
//
// Thread-safety: safe from any thread; reads the store. Ownership: board and store outlive it.
#ifndef TANDEM_MASTER_SERVER_JOB_FINDER_H_
#define TANDEM_MASTER_SERVER_JOB_FINDER_H_

#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "master/server/job_board.h"
#include "master/server/job_view.h"
#include "master/store/store.h"

namespace tandem::master {

class JobFinder {
 public:
  JobFinder(const JobBoard* board, Store* store) : board_(board), store_(store) {}

  // Errors: NOT_FOUND JOB_NOT_FOUND, also for another owner's; INVALID_ARGUMENT for 0.
  absl::StatusOr<JobView> Find(JobId job, std::string_view owner) const;

  // False: only history knows it; its results are gone.
  bool Kept(JobId job) const { return board_->Has(job); }

  // One page of jobs, newest first: live states where the board has them, history's rows else.
  struct Entry {
    JobId id;
    std::optional<JobView> live;
    JobRow row;  // Where not live.
  };
  struct Page {
    std::vector<Entry> entries;
    std::string next_page_token;
  };
  absl::StatusOr<Page> List(const JobFilter& filter, uint32_t page_size,
                            std::string_view page_token) const;

 private:
  const JobBoard* const board_;
  Store* const store_;
};

}  // namespace tandem::master

#endif  // TANDEM_MASTER_SERVER_JOB_FINDER_H_
