#include "worker/ring/mapping.h"

#include <sys/mman.h>

#include <cerrno>

#include "absl/status/status.h"
#include "common/base/strings.h"

namespace tandem::worker {

absl::StatusOr<Mapping> Mapping::Make(int fd, size_t bytes, bool writable, std::string_view what) {
  const int protection = PROT_READ | (writable ? PROT_WRITE : 0);
  void* data = ::mmap(nullptr, bytes, protection, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (data == MAP_FAILED) {
    return absl::ErrnoToStatus(errno, StrCat("cannot map ", bytes, " bytes of ", what));
  }
  return Mapping(static_cast<char*>(data), bytes);
}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  if (this != &other) {
    Unmap();
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
  }
  return *this;
}

void Mapping::Unmap() {
  if (data_ != nullptr) ::munmap(data_, size_);
  data_ = nullptr;
}

}  // namespace tandem::worker
