// Staging: the file into which one executor incarnation writes its large outputs, mapped by the
// executor and by the supervisor, which pushes them on and says when their bytes may be used again.
//
//   // supervisor                                       // executor
//   ASSIGN_OR_RETURN(auto file, StagingFile::Create(…));  ASSIGN_OR_RETURN(auto file, …::Open(fd));
//   file->Read(offset, length)                            StagingAllocator memory(file.get());
//                                                         auto block = memory.Allocate(bytes);
//                                                         … write block->data …
//                                                         memory.Shrink(block->offset, used);
//                                                         memory.Release(offset);  // when told
//
// The file is memory (memfd): it outlives the executor because the supervisor holds it, and no page
// of it is ever written to a disk. It is mapped once, as large as it may ever become, and grows by
// ftruncate. Freed bytes are given out again before the file grows, smallest fitting hole first, so
// pages are not faulted twice.
//
// Thread-safety: StagingAllocator is thread-safe; StagingFile is immutable but for Grow, which one
// process calls. Ownership: a file owns its mapping and descriptor; an allocator does not own its
// file, which outlives it.
#ifndef TANDEM_WORKER_RING_STAGING_H_
#define TANDEM_WORKER_RING_STAGING_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string_view>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/base/unique_fd.h"
#include "worker/ring/mapping.h"

namespace tandem::worker {

inline constexpr uint64_t kStagingBytesMax = uint64_t{1} << 38;  // address space, not memory

class StagingFile {
 public:
  static absl::StatusOr<std::unique_ptr<StagingFile>> Create(uint64_t bytes_max = kStagingBytesMax);
  static absl::StatusOr<std::unique_ptr<StagingFile>> Open(UniqueFd fd,
                                                           uint64_t bytes_max = kStagingBytesMax);

  int fd() const { return fd_.get(); }
  char* data() const { return mapping_.data(); }
  uint64_t bytes_max() const { return mapping_.size(); }
  // Makes the file at least this long. Errors: RESOURCE_EXHAUSTED, those of ftruncate.
  absl::Status Grow(uint64_t bytes);
  // Bytes that the other process wrote. Errors: OUT_OF_RANGE when they are not all in the file.
  absl::StatusOr<std::string_view> Read(uint64_t offset, uint64_t length) const;

 private:
  StagingFile(UniqueFd fd, Mapping mapping) : fd_(std::move(fd)), mapping_(std::move(mapping)) {}
  absl::StatusOr<uint64_t> FileBytes() const;

  UniqueFd fd_;
  Mapping mapping_;
  mutable std::atomic<uint64_t> known_bytes_{
      0};  // the file is at least this long; it never shrinks
};

struct StagingBlock {
  uint64_t offset = 0;
  uint64_t length = 0;
  char* data = nullptr;
};

class StagingAllocator {
 public:
  explicit StagingAllocator(StagingFile* file) : file_(file) {}

  // A block aligned to 64 bytes, uninitialised (it may hold older outputs of this owner).
  // REQUIRES: length > 0. Errors: RESOURCE_EXHAUSTED when the file may not grow further.
  absl::StatusOr<StagingBlock> Allocate(uint64_t length);
  // Gives back what is behind the first `length` bytes of a block. REQUIRES: 0 < length <= its.
  // Errors: NOT_FOUND when no block begins at `offset`.
  absl::Status Shrink(uint64_t offset, uint64_t length);
  // Gives back a block. Errors: NOT_FOUND when none begins at `offset`.
  absl::Status Release(uint64_t offset);

  uint64_t used_bytes() const;
  uint64_t file_bytes() const;

 private:
  void AddHole(uint64_t offset, uint64_t length) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void RemoveHole(uint64_t offset, uint64_t length) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status GrowFor(uint64_t length) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  StagingFile* const file_;
  mutable absl::Mutex mu_;
  std::map<uint64_t, uint64_t> blocks_ ABSL_GUARDED_BY(mu_);  // offset → length, rounded up
  std::map<uint64_t, uint64_t> holes_ ABSL_GUARDED_BY(mu_);   // offset → length; never adjacent
  std::set<std::pair<uint64_t, uint64_t>> by_length_ ABSL_GUARDED_BY(mu_);  // (length, offset)
  uint64_t end_ ABSL_GUARDED_BY(mu_) = 0;                                   // the file's length
  uint64_t used_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_RING_STAGING_H_
