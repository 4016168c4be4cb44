// BlobSource: a blob as an operand: the master's own file when it is on this host, else the owner's
// cache, filled as pieces need it.
//
// Which of the two is settled on first use, for it may take a call to the master. Every block of
// 1 MiB is compared with the checksum of its upload before it is first used: bytes from the master
// as they come, a file's once a file (blob_checks.h). A block of the cache that is damaged is
// fetched again.
//
// Errors also: DATA_LOSS CHECKSUM_MISMATCH for bytes that are not what was uploaded.
// Thread-safety: as ByteSource.
#ifndef TANDEM_WORKER_EXECUTOR_BLOB_SOURCE_H_
#define TANDEM_WORKER_EXECUTOR_BLOB_SOURCE_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "worker/executor/blob_cache.h"
#include "worker/executor/byte_source.h"

namespace tandem::worker {

struct OperandUsage;

struct BlobAccess {
  std::shared_ptr<OperandSource> remote;
  std::shared_ptr<BlobCache> cache;
  bool local = true;  // the master's files may be mapped
  Abandoned abandoned;
  std::shared_ptr<std::atomic<uint64_t>> bytes_fetched;  // counted here
  std::shared_ptr<OperandUsage> usage;                   // and here, for the job
};

class BlobSource final : public ByteSource {
 public:
  BlobSource(const BlobLocator& blob, BlobAccess access);
  ~BlobSource() override;
  uint64_t size() const override { return blob_.size; }
  bool Resident(uint64_t offset, uint64_t length) const override;
  absl::Status Fetch(uint64_t offset, uint64_t length) override;
  const char* Mapped(uint64_t offset) const override;
  absl::Status Read(uint64_t offset, uint64_t length, char* to) override;

 private:
  absl::Status Settle();
  absl::StatusOr<bool> MapLocal();
  absl::StatusOr<std::shared_ptr<BlobCheck>> CheckOf(const FileStamp& file);
  absl::Status FetchCached(uint64_t offset, uint64_t length);
  absl::Status CheckBlocks(uint64_t offset, uint64_t length);
  absl::Status Damaged(uint64_t block) const;

  const BlobLocator blob_;
  const BlobAccess access_;
  absl::Mutex mu_;
  // Written under mu_ before settled_ is set; constant afterwards.
  MappedFile local_;
  std::shared_ptr<CachedBlob> cached_;
  std::shared_ptr<BlobCheck> check_;
  std::atomic<bool> settled_ = false;
};

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_EXECUTOR_BLOB_SOURCE_H_
