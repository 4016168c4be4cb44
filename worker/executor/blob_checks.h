// BlobChecks: which blocks of which files an executor has seen to hold what was uploaded.
//
//   std::shared_ptr<BlobCheck> check = checks.Find(blob, stamp);      // or, with sums asked for,
//   check = checks.Add(blob, sums, stamp);
//   if (!check->Passed(offset, length) && !check->Check(block, bytes)) …
//
// A block is looked at once a file, not once a job: what has passed stays passed for the jobs that
// follow while the file is the same by number and time of its last change. A blob of few bytes is
// checked by its own name, its SHA-256, and needs no sums.
//
// Thread-safety: all methods may be called from any thread.
// Ownership: a BlobCheck is shared; the table forgets those that nobody uses when there are many.
#ifndef TANDEM_WORKER_EXECUTOR_BLOB_CHECKS_H_
#define TANDEM_WORKER_EXECUTOR_BLOB_CHECKS_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/model/ids.h"
#include "common/model/locator.h"

namespace tandem::worker {

// A file as it is now.
struct FileStamp {
  uint64_t device = 0;
  uint64_t number = 0;
  int64_t modified_ns = 0;
  // Of nothing that exists when the descriptor cannot be asked.
  static FileStamp Of(int fd);
  friend bool operator==(const FileStamp&, const FileStamp&) = default;
};

using BlobSumsPtr = std::shared_ptr<const std::vector<uint64_t>>;

class BlobCheck {
 public:
  // `sums` may be empty: then nothing is known, and large blobs pass unseen.
  BlobCheck(const BlobLocator& blob, BlobSumsPtr sums);

  // Needs a blob of this size sums to be checked?
  static bool NeedsSums(const BlobLocator& blob);
  // Have all blocks of these bytes passed?
  bool Passed(uint64_t offset, uint64_t length) const;
  // Are a block's bytes what was uploaded? If so it has passed.
  bool Check(uint64_t block, const char* bytes);
  const BlobSumsPtr& sums() const { return sums_; }

 private:
  bool Holds(uint64_t block, const char* bytes) const;

  const BlobLocator blob_;
  const BlobSumsPtr sums_;
  std::vector<std::atomic<bool>> passed_;  // A flag a block.
};

class BlobChecks {
 public:
  // What is remembered of files that nobody reads: so many blocks and files.
  static constexpr uint64_t kRememberedMax = uint64_t{1} << 20;

  // Null: the blob is not known here.
  std::shared_ptr<BlobCheck> Find(const BlobLocator& blob, const FileStamp& file);
  std::shared_ptr<BlobCheck> Add(const BlobLocator& blob, std::vector<uint64_t> sums,
                                 const FileStamp& file);
  // The file that this is the check of has changed by what was added to it.
  void Restamp(const BlobLocator& blob, const std::shared_ptr<BlobCheck>& check,
               const FileStamp& file);

 private:
  struct Known {
    FileStamp file;
    std::shared_ptr<BlobCheck> check;
    uint64_t weight = 0;
  };
  void Forget() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  absl::Mutex mu_;
  std::map<BlobId, Known> known_ ABSL_GUARDED_BY(mu_);
  uint64_t weight_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_EXECUTOR_BLOB_CHECKS_H_
