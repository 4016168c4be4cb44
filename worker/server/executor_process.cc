#include "worker/server/executor_process.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace tandem::worker {
namespace {

// Where the child finds its descriptors.
constexpr int kFirstFd = 3;
constexpr int kNotRun = 127;

struct ChildPlan {
  const char* program;
  std::vector<char*> argv;
  std::vector<char*> environment;
  std::array<int, 4> fds;  // memory, own wake, peer wake, staging
  pid_t parent;
};

// Between fork and exec: nothing but system calls.
[[noreturn]] void RunChild(const ChildPlan& plan) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != plan.parent) ::_exit(0);
  ::setpgid(0, 0);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  // Away from the targets first, so that none is overwritten before it is read.
  std::array<int, 4> high = {};
  const int beyond = kFirstFd + static_cast<int>(plan.fds.size());
  for (size_t i = 0; i < plan.fds.size(); ++i) {
    high[i] = ::fcntl(plan.fds[i], F_DUPFD_CLOEXEC, beyond);
    if (high[i] < 0) ::_exit(kNotRun);
  }
  for (size_t i = 0; i < high.size(); ++i) {
    if (::dup2(high[i], kFirstFd + static_cast<int>(i)) < 0) ::_exit(kNotRun);
  }
  ::execve(plan.program, plan.argv.data(), plan.environment.data());
  ::_exit(kNotRun);
}

std::string_view NameOf(std::string_view variable) {
  return variable.substr(0, variable.find('='));
}

// `own` and what this process has besides, as execve takes it.
std::vector<char*> EnvironmentOf(std::vector<std::string>* own) {
  std::vector<char*> all;
  for (std::string& variable : *own) all.push_back(variable.data());
  for (char** inherited = environ; *inherited != nullptr; ++inherited) {
    const auto same = [name = NameOf(*inherited)](const std::string& variable) {
      return NameOf(variable) == name;
    };
    if (std::ranges::none_of(*own, same)) all.push_back(*inherited);
  }
  all.push_back(nullptr);
  return all;
}

int OpenPidFd(pid_t pid) { return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)); }

}  // namespace

absl::StatusOr<std::unique_ptr<ExecutorProcess>> ExecutorProcess::Start(
    const std::string& program, ExecutorLaunch launch, uint32_t slots,
    std::vector<std::string> environment) {
  std::unique_ptr<ExecutorProcess> process(new ExecutorProcess);
  ASSIGN_OR_RETURN(ChannelPair channel, MakeChannel());
  process->channel_ = std::move(channel.supervisor);
  ASSIGN_OR_RETURN(process->staging_, StagingFile::Create());
  process->page_path_ = launch.start_page;
  ASSIGN_OR_RETURN(process->page_, StartPage::Create(launch.start_page, slots));

  launch.channel = StrCat(kFirstFd, ",", kFirstFd + 1, ",", kFirstFd + 2);
  launch.staging_fd = kFirstFd + 3;
  launch.parent_pid = ::getpid();
  std::vector<std::string> words = ToArguments(launch);
  words.insert(words.begin(), program);
  ChildPlan plan{program.c_str(),
                 {},
                 EnvironmentOf(&environment),
                 {channel.executor_fds.memory.get(), channel.executor_fds.own_wake.get(),
                  channel.executor_fds.peer_wake.get(), process->staging_->fd()},
                 ::getpid()};
  for (std::string& word : words) plan.argv.push_back(word.data());
  plan.argv.push_back(nullptr);

  const pid_t pid = ::fork();
  if (pid < 0) return absl::ErrnoToStatus(errno, "cannot start an executor");
  if (pid == 0) RunChild(plan);
  process->pid_ = pid;
  process->exit_fd_.reset(OpenPidFd(pid));
  if (!process->exit_fd_.ok()) return absl::ErrnoToStatus(errno, "cannot watch an executor");
  return process;
}

ExecutorProcess::~ExecutorProcess() {
  if (pid_ > 0) {
    Kill();
    if (!given_up_) Reap();
  }
  if (!page_path_.empty()) ::unlink(page_path_.c_str());
}

void ExecutorProcess::Kill() {
  if (pid_ > 0) ::kill(pid_, SIGKILL);
}

std::string ExecutorProcess::Reap() {
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  if (!WIFSIGNALED(status)) return StrCat("exit ", WEXITSTATUS(status));
  const char* name = ::sigabbrev_np(WTERMSIG(status));
  return name != nullptr ? StrCat("SIG", name) : StrCat("signal ", WTERMSIG(status));
}

}  // namespace tandem::worker
