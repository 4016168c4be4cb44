#include "worker/server/kernel_libraries.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include "absl/time/clock.h"
#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/reason.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/base/unique_fd.h"
#include "common/wire/kernel.h"
#include "tandem/executor/v1/executor.pb.h"
#include "worker/executor/probe.h"

namespace tandem::worker {
namespace {

namespace fs = std::filesystem;

constexpr int kResultFd = 3;
constexpr int kNotLoaded = 127;
constexpr size_t kResultBytesMax = 16 << 20;

struct Candidate {
  std::string file;
  bool named = false;  // as a file, not as a member of a folder
};

absl::Status Unreadable(const std::string& path, const std::error_code& error) {
  return InvalidError(reason::kPathUnreadable,
                      StrCat("--kernel-path ", path, ": ", error.message(),
                             "; name a library (x.so) or a folder of libraries"));
}

absl::Status AddPath(const std::string& path, std::vector<Candidate>* candidates) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) {
    return Unreadable(path, std::make_error_code(std::errc::no_such_file_or_directory));
  }
  const auto absolute = [](const fs::path& file) {
    return fs::absolute(file).lexically_normal().string();
  };
  if (!fs::is_directory(status)) {
    candidates->push_back({absolute(path), true});
    return absl::OkStatus();
  }
  std::vector<std::string> files;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name.ends_with(".so") && !name.ends_with(".cuda.so")) files.push_back(absolute(it->path()));
  }
  if (error) return Unreadable(path, error);
  std::ranges::sort(files);
  for (std::string& file : files) candidates->push_back({std::move(file), false});
  return absl::OkStatus();
}

// Between fork and exec: nothing but system calls.
[[noreturn]] void RunProbe(char* const* argv, int result_fd, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(0);
  ::setpgid(0, 0);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  // A descriptor that is in its place already would keep its close-on-exec flag.
  const int away = ::fcntl(result_fd, F_DUPFD_CLOEXEC, kResultFd + 1);
  if (away < 0 || ::dup2(away, kResultFd) < 0) ::_exit(kNotLoaded);
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
  ::execv(argv[0], argv);
  ::_exit(kNotLoaded);
}

// Reads until the writer's end is closed. False: the time was over or there was too much.
bool ReadResult(int fd, absl::Time until, std::string* result) {
  char buffer[4096];
  while (result->size() <= kResultBytesMax) {
    pollfd wait = {fd, POLLIN, 0};
    const int64_t left = absl::ToInt64Milliseconds(until - absl::Now());
    const int ready = left < 0 ? 0 : ::poll(&wait, 1, static_cast<int>(left) + 1);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return false;
    const ssize_t got = ::read(fd, buffer, sizeof(buffer));
    if (got <= 0) return got == 0;
    result->append(buffer, static_cast<size_t>(got));
  }
  return false;
}

// An ended child has exited once its pipe is closed, but for one that closed it and lives on.
int WaitFor(pid_t pid, absl::Time until) {
  int status = 0;
  while (::waitpid(pid, &status, WNOHANG) == 0) {
    if (absl::Now() >= until) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, &status, 0);
      break;
    }
    absl::SleepFor(absl::Milliseconds(1));
  }
  return status;
}

struct ProbeEnd {
  int status = 0;
  bool in_time = false;
  std::string result;
};

