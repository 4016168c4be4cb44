#include "master/store/store_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "common/base/error.h"
#include "common/base/strings.h"

namespace tandem::master {
namespace {

absl::Status Failed(std::string_view what, const std::string& path, std::string_view why) {
  return Error(absl::StatusCode::kInternal, reason::kStoreFailed,
               StrCat(what, " ", path, ": ", why));
}

std::string Why(int error) { return std::generic_category().message(error); }

absl::Status Unwritable(const std::string& directory, std::string_view why) {
  return Error(absl::StatusCode::kPermissionDenied, reason::kPathUnwritable,
               StrCat("cannot keep a store in ", directory, ": ", why,
                      "; make the directory writable, or choose another with --dir"));
}

// The first line: the holder's process id.
std::string HolderOf(int fd) {
  char text[32];
  const ssize_t size = pread(fd, text, sizeof(text), 0);
  if (size <= 0) return "another process";
  const std::string_view line(text, static_cast<size_t>(size));
  return StrCat("process ", line.substr(0, line.find('\n')));
}

}  // namespace

absl::StatusOr<StoreLock> StoreLock::Acquire(const std::string& directory) {
  std::error_code error;
  const bool made = std::filesystem::create_directories(directory, error);
  if (made && !error) {
    std::filesystem::permissions(directory, std::filesystem::perms::owner_all, error);
  }
  if (error) return Unwritable(directory, error.message());
  const std::string path = directory + "/LOCK";
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return Unwritable(directory, Why(errno));
  StoreLock lock(fd);
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return Failed("locking", path, Why(errno));
    return Error(absl::StatusCode::kUnavailable, reason::kStoreLocked,
                 StrCat("the store in ", directory, " is in use by ", HolderOf(fd),
                        ": stop that master first, or use another data directory"));
  }
  const std::string pid = StrCat(getpid(), "\n");
  if (ftruncate(fd, 0) != 0 ||
      pwrite(fd, pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size())) {
    return Failed("writing", path, Why(errno));
  }
  return lock;
}

StoreLock::~StoreLock() {
  if (fd_ >= 0) close(fd_);
}

}  // namespace tandem::master
