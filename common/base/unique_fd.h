// UniqueFd owns a file descriptor: closed when the owner goes.
//
//   UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
//   if (!fd.ok()) return absl::ErrnoToStatus(errno, path);
//
// Thread-safety: a movable value; one thread at a time. Ownership: the descriptor, and nothing
// else.
#ifndef TANDEM_COMMON_BASE_UNIQUE_FD_H_
#define TANDEM_COMMON_BASE_UNIQUE_FD_H_

#include <unistd.h>

#include <utility>

namespace tandem {

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) reset(std::exchange(other.fd_, -1));
    return *this;
  }
  ~UniqueFd() { reset(); }

  int get() const { return fd_; }
  bool ok() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset(int fd = -1) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

}  // namespace tandem

#endif  // TANDEM_COMMON_BASE_UNIQUE_FD_H_
