#include "worker/executor/path_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/data/xxh3.h"

namespace tandem::worker {
namespace {

int64_t ModifiedNanos(const struct stat& info) {
  return int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec;
}

}  // namespace

PathSource::PathSource(PathLocator locator)
    : locator_(std::move(locator)), verified_(locator_.slice_checksums.size()) {}

absl::Status PathSource::Changed(std::string_view how) const {
  return Error(absl::StatusCode::kFailedPrecondition, reason::kPathChanged,
               StrCat(locator_.path, " ", how, " since the job was submitted; submit it again"));
}

absl::Status PathSource::CheckIdentity(int fd) const {
  struct stat open_file;
  struct stat named;
  if (fstat(fd, &open_file) != 0 || stat(locator_.path.c_str(), &named) != 0) {
    return Changed("has gone");
  }
  for (const struct stat& info : {open_file, named}) {
    if (static_cast<uint64_t>(info.st_size) != locator_.file_size) {
      return Changed(StrCat("has another size (", info.st_size, " instead of ", locator_.file_size,
                            " bytes)"));
    }
    if (ModifiedNanos(info) != locator_.mtime_ns) return Changed("was modified");
  }
  return absl::OkStatus();
}

// Does this server see the directory that the file was in? Then the file has gone; else this server
// lacks the file system.
bool PathSource::DirectoryIsThere() const {
  struct stat info;
  const std::string directory = locator_.path.substr(0, locator_.path.rfind('/') + 1);
  return stat(directory.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

absl::StatusOr<int> PathSource::Open() {
  absl::MutexLock lock(&mu_);
  if (!fd_.ok()) {
    fd_ = UniqueFd(open(locator_.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!fd_.ok()) {
      if (errno == ENOENT && DirectoryIsThere()) return Changed("has gone");
      return Error(absl::StatusCode::kNotFound, reason::kPathUnreadable,
                   StrCat("cannot open ", locator_.path, ": ", strerror(errno),
                          "; path: operands must be readable on every worker"));
    }
  }
  return fd_.get();
}

absl::Status PathSource::ReadExactly(int fd, uint64_t offset, uint64_t length, char* to) const {
  while (length > 0) {
    const ssize_t got = pread(fd, to, length, static_cast<off_t>(locator_.data_offset + offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return Error(absl::StatusCode::kNotFound, reason::kPathUnreadable,
                   StrCat("cannot read ", locator_.path, ": ", strerror(errno)));
    }
    if (got == 0) return Changed("has become shorter");
    to += got;
    offset += static_cast<uint64_t>(got);
    length -= static_cast<uint64_t>(got);
  }
  return absl::OkStatus();
}

// Bytes [offset, offset + length) of the operand, which lie in one slice.
absl::Status PathSource::ReadSlice(int fd, uint64_t slice, uint64_t offset, uint64_t length,
                                   char* to) {
  if (verified_[slice].load(std::memory_order_acquire)) return ReadExactly(fd, offset, length, to);
  const uint64_t begin = slice * locator_.slice_bytes;
  const uint64_t bytes = std::min(locator_.slice_bytes, locator_.size - begin);
  AlignedBuffer whole;
  char* at = to;
  if (bytes != length) {
    at = reinterpret_cast<char*>(whole.Ensure(bytes));
    if (at == nullptr) {
      return Error(absl::StatusCode::kResourceExhausted, reason::kOutOfMemory,
                   StrCat("no memory to check ", locator_.path));
    }
  }
  RETURN_IF_ERROR(ReadExactly(fd, begin, bytes, at));
  if (Xxh3(std::string_view(at, bytes)) != locator_.slice_checksums[slice]) {
    return Changed("has another content");
  }
  if (at != to) std::memcpy(to, at + (offset - begin), length);
  verified_[slice].store(true, std::memory_order_release);
  return absl::OkStatus();
}

absl::Status PathSource::Read(uint64_t offset, uint64_t length, char* to) {
  if (length == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const int fd, Open());
  RETURN_IF_ERROR(CheckIdentity(fd));
  while (length > 0) {
    const uint64_t slice = offset / locator_.slice_bytes;
    const uint64_t rest = (slice + 1) * locator_.slice_bytes - offset;
    const uint64_t bytes = std::min(length, rest);
    RETURN_IF_ERROR(ReadSlice(fd, slice, offset, bytes, to));
    offset += bytes;
    length -= bytes;
    to += bytes;
  }
  return CheckIdentity(fd);
}

}  // namespace tandem::worker
