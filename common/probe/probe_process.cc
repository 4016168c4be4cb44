#include "common/probe/probe_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/base/unique_fd.h"

namespace tandem {
namespace {

// How long a program that was killed has until it is left behind.
constexpr absl::Duration kDying = absl::Seconds(2);
constexpr absl::Duration kLookEvery = absl::Milliseconds(5);

int Milliseconds(absl::Duration left) {
  return static_cast<int>(
      std::clamp(absl::ToInt64Milliseconds(absl::Ceil(left, absl::Milliseconds(1))), int64_t{0},
                 int64_t{60'000}));
}

absl::Status CannotStart(const std::string& program, int error) {
  return Error(absl::StatusCode::kNotFound, reason::kPathUnreadable,
               StrCat("cannot start ", program, ": ", std::strerror(error)));
}

// Starts it in a group of its own, with `out` as its stdout.
absl::StatusOr<pid_t> Spawn(const std::vector<std::string>& argv, int out) {
  std::vector<char*> words;
  for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  pid_t pid = -1;
  const int error = posix_spawn(&pid, words[0], &actions, &attributes, words.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) return CannotStart(argv[0], error);
  return pid;
}

// Reads until the other end is closed; false when time is up.
bool ReadAll(int fd, MonoTime until, std::string* text) {
  while (true) {
    const absl::Duration left = until - Clock::Real()->Now();
    if (left <= absl::ZeroDuration()) return false;
    pollfd ready = {fd, POLLIN, 0};
    if (poll(&ready, 1, Milliseconds(left)) <= 0) continue;
    char buffer[4096];
    const ssize_t size = read(fd, buffer, sizeof buffer);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return true;
    text->append(buffer, std::min(static_cast<size_t>(size), kProbeBytesMax - text->size()));
  }
}

// False if it has not ended by then.
bool Reap(pid_t pid, MonoTime until, int* status) {
  while (waitpid(pid, status, WNOHANG) == 0) {
    if (Clock::Real()->Now() >= until) return false;
    absl::SleepFor(kLookEvery);
  }
  return true;
}

}  // namespace

absl::StatusOr<std::string> RunProbe(const std::vector<std::string>& argv, absl::Duration limit) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return CannotStart(argv[0], errno);
  const UniqueFd ours(ends[0]);
  UniqueFd theirs(ends[1]);
  ASSIGN_OR_RETURN(const pid_t pid, Spawn(argv, theirs.get()));
  theirs.reset();
  const MonoTime until = Clock::Real()->Now() + limit;
  std::string text;
  int status = 0;
  if (!ReadAll(ours.get(), until, &text) || !Reap(pid, until, &status)) {
    kill(-pid, SIGKILL);
    (void)Reap(pid, Clock::Real()->Now() + kDying, &status);
    return Error(absl::StatusCode::kDeadlineExceeded, reason::kTimeLimit,
                 StrCat(argv[0], " did not answer within ", limit,
                        ": the driver hangs; see nvidia-smi and dmesg, and reboot if need be"));
  }
  if (WIFSIGNALED(status)) {
    return Error(absl::StatusCode::kUnavailable, reason::kDeviceFault,
                 StrCat(argv[0], " was ended by SIG", sigabbrev_np(WTERMSIG(status))));
  }
  return text;
}

}  // namespace tandem
