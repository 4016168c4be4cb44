// History: which rows of the store's history are due to be written again.
//
// A row is written when a job's state changes, and else at most once every `every`; its spec goes
// with the first row only.
//
// Thread-safety: one thread.
#ifndef TANDEM_MASTER_SERVER_HISTORY_H_
#define TANDEM_MASTER_SERVER_HISTORY_H_

#include <map>
#include <optional>

#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/model/ids.h"
#include "master/server/job_view.h"
#include "master/store/rows.h"

namespace tandem::master {

class History {
 public:
  explicit History(absl::Duration every) : every_(every) {}

  // The row that this state is worth, if any.
  std::optional<JobRow> Note(const JobView& view, MonoTime now);
  void Forget(JobId job) { written_.erase(job); }

 private:
  struct Written {
    JobState state = JobState::kPending;
    MonoTime at;
  };
  const absl::Duration every_;
  std::map<JobId, Written> written_;
};

}  // namespace tandem::master

#endif  // TANDEM_MASTER_SERVER_HISTORY_H_
