#include "client/cli/child_process.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/time/clock.h"
#include "common/base/error.h"
#include "common/base/strings.h"

namespace tandem::cli {

absl::StatusOr<ChildProcess> ChildProcess::Start(const std::vector<std::string>& argv) {
  std::vector<char*> args;
  for (const std::string& word : argv) args.push_back(const_cast<char*>(word.c_str()));
  args.push_back(nullptr);
  if (access(args[0], X_OK) != 0) {
    return Error(absl::StatusCode::kNotFound, reason::kPathUnreadable,
                 StrCat("cannot start ", argv[0], ": ", std::strerror(errno)));
  }
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) {
    return Error(absl::StatusCode::kResourceExhausted, reason::kInternal,
                 StrCat("cannot start ", argv[0], ": ", std::strerror(errno)));
  }
  if (pid == 0) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(1);
    dup2(STDERR_FILENO, STDOUT_FILENO);
    execv(args[0], args.data());
    _exit(127);
  }
  return ChildProcess(pid);
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), ended_(std::move(other.ended_)) {}

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(ended_, other.ended_);
  return *this;
}

ChildProcess::~ChildProcess() {
  if (pid_ < 0 || Poll().has_value()) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

std::optional<std::string> ChildProcess::Poll() {
  if (ended_.has_value() || pid_ < 0) return ended_;
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) != pid_) return std::nullopt;
  ended_ = WIFSIGNALED(status) ? StrCat("SIG", sigabbrev_np(WTERMSIG(status)))
                               : StrCat("exit ", WEXITSTATUS(status));
  return ended_;
}

void ChildProcess::Terminate() {
  if (pid_ >= 0 && !Poll().has_value()) kill(pid_, SIGTERM);
}

void ChildProcess::Wait(absl::Duration patience) {
  const absl::Time give_up = absl::Now() + patience;
  while (!Poll().has_value()) {
    if (absl::Now() >= give_up) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
      ended_ = "SIGKILL";
      return;
    }
    absl::SleepFor(absl::Milliseconds(5));
  }
}

}  // namespace tandem::cli
