// SplitBook: how workers' devices shared out leases, as workers have told: the latest of each job.
//
// In memory alone: who restarts the master has an empty one.
//
// Thread-safety: as a container. Bounds: kOfJobMax of each of kJobsMax jobs; the job of which
// nothing was added for the longest time makes room.
#ifndef TANDEM_MASTER_SERVER_SPLIT_BOOK_H_
#define TANDEM_MASTER_SERVER_SPLIT_BOOK_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "common/model/ids.h"
#include "common/model/lease_messages.h"

namespace tandem::master {

class SplitBook {
 public:
  static constexpr size_t kOfJobMax = 32;
  static constexpr size_t kJobsMax = 1024;

  struct Noted {
    WorkerId worker;
    absl::Duration ended;  // Since its job was accepted, as the master heard of it.
    LeaseSplit split;
  };

  void Add(Noted noted);
  void Forget(JobId job);
  // The latest last.
  std::vector<Noted> Find(JobId job) const;

 private:
  struct OfJob {
    std::vector<Noted> noted;
    uint64_t last = 0;  // Its key in order_.
  };
  absl::flat_hash_map<JobId, OfJob> jobs_;
  std::map<uint64_t, JobId> order_;
  uint64_t last_ = 0;
};

}  // namespace tandem::master

#endif  // TANDEM_MASTER_SERVER_SPLIT_BOOK_H_
