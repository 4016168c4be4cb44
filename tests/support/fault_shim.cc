// To be preloaded into a process under test: writes and syncs of files below TANDEM_FAULT_DIR fail
// as the file TANDEM_FAULT_FILE says at that moment: "ENOSPC" or "EIO"; nothing fails while it is
// empty or not there. What would not grow a file fails, too: a disk may be full of others' bytes.
//
// Thread-safety: pure functions of the file system. It calls the kernel, never the library that it
// stands in front of.
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

// 0: the call may go on.
int FaultOf(int fd, bool takes_room) {
  const char* directory = std::getenv("TANDEM_FAULT_DIR");
  const char* control = std::getenv("TANDEM_FAULT_FILE");
  if (directory == nullptr || control == nullptr) return 0;
  char says[16] = {};
  const auto file = static_cast<int>(syscall(SYS_openat, AT_FDCWD, control, O_RDONLY | O_CLOEXEC));
  if (file < 0) return 0;
  const long size = syscall(SYS_read, file, says, sizeof(says) - 1);
  syscall(SYS_close, file);
  if (size <= 0) return 0;
  char link[32], path[4096] = {};
  std::snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  if (syscall(SYS_readlinkat, AT_FDCWD, link, path, sizeof(path) - 1) <= 0) return 0;
  if (std::strncmp(path, directory, std::strlen(directory)) != 0) return 0;
  if (std::strncmp(says, "ENOSPC", 6) == 0) return takes_room ? ENOSPC : 0;
  return std::strncmp(says, "EIO", 3) == 0 ? EIO : 0;
}

template <class Call>
long Pass(int fd, bool takes_room, Call call) {
  if (const int fault = FaultOf(fd, takes_room); fault != 0) {
    errno = fault;
    return -1;
  }
  return call();
}

}  // namespace

extern "C" {

ssize_t write(int fd, const void* bytes, size_t size) {
  return Pass(fd, true, [&] { return syscall(SYS_write, fd, bytes, size); });
}
ssize_t pwrite64(int fd, const void* bytes, size_t size, off64_t offset) {
  return Pass(fd, true, [&] { return syscall(SYS_pwrite64, fd, bytes, size, offset); });
}
ssize_t pwrite(int fd, const void* bytes, size_t size, off_t offset) {
  return pwrite64(fd, bytes, size, offset);
}
ssize_t pwritev64(int fd, const iovec* parts, int count, off64_t offset) {
  return Pass(fd, true, [&] { return syscall(SYS_pwritev, fd, parts, count, offset, 0L); });
}
ssize_t pwritev(int fd, const iovec* parts, int count, off_t offset) {
  return pwritev64(fd, parts, count, offset);
}
int fallocate64(int fd, int mode, off64_t offset, off64_t size) {
  return static_cast<int>(
      Pass(fd, true, [&] { return syscall(SYS_fallocate, fd, mode, offset, size); }));
}
int fallocate(int fd, int mode, off_t offset, off_t size) {
  return fallocate64(fd, mode, offset, size);
}
int fsync(int fd) {
  return static_cast<int>(Pass(fd, false, [&] { return syscall(SYS_fsync, fd); }));
}
int fdatasync(int fd) {
  return static_cast<int>(Pass(fd, false, [&] { return syscall(SYS_fdatasync, fd); }));
}

}  // extern "C"
