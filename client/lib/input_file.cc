#include "client/lib/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/wire/decode_util.h"

namespace tandem::client {
namespace {

constexpr size_t kPathBytesMax = 4096;

std::atomic<bool> stopped{false};

absl::Status Unreadable(const std::string& path, std::string_view why) {
  return InvalidError(reason::kPathUnreadable, StrCat("cannot read ", Quoted(path), ": ", why));
}

absl::Status PathError(const std::string& path, int error) {
  const std::string what = StrCat("cannot read ", Quoted(path), ": ", std::strerror(error));
  if (error == ENOENT || error == ENOTDIR) {
    struct stat link {};
    const bool dangling = lstat(path.c_str(), &link) == 0 && S_ISLNK(link.st_mode);
    return Error(absl::StatusCode::kNotFound, reason::kPathUnreadable,
                 StrCat(what, dangling ? "; it is a link to a file that is not there" : ""));
  }
  if (error == EACCES || error == EPERM) {
    return Error(absl::StatusCode::kPermissionDenied, reason::kPathUnreadable, what);
  }
  return InvalidError(reason::kPathUnreadable, what);
}

absl::Status Changed(const std::string& path) {
  return Error(
      absl::StatusCode::kFailedPrecondition, reason::kPathChanged,
      StrCat(Quoted(path), " changed while it was being read; submit again when it is complete"));
}

// What to say of a file that is no regular one; "" for regular ones.
std::string_view WrongKind(mode_t mode) {
  if (S_ISDIR(mode)) return "it is a directory, where one file is expected";
  if (S_ISFIFO(mode)) return "it is a pipe, no regular file; write it to a file first";
  if (S_ISSOCK(mode)) return "it is a socket, no regular file";
  if (!S_ISREG(mode)) return "it is a device, no regular file; copy what you need into one";
  return "";
}

FileIdentity IdentityOf(const struct stat& info) {
  return {static_cast<uint64_t>(info.st_size),
          info.st_mtim.tv_sec * int64_t{1'000'000'000} + info.st_mtim.tv_nsec};
}

}  // namespace

absl::StatusOr<InputFile> InputFile::Open(const std::string& path) {
  RETURN_IF_ERROR(CheckFileName(path));
  // Not blocking: to open a pipe must not wait for a writer.
  InputFile file(path, UniqueFd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)));
  if (!file.fd_.ok()) {
    const int error = errno;
    // A socket cannot be opened at all.
    struct stat named {};
    if (stat(path.c_str(), &named) == 0 && S_ISSOCK(named.st_mode)) {
      return Unreadable(path, WrongKind(named.st_mode));
    }
    return PathError(path, error);
  }
  struct stat info {};
  if (fstat(file.fd_.get(), &info) != 0) return PathError(path, errno);
  if (const std::string_view wrong = WrongKind(info.st_mode); !wrong.empty()) {
    return Unreadable(path, wrong);
  }
  file.identity_ = IdentityOf(info);
  if (file.identity_.size == 0) {
    char byte = 0;
    const ssize_t got = pread(file.fd_.get(), &byte, 1, 0);
    if (got < 0) return PathError(path, errno);
    if (got > 0) {
      return Unreadable(path, "it has bytes but no size, as files of /proc have; copy it first");
    }
  }
  return file;
}

absl::StatusOr<InputFile> InputFile::OpenAgain(const std::string& path, const FileIdentity& seen) {
  ASSIGN_OR_RETURN(InputFile file, Open(path));
  if (file.identity_ != seen) return Changed(path);
  return file;
}

absl::Status InputFile::ReadAt(uint64_t offset, absl::Span<char> to) const {
  while (!to.empty()) {
    if (stopped) {
      return Error(absl::StatusCode::kCancelled, reason::kInterrupted,
                   StrCat(Quoted(path_), " was not read to its end; nothing was done with it"));
    }
    const ssize_t got = pread(fd_.get(), to.data(), to.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return PathError(path_, errno);
    if (got == 0) return Changed(path_);
    offset += static_cast<uint64_t>(got);
    to.remove_prefix(static_cast<size_t>(got));
  }
  return absl::OkStatus();
}

void InputFile::StopReading() { stopped = true; }

absl::StatusOr<std::string> InputFile::ReadPrefix(uint64_t bytes_max) const {
  std::string bytes(std::min(bytes_max, identity_.size), '\0');
  RETURN_IF_ERROR(ReadAt(0, absl::MakeSpan(bytes.data(), bytes.size())));
  return bytes;
}

absl::Status InputFile::CheckUnchanged() const {
  struct stat info {};
  if (fstat(fd_.get(), &info) != 0) return PathError(path_, errno);
  return IdentityOf(info) == identity_ ? absl::OkStatus() : Changed(path_);
}

absl::Status CheckFileName(std::string_view path) {
  if (path.empty()) return InvalidError(reason::kPathUnreadable, "a file name is missing");
  absl::Status status = wire::CheckText(path, kPathBytesMax, "name");
  // Those that a text of many lines may have.
  if (status.ok() && path.find_first_of(std::string_view("\0\t\n", 3)) != path.npos) {
    status = InvalidError(reason::kPathUnreadable, "name has control characters");
  }
  if (status.ok()) return status;
  return InvalidError(reason::kPathUnreadable,
                      StrCat("the file ", Quoted(path), " cannot be used: its ",
                             ToStd(status.message()), "; rename it"));
}

bool IsThere(std::string_view path) {
  return !path.empty() && access(std::string(path).c_str(), F_OK) == 0;
}

absl::StatusOr<std::string> ReadWholeFile(const std::string& path, uint64_t bytes_max) {
  ASSIGN_OR_RETURN(const InputFile file, InputFile::Open(path));
  if (file.identity().size > bytes_max) {
    return Error(absl::StatusCode::kResourceExhausted, reason::kLimitExceeded,
                 StrCat(Quoted(path), " has ", HumanSize(file.identity().size), "; at most ",
                        HumanSize(bytes_max), " are read"));
  }
  ASSIGN_OR_RETURN(std::string bytes, file.ReadPrefix(bytes_max));
  RETURN_IF_ERROR(file.CheckUnchanged());
  return bytes;
}

}  // namespace tandem::client
