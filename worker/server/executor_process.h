// ExecutorProcess: one life of one executor: its process, its channel, its staging and its start
// page.
//
//   ASSIGN_OR_RETURN(auto executor, ExecutorProcess::Start(program, launch, slots));
//   epoll on executor->channel()->wake_fd() and executor->exit_fd()
//   if exit_fd() is readable: std::string how = executor->Reap();   // "SIGSEGV", "exit 3"
//
// The child dies with the thread that started it (PR_SET_PDEATHSIG) and leads a process group of
// its own, so that a terminal's Ctrl-C reaches the supervisor alone.
//
// Thread-safety: one thread, the one that lives as long as the program.
// Ownership: owns process, channel and page; staging is shared with pushes that still read it. The
// destructor kills and reaps a child that runs, and removes the page.
#ifndef TANDEM_WORKER_SERVER_EXECUTOR_PROCESS_H_
#define TANDEM_WORKER_SERVER_EXECUTOR_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/unique_fd.h"
#include "worker/ring/channel.h"
#include "worker/ring/launch.h"
#include "worker/ring/staging.h"
#include "worker/ring/start_page.h"

namespace tandem::worker {

class ExecutorProcess {
 public:
  // `launch`: channel, staging and parent are filled in here. `environment`: NAME=value, beside and
  // before this process's own. Errors: of memory, files and fork;
  // a program that cannot be run ends at once with "exit 127".
  static absl::StatusOr<std::unique_ptr<ExecutorProcess>> Start(
      const std::string& program, ExecutorLaunch launch, uint32_t slots,
      std::vector<std::string> environment = {});
  ~ExecutorProcess();

  Channel* channel() { return channel_.get(); }
  const std::shared_ptr<StagingFile>& staging() const { return staging_; }
  pid_t pid() const { return pid_; }
  // Readable once the process has ended.
  int exit_fd() const { return exit_fd_.get(); }
  void Kill();
  // Waits for the end of a process that is ending and says how it ended.
  std::string Reap();
  // It does not end: nobody waits for it any more, the destructor neither.
  void GiveUp() { given_up_ = true; }
  // What had started and not finished. Certain once the process has ended.
  std::vector<Started> Running() const { return page_->Running(); }

 private:
  ExecutorProcess() = default;

  std::string page_path_;
  std::unique_ptr<StartPage> page_;
  std::unique_ptr<Channel> channel_;
  std::shared_ptr<StagingFile> staging_;
  pid_t pid_ = -1;
  bool given_up_ = false;
  UniqueFd exit_fd_;
};

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_SERVER_EXECUTOR_PROCESS_H_
