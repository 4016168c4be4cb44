// BlobCache: blobs of one owner on this server, fetched piece by piece into sparse files that all
// of the owner's executors map.
//
//   ASSIGN_OR_RETURN(std::shared_ptr<CachedBlob> blob, cache.Open(locator));
//   if (!blob->Resident(offset, length)) RETURN_IF_ERROR(blob->Fetch(offset, length, source));
//   blob->data() + offset
//
// Beside a blob's file lies its map: a bit for each block of 1 MiB that is there, shared by the
// processes that map it. A bit is set after its block's bytes, so whoever sees the bit sees them.
// Threads of one process share a fetch; two processes may fetch the same block at the same time:
// both write the same bytes. A map tells
// which boot of the machine it belongs to: after a crash of the machine, what it says is not
// believed.
//
// The cache is bounded: before a blob is opened that would exceed `bytes_max`, the files used least
// recently are removed. A blob that is open in any process (a shared lock on its map) stays.
//
// Thread-safety: all methods may be called from any thread, and from several processes on one
// folder.
// Ownership: a CachedBlob keeps its mapping and outlives the cache if it must.
#ifndef TANDEM_WORKER_EXECUTOR_BLOB_CACHE_H_
#define TANDEM_WORKER_EXECUTOR_BLOB_CACHE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/base/unique_fd.h"
#include "common/data/blob_sums.h"
#include "common/model/locator.h"
#include "worker/executor/blob_checks.h"

namespace tandem::worker {

// A mapping that is undone at the end.
class MappedFile {
 public:
  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();
  // Errors: those of mmap. `bytes` may be 0.
  static absl::StatusOr<MappedFile> Make(int fd, uint64_t bytes, bool writable);
  char* data() const { return data_; }

 private:
  char* data_ = nullptr;
  uint64_t bytes_ = 0;
};

class CachedBlob {
 public:
  static constexpr uint64_t kBlockBytes = kBlobBlockBytes;
  // Reads bytes [offset, offset + length) of the blob from where it is.
  using Reader = std::function<absl::Status(uint64_t offset, uint64_t length, char* to)>;

  uint64_t size() const { return size_; }
  const char* data() const { return data_.data(); }
  bool Resident(uint64_t offset, uint64_t length) const;
  // Makes bytes resident; returns how many had to be fetched. Errors: the reader's;
  // RESOURCE_EXHAUSTED DISK_FULL.
  absl::StatusOr<uint64_t> Fetch(uint64_t offset, uint64_t length, const Reader& reader);
  // The block's bytes are not what they should be: it is no longer resident.
  void Drop(uint64_t block);
  FileStamp stamp() const { return FileStamp::Of(file_.get()); }

 private:
  friend class BlobCache;
  CachedBlob(uint64_t size, UniqueFd file, UniqueFd map_file, MappedFile data, MappedFile map);
  bool HasBlock(uint64_t block) const;
  struct Claim {
    uint64_t first = 0;
    uint64_t end = 0;
  };
  // The next blocks of [block, end) that are missing, claimed for the caller, after waiting for
  // those that another thread is fetching. Empty: none is missing.
  Claim ClaimMissing(uint64_t block, uint64_t end);
  void Release(const Claim& claim);
  absl::Status FetchBlocks(const Claim& claim, const Reader& reader);
  bool Unclaimed(uint64_t block) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return !fetching_.contains(block);
  }

  absl::Mutex mu_;
  std::set<uint64_t> fetching_ ABSL_GUARDED_BY(mu_);  // blocks
  const uint64_t size_;
  const UniqueFd file_;
  const UniqueFd map_file_;  // carries the shared lock
  const MappedFile data_;
  const MappedFile map_;
  std::atomic<uint64_t>* const bits_;
};

class BlobCache {
 public:
  // `folder` is made when it is not there.
  BlobCache(std::string folder, uint64_t bytes_max);

  // Errors: RESOURCE_EXHAUSTED DISK_FULL; INTERNAL for what the file system refuses.
  absl::StatusOr<std::shared_ptr<CachedBlob>> Open(const BlobLocator& blob);
  // What this process has seen of the blobs' bytes, here and in the master's files.
  BlobChecks& checks() { return checks_; }

 private:
  absl::StatusOr<UniqueFd> OpenMap(const std::string& path, uint64_t size,
                                   const std::string& data_path);
  void MakeRoom(uint64_t bytes);

  const std::string folder_;
  const uint64_t bytes_max_;
  const uint64_t boot_;
  BlobChecks checks_;
};

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_EXECUTOR_BLOB_CACHE_H_
