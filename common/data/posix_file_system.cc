#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <string>
#include <system_error>
#include <utility>

#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/data/file_system.h"

namespace tandem {
namespace {

absl::Status SystemError(int error, std::string_view what, std::string_view path) {
  const std::string message = StrCat(what, " ", path, ": ", std::generic_category().message(error));
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return Error(absl::StatusCode::kResourceExhausted, reason::kDiskFull,
                   StrCat(message, "; make room on that file system"));
    case EMFILE:
    case ENFILE:
      return Error(absl::StatusCode::kResourceExhausted, reason::kLimitExceeded,
                   StrCat(message, "; raise the limit of open files (ulimit -n)"));
    case ENOENT:
    case ENOTDIR:
      return Error(absl::StatusCode::kNotFound, reason::kPathUnreadable, message);
    case EEXIST:
      return absl::AlreadyExistsError(message);
    case EACCES:
    case EPERM:
    case EROFS:
      return Error(absl::StatusCode::kPermissionDenied, reason::kPathUnreadable, message);
    default:
      return Error(absl::StatusCode::kInternal, reason::kStoreFailed, message);
  }
}

// Repeats a call that a signal interrupted.
template <class Call>
auto Retry(const Call& call) {
  while (true) {
    const auto result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}

class PosixFile final : public File {
 public:
  PosixFile(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  ~PosixFile() override { close(fd_); }

  absl::StatusOr<size_t> ReadAt(uint64_t offset, char* buffer, size_t size) override {
    size_t done = 0;
    while (done < size) {
      const ssize_t n = Retry([&] {
        return pread(fd_, buffer + done, size - done, static_cast<off_t>(offset + done));
      });
      if (n < 0) return SystemError(errno, "reading", path_);
      if (n == 0) break;
      done += static_cast<size_t>(n);
    }
    return done;
  }

  absl::StatusOr<size_t> WriteAt(uint64_t offset,
                                 absl::Span<const std::string_view> slices) override {
    constexpr size_t kSlicesMax = 64;
    iovec vectors[kSlicesMax];
    const size_t count = std::min<size_t>(slices.size(), kSlicesMax);
    for (size_t i = 0; i < count; ++i) {
      vectors[i] = {const_cast<char*>(slices[i].data()), slices[i].size()};
    }
    const ssize_t n = Retry(
        [&] { return pwritev(fd_, vectors, static_cast<int>(count), static_cast<off_t>(offset)); });
    if (n < 0) return SystemError(errno, "writing", path_);
    return static_cast<size_t>(n);
  }

  absl::Status Reserve(uint64_t size) override {
    ASSIGN_OR_RETURN(const uint64_t now, Size());
    if (size <= now) return absl::OkStatus();
    const int result = Retry([&] {
      return fallocate(fd_, FALLOC_FL_KEEP_SIZE, static_cast<off_t>(now),
                       static_cast<off_t>(size - now));
    });
    if (result == 0 || errno == EOPNOTSUPP || errno == ENOSYS) return absl::OkStatus();
    return SystemError(errno, "reserving room for", path_);
  }

  absl::Status Truncate(uint64_t size) override {
    if (Retry([&] { return ftruncate(fd_, static_cast<off_t>(size)); }) == 0) {
      return absl::OkStatus();
    }
    return SystemError(errno, "truncating", path_);
  }

  absl::Status Sync() override {
    if (Retry([&] { return fdatasync(fd_); }) == 0) return absl::OkStatus();
    return SystemError(errno, "syncing", path_);
  }

  void StartWriteout(uint64_t offset, uint64_t size) override {
    sync_file_range(fd_, static_cast<off_t>(offset), static_cast<off_t>(size),
                    SYNC_FILE_RANGE_WRITE);
  }

  absl::StatusOr<uint64_t> Size() override {
    struct stat info;
    if (fstat(fd_, &info) != 0) return SystemError(errno, "examining", path_);
    return static_cast<uint64_t>(info.st_size);
  }

 private:
  const int fd_;
  const std::string path_;
};

class PosixFileSystem final : public FileSystem {
 public:
  absl::StatusOr<std::unique_ptr<File>> Open(std::string_view path, Mode mode) override {
    int flags = O_CLOEXEC;
    switch (mode) {
      case Mode::kRead:
        flags |= O_RDONLY;
        break;
      case Mode::kReadWrite:
        flags |= O_RDWR;
        break;
      case Mode::kCreate:
        flags |= O_RDWR | O_CREAT | O_EXCL;
        break;
      case Mode::kOpenAlways:
        flags |= O_RDWR | O_CREAT;
        break;
    }
    std::string name(path);
    const int fd = Retry([&] { return open(name.c_str(), flags, 0600); });
    if (fd < 0) return SystemError(errno, "opening", path);
    return std::make_unique<PosixFile>(fd, std::move(name));
  }

  absl::StatusOr<FileInfo> Stat(std::string_view path) override {
    struct stat info;
    if (stat(std::string(path).c_str(), &info) != 0) return SystemError(errno, "examining", path);
    return FileInfo{.size = static_cast<uint64_t>(info.st_size),
                    .allocated = static_cast<uint64_t>(info.st_blocks) * 512,
                    .links = static_cast<uint64_t>(info.st_nlink),
                    .directory = S_ISDIR(info.st_mode),
                    .modified = absl::TimeFromTimespec(info.st_mtim)};
  }

  absl::Status Rename(std::string_view from, std::string_view to) override {
    if (rename(std::string(from).c_str(), std::string(to).c_str()) == 0) return absl::OkStatus();
    return SystemError(errno, StrCat("renaming ", from, " to"), to);
  }

  absl::Status Link(std::string_view existing, std::string_view added) override {
    if (link(std::string(existing).c_str(), std::string(added).c_str()) == 0) {
      return absl::OkStatus();
    }
    return SystemError(errno, StrCat("linking ", existing, " as"), added);
  }

  absl::Status Remove(std::string_view path) override {
    if (remove(std::string(path).c_str()) == 0) return absl::OkStatus();
    return SystemError(errno, "removing", path);
  }

  absl::Status CreateDirectory(std::string_view path) override {
    if (mkdir(std::string(path).c_str(), 0700) == 0) return absl::OkStatus();
    const int error = errno;
    if (error == EEXIST) {
      const absl::StatusOr<FileInfo> info = Stat(path);
      if (info.ok() && info->directory) return absl::OkStatus();
    }
    return SystemError(error, "making directory", path);
  }

  absl::StatusOr<std::vector<std::string>> List(std::string_view directory) override {
    DIR* stream = opendir(std::string(directory).c_str());
    if (stream == nullptr) return SystemError(errno, "listing", directory);
    std::vector<std::string> names;
    errno = 0;
    while (const dirent* entry = readdir(stream)) {
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..") names.emplace_back(name);
    }
    const int error = errno;
    closedir(stream);
    if (error != 0) return SystemError(error, "listing", directory);
    std::sort(names.begin(), names.end());
    return names;
  }

  absl::Status SyncDirectory(std::string_view directory) override {
    const int fd = open(std::string(directory).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return SystemError(errno, "opening directory", directory);
    const int result = Retry([&] { return fsync(fd); });
    const int error = errno;
    close(fd);
    if (result != 0) return SystemError(error, "syncing directory", directory);
    return absl::OkStatus();
  }
};

}  // namespace

FileSystem* RealFileSystem() {
  static PosixFileSystem* file_system = new PosixFileSystem;
  return file_system;
}

}  // namespace tandem
