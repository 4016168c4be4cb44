// JobBoard: what callers may see of the jobs that the core holds. Only durable states get here.
//
// The event loop writes it; RPCs read it and watch it. A job is visible from its first published
// status on; until then only the loop's own helpers (FindBound) know it.
//
// Thread-safety: safe from any thread; watchers are called without a lock held.
// Ownership: holds watchers until their job has ended or they are removed.
#ifndef TANDEM_MASTER_SERVER_JOB_BOARD_H_
#define TANDEM_MASTER_SERVER_JOB_BOARD_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/model/ids.h"
#include "master/server/blob_uses.h"
#include "master/server/job_view.h"
#include "master/store/store.h"

namespace tandem::master {

class JobWatcher {
 public:
  virtual ~JobWatcher() = default;
  // A newer state; the last one has ended. From the loop's thread: must not block.
  virtual void Offer(const JobView& view) = 0;
};

class JobBoard {
 public:
  // From the loop.
  void Accept(std::shared_ptr<const JobAccepted> accepted);
  // `ended`: when it ended, for a job that has.
  void Publish(JobStatus status, absl::Time ended);
  void Remove(JobId job);

  // The accepted job, visible or not; null for an unknown one.
  std::shared_ptr<const JobAccepted> FindAccepted(JobId job) const;

  // From RPCs.
  // Nothing for a job that is not there or not visible.
  std::optional<JobView> Find(JobId job) const;
  // Registers the watcher for what comes after the view that is returned.
  std::optional<JobView> Watch(JobId job, const std::shared_ptr<JobWatcher>& watcher);
  void Unwatch(JobId job, const JobWatcher* watcher);
  // Visible jobs older than `before` that match, newest first.
  std::vector<JobView> List(const JobFilter& filter, JobId before, size_t count) const;
  // Is the job here (visible or not)? Then history's row of it is stale.
  bool Has(JobId job) const;
  // Visible jobs that have ended, oldest first, at most `count`; and how many there are in all.
  std::vector<JobView> Ended(size_t count, size_t* total) const;
  // The owners of visible jobs that had ended by then; at most `count` jobs.
  struct Old {
    JobId job;
    std::string owner;
  };
  std::vector<Old> EndedBefore(absl::Time time, size_t count) const;
  size_t running() const;
  // Which jobs name which blobs.
  BlobUses* uses() { return &uses_; }

 private:
  struct Entry {
    std::shared_ptr<const JobAccepted> accepted;
    std::optional<JobView> visible;
    std::vector<std::shared_ptr<JobWatcher>> watchers;
  };

  BlobUses uses_;
  mutable absl::Mutex mu_;
  std::map<JobId, Entry> jobs_ ABSL_GUARDED_BY(mu_);
  size_t ended_ ABSL_GUARDED_BY(mu_) = 0;
  size_t visible_ ABSL_GUARDED_BY(mu_) = 0;
};

// What a caller gets for a job that is not there, or another owner's.
absl::Status NoSuchJob(JobId job);
absl::Status HasNotEnded(JobId job);

}  // namespace tandem::master

#endif  // TANDEM_MASTER_SERVER_JOB_BOARD_H_
