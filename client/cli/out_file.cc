#include "client/cli/out_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "client/cli/interrupt.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace tandem::cli {
namespace {

namespace fs = std::filesystem;

absl::Status WriteError(const std::string& path, int error) {
  const std::string what =
      StrCat("cannot write ", path == "-" ? "stdout" : Quoted(path), ": ", std::strerror(error));
  if (error == ENOSPC || error == EDQUOT || error == EFBIG) {
    return Error(absl::StatusCode::kResourceExhausted, reason::kDiskFull, what);
  }
  const bool denied = error == EACCES || error == EPERM || error == EROFS;
  return Error(denied ? absl::StatusCode::kPermissionDenied : absl::StatusCode::kInvalidArgument,
               reason::kPathUnwritable, what);
}

std::string ParentOf(const std::string& path) {
  const std::string parent = fs::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

absl::Status Exists(const std::string& path, std::string_view what) {
  return Error(absl::StatusCode::kAlreadyExists, reason::kPathExists,
               StrCat(Quoted(path), " ", what, "; choose another name or add --force"));
}

// That a file can be made in `directory`, and that there is room for it.
absl::Status CheckDirectory(const std::string& path, const std::string& directory, uint64_t bytes) {
  struct stat info {};
  if (stat(directory.c_str(), &info) != 0) {
    const int error = errno;
    if (error != ENOENT) return WriteError(path, error);
    return Error(absl::StatusCode::kNotFound, reason::kPathUnwritable,
                 StrCat("cannot write ", Quoted(path), ": there is no directory ",
                        Quoted(directory), "; make it first"));
  }
  if (!S_ISDIR(info.st_mode)) return WriteError(path, ENOTDIR);
  if (access(directory.c_str(), W_OK | X_OK) != 0) return WriteError(path, errno);
  struct statvfs space {};
  if (statvfs(directory.c_str(), &space) != 0 || space.f_blocks == 0) return absl::OkStatus();
  const uint64_t room = uint64_t{space.f_bavail} * space.f_frsize;
  if (room >= bytes) return absl::OkStatus();
  return Error(absl::StatusCode::kResourceExhausted, reason::kDiskFull,
               StrCat(Quoted(path), " would have ", HumanSize(bytes), ", but there is room for ",
                      HumanSize(room), " only: make room or choose another disk"));
}

// What a link leads to; the path itself where it is none, or leads nowhere.
std::string GoalOf(const std::string& path) {
  std::error_code failed;
  const fs::path real = fs::canonical(path, failed);
  return failed ? path : real.string();
}

mode_t FileMode() {
  const mode_t mask = umask(0);
  umask(mask);
  return 0666 & ~mask;
}

}  // namespace

absl::Status CheckOutFile(const std::string& path, uint64_t bytes, bool force) {
  if (path == "-") return absl::OkStatus();
  struct stat info {};
  if (stat(path.c_str(), &info) == 0) {
    if (S_ISDIR(info.st_mode)) return WriteError(path, EISDIR);
    if (S_ISBLK(info.st_mode) || S_ISSOCK(info.st_mode)) {
      return InvalidError(reason::kPathUnwritable,
                          StrCat("cannot write ", Quoted(path), ": it is a ",
                                 S_ISBLK(info.st_mode) ? "block device" : "socket",
                                 "; give a file, a pipe, or a character device as /dev/null"));
    }
    if (!S_ISREG(info.st_mode)) {  // a character device, a pipe: nothing is overwritten
      return access(path.c_str(), W_OK) == 0 ? absl::OkStatus() : WriteError(path, errno);
    }
    if (!force) return Exists(path, "exists");
    bytes -= std::min<uint64_t>(bytes, static_cast<uint64_t>(info.st_blocks) * 512);
  }
  const std::string goal = GoalOf(path);
  return CheckDirectory(path, ParentOf(goal), bytes);
}

absl::Status CheckOutDirectory(const std::string& path, bool force) {
  std::error_code failed;
  if (!fs::exists(path, failed)) {
    const std::string bare = path.ends_with('/') ? path.substr(0, path.size() - 1) : path;
    return CheckDirectory(path, ParentOf(bare), 0);
  }
  RETURN_IF_ERROR(CheckDirectory(path, path, 0));
  const bool empty = fs::is_empty(path, failed);
  return empty || force ? absl::OkStatus() : Exists(path, "is not empty");
}

absl::StatusOr<OutFile> OutFile::Create(const std::string& path) {
  signal(SIGXFSZ, SIG_IGN);  // A limit on a file's size is an error to tell, not to die of.
  OutFile file;
  file.path_ = path;
  file.interrupts_ = Interrupts();
  if (path == "-") {
    file.stream_ = stdout;
    return file;
  }
  struct stat info {};
  const bool there = stat(path.c_str(), &info) == 0;
  int fd = -1;
  if (there && !S_ISREG(info.st_mode)) {
    fd = open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY);
  } else {
    file.goal_ = GoalOf(path);
    file.part_ = StrCat(ParentOf(file.goal_), "/.tandem-XXXXXX.part");
    fd = mkostemps(file.part_.data(), 5, O_CLOEXEC);
  }
  if (fd < 0) {
    const int error = errno;
    file.part_.clear();
    // A pipe is waited for until somebody reads it.
    if (error == EINTR && Interrupts() > file.interrupts_) return file.Interrupted();
    return WriteError(path, error);
  }
  if (!file.part_.empty()) fchmod(fd, there ? info.st_mode & 07777 : FileMode());
  file.stream_ = fdopen(fd, "wb");
  return file;
}

OutFile::OutFile(OutFile&& other) noexcept
    : path_(std::move(other.path_)),
      goal_(std::move(other.goal_)),
      part_(std::exchange(other.part_, {})),
      interrupts_(other.interrupts_),
      stream_(std::exchange(other.stream_, nullptr)) {}

OutFile::~OutFile() {
  if (stream_ != nullptr && stream_ != stdout) std::fclose(stream_);
  if (!part_.empty()) std::remove(part_.c_str());
}

absl::Status OutFile::Interrupted() const {
  return Error(absl::StatusCode::kCancelled, reason::kInterrupted,
               StrCat(Quoted(path_), " was not written to its end"));
}

absl::Status OutFile::Write(std::string_view bytes) {
  if (Interrupts() > interrupts_) return Interrupted();
  if (std::fwrite(bytes.data(), 1, bytes.size(), stream_) != bytes.size()) {
    return WriteError(path_, errno);
  }
  return absl::OkStatus();
}

absl::Status OutFile::Close() {
  if (stream_ == stdout) {
    return std::fflush(stdout) == 0 ? absl::OkStatus() : WriteError(path_, errno);
  }
  if (std::fclose(std::exchange(stream_, nullptr)) != 0) return WriteError(path_, errno);
  if (part_.empty()) return absl::OkStatus();
  if (std::rename(part_.c_str(), goal_.c_str()) != 0) return WriteError(path_, errno);
  part_.clear();
  return absl::OkStatus();
}

}  // namespace tandem::cli
