// StoreLock: a directory belongs to one process at a time.
//
// A lock on <directory>/LOCK that the system takes back when the process ends, however it ends. The
// file holds the holder's process id, for the message that the next one gets.
// Thread-safety: a value that belongs to one thread.
#ifndef TANDEM_MASTER_STORE_STORE_LOCK_H_
#define TANDEM_MASTER_STORE_STORE_LOCK_H_

#include <string>

#include "absl/status/statusor.h"

namespace tandem::master {

class StoreLock {
 public:
  // Makes the directory where it is not there. Errors: UNAVAILABLE (STORE_LOCKED) naming the
  // process that has it; INTERNAL (STORE_FAILED).
  static absl::StatusOr<StoreLock> Acquire(const std::string& directory);
  StoreLock(StoreLock&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  ~StoreLock();

 private:
  explicit StoreLock(int fd) : fd_(fd) {}
  int fd_;
};

}  // namespace tandem::master

#endif  // TANDEM_MASTER_STORE_STORE_LOCK_H_