absl::StatusOr<ProbeEnd> RunProbeProcess(const std::string& executor, const std::string& file,
                                         absl::Duration limit) {
  int pipe_fds[2];
  if (::pipe2(pipe_fds, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "cannot make a pipe");
  UniqueFd read_end(pipe_fds[0]), write_end(pipe_fds[1]);
  std::string words[] = {executor, StrCat("--probe=", file), StrCat("--result-fd=", kResultFd)};
  char* argv[] = {words[0].data(), words[1].data(), words[2].data(), nullptr};
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return absl::ErrnoToStatus(errno, "cannot start a probe");
  if (pid == 0) RunProbe(argv, write_end.get(), parent);
  write_end.reset();
  ProbeEnd end;
  const absl::Time until = absl::Now() + limit;
  end.in_time = ReadResult(read_end.get(), until, &end.result);
  if (!end.in_time) ::kill(pid, SIGKILL);
  end.status = WaitFor(pid, until);
  return end;
}

std::string HowItEnded(int status) {
  if (!WIFSIGNALED(status)) return StrCat("exit ", WEXITSTATUS(status));
  const char* name = ::sigabbrev_np(WTERMSIG(status));
  return name != nullptr ? StrCat("SIG", name) : StrCat("signal ", WTERMSIG(status));
}

// What a master would refuse, it refuses at every Attach: better said here.
absl::StatusOr<std::vector<tandem::v1::Kernel>> CheckedKernels(const std::string& result) {
  executor::v1::Ready ready;
  if (!ready.ParseFromString(result)) {
    return InvalidError(reason::kBadFile, "what its probe wrote cannot be read");
  }
  if (ready.kernels().empty()) return InvalidError(reason::kBadFile, "it has no kernels");
  std::vector<tandem::v1::Kernel> kernels;
  for (const tandem::v1::Kernel& kernel : ready.kernels()) {
    tandem::v1::Kernel copy = kernel;
    KernelInfo info;
    if (const absl::Status status = wire::Decode(&copy, &info); !status.ok()) {
      return InvalidError(reason::kBadFile,
                          StrCat("kernel ", kernel.name(), ": ", ToStd(status.message())));
    }
    kernels.push_back(kernel);
  }
  return kernels;
}

// Takes the library in, unless it has a kernel of a name that another has.
absl::Status Take(const std::string& file, std::vector<tandem::v1::Kernel> kernels,
                  std::map<std::string, std::string>* file_of, KernelLibraries* found) {
  for (const tandem::v1::Kernel& kernel : kernels) {
    if (const auto other = file_of->find(kernel.name()); other != file_of->end()) {
      return Error(absl::StatusCode::kAlreadyExists, reason::kBadFile,
                   StrCat(file, " has a kernel named ", kernel.name(), ", as has ", other->second,
                          "; leave one of them out, or rename the kernel"));
    }
  }
  for (tandem::v1::Kernel& kernel : kernels) {
    (*file_of)[kernel.name()] = file;
    found->kernels.push_back(std::move(kernel));
  }
  found->files.push_back(file);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<tandem::v1::Kernel>> ProbeLibrary(const std::string& executor,
                                                             const std::string& file,
                                                             absl::Duration load_limit) {
  ASSIGN_OR_RETURN(const ProbeEnd end, RunProbeProcess(executor, file, load_limit));
  const bool exited = WIFEXITED(end.status);
  if (!end.in_time) {
    return InvalidError(reason::kBadFile,
                        StrCat(file, " was not loaded within ", load_limit,
                               "; look for what it does before main would run (constructors of "
                               "globals), or raise --kernel-load-limit"));
  }
  if (exited && WEXITSTATUS(end.status) == kRefusedExit) {
    const bool named = end.result.find(file) != std::string::npos;
    return InvalidError(reason::kBadFile, named ? end.result : StrCat(file, ": ", end.result));
  }
  if (!exited || WEXITSTATUS(end.status) != 0) {
    return InvalidError(reason::kBadFile,
                        StrCat(file, " ended the process that loaded it (", HowItEnded(end.status),
                               "); look for what it does while it is loaded (constructors of "
                               "globals)"));
  }
  absl::StatusOr<std::vector<tandem::v1::Kernel>> kernels = CheckedKernels(end.result);
  if (!kernels.ok()) return WithContext(kernels.status(), file);
  return kernels;
}

absl::StatusOr<KernelLibraries> FindKernelLibraries(const KernelLibraryOptions& options) {
  std::vector<Candidate> candidates;
  for (const std::string& path : options.paths) RETURN_IF_ERROR(AddPath(path, &candidates));
  KernelLibraries found;
  std::map<std::string, std::string> file_of;
  for (const Candidate& candidate : candidates) {
    if (std::ranges::count(found.files, candidate.file) > 0) continue;  // named twice
    auto kernels = ProbeLibrary(options.executor, candidate.file, options.load_limit);
    absl::Status status = kernels.ok() ? Take(candidate.file, *std::move(kernels), &file_of, &found)
                                       : kernels.status();
    if (status.ok()) continue;
    if (candidate.named) return status;
    TLOG(Warning, "kernel_library_refused", "file", candidate.file, "why", ToStd(status.message()));
  }
  return found;
}

}  // namespace tandem::worker
