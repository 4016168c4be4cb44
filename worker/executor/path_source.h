// PathSource: bytes of a file on a shared file system, whose identity was fixed at submit.
//
// The file is read, never mapped: a file that is truncated while it is mapped would kill the
// process. Every read checks size and modification time before and after, and the XXH3-64 of each
// slice of the file the first time that it is touched.
//
// Errors: FAILED_PRECONDITION PATH_CHANGED when it is not the file that was submitted, or has gone
// from a directory that is there; NOT_FOUND PATH_UNREADABLE when this server cannot open it;
// UNAVAILABLE is never answered.
//
// Thread-safety: as ByteSource. Ownership: its descriptor, open from the first use on.
#ifndef TANDEM_WORKER_EXECUTOR_PATH_SOURCE_H_
#define TANDEM_WORKER_EXECUTOR_PATH_SOURCE_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/base/unique_fd.h"
#include "worker/executor/byte_source.h"

namespace tandem::worker {

class PathSource final : public ByteSource {
 public:
  explicit PathSource(PathLocator locator);
  uint64_t size() const override { return locator_.size; }
  bool Resident(uint64_t, uint64_t) const override { return false; }
  absl::Status Fetch(uint64_t, uint64_t) override { return absl::OkStatus(); }
  const char* Mapped(uint64_t) const override { return nullptr; }
  absl::Status Read(uint64_t offset, uint64_t length, char* to) override;

 private:
  absl::StatusOr<int> Open();
  bool DirectoryIsThere() const;
  absl::Status CheckIdentity(int fd) const;
  absl::Status ReadSlice(int fd, uint64_t slice, uint64_t offset, uint64_t length, char* to);
  absl::Status ReadExactly(int fd, uint64_t offset, uint64_t length, char* to) const;
  absl::Status Changed(std::string_view how) const;

  const PathLocator locator_;
  std::vector<std::atomic<bool>> verified_;  // a flag a slice
  absl::Mutex mu_;
  UniqueFd fd_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_EXECUTOR_PATH_SOURCE_H_
