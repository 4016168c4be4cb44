// To be preloaded into a process under test: SIGKILL does not end those processes whose command
// line has the words that the file TANDEM_UNDYING_FILE has at that moment, as if a driver held
// them; nobody is held while it is empty or not there.
//
// Thread-safety: pure functions of the file system.
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

// Reads at most size - 1 bytes of a file; how many it read.
size_t Read(const char* path, char* text, size_t size) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  const ssize_t got = read(file, text, size - 1);
  close(file);
  return got > 0 ? static_cast<size_t>(got) : 0;
}

bool Held(pid_t pid) {
  const char* control = std::getenv("TANDEM_UNDYING_FILE");
  if (control == nullptr || pid <= 0) return false;
  char words[256] = {}, path[64], line[4096] = {};
  const size_t length = Read(control, words, sizeof(words));
  if (length == 0) return false;
  std::snprintf(path, sizeof(path), "/proc/%d/cmdline", static_cast<int>(pid));
  const size_t size = Read(path, line, sizeof(line));
  return memmem(line, size, words, length) != nullptr;
}

}  // namespace

extern "C" int kill(pid_t pid, int signal) {
  if (signal == SIGKILL && Held(pid)) return 0;
  return static_cast<int>(syscall(SYS_kill, pid, signal));
}
