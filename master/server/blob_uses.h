// BlobUses: which jobs name which blobs, so that none is deleted under a job that needs it.
//
//   const std::shared_ptr<void> pins = uses.Pin(spec);   // before the blobs are looked for …
//   …the job is checked, accepted, and on the board…     // … until the job itself uses them
//   RETURN_IF_ERROR(uses.RemoveUnused("ada", id, [&] { return blobs.Remove("ada", id); }));
//
// The board tells it of every job that is accepted, ends and is forgotten.
//
// Thread-safety: safe from any thread. Ownership: outlives the pins it gives.
// Invariants: 1. while a pin or an unfinished job names a blob, RemoveUnused refuses it; 2. memory
// grows with the blobs that kept jobs name.
#ifndef TANDEM_MASTER_SERVER_BLOB_USES_H_
#define TANDEM_MASTER_SERVER_BLOB_USES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/data/data_service.h"
#include "common/model/ids.h"
#include "common/model/job_spec.h"

namespace tandem::master {

// Every blob that the operands name, each once, in order.
std::vector<BlobId> BlobsOf(const JobSpec& spec);

class BlobUses {
 public:
  // From the board.
  void Add(JobId job, const JobSpec& spec);
  void Ended(JobId job);
  void Remove(JobId job);

  // From RPCs.
  // Nobody removes these blobs while the result lives.
  std::shared_ptr<void> Pin(const JobSpec& spec);
  DataBooks::Uses UsesOf(std::string_view owner, const BlobId& blob) const;
  // Errors: FAILED_PRECONDITION BLOB_IN_USE, naming jobs; those of `remove`, which is called with a
  // lock held and must not come back here.
  absl::Status RemoveUnused(std::string_view owner, const BlobId& blob,
                            absl::FunctionRef<absl::Status()> remove);

 private:
  using Key = std::pair<std::string, BlobId>;
  struct Entry {
    std::set<JobId> live, ended;
    uint64_t pins = 0;
    bool empty() const { return live.empty() && ended.empty() && pins == 0; }
  };
  struct Job {
    std::string owner;
    std::vector<BlobId> blobs;
  };
  void Unpin(const Job& what);
  void EraseIfEmpty(std::map<Key, Entry>::iterator it) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  mutable absl::Mutex mu_;
  std::map<Key, Entry> entries_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<JobId, Job> jobs_ ABSL_GUARDED_BY(mu_);  // Those that name any.
};

}  // namespace tandem::master

#endif  // TANDEM_MASTER_SERVER_BLOB_USES_H_
