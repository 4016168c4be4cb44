// A child process that ends with its parent.
//
// Thread-safety: one thread. Ownership: the destructor kills a child that still runs.
#ifndef TANDEM_CLIENT_CLI_CHILD_PROCESS_H_
#define TANDEM_CLIENT_CLI_CHILD_PROCESS_H_

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace tandem::cli {

class ChildProcess {
 public:
  // Starts argv[0] in a process group of its own, so that the terminal's Ctrl-C reaches only the
  // parent. The child gets SIGTERM when the parent dies. Its stdout goes to the parent's stderr.
  static absl::StatusOr<ChildProcess> Start(const std::vector<std::string>& argv);
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&& other) noexcept;
  ~ChildProcess();

  pid_t pid() const { return pid_; }
  // How it ended ("exit 0", "SIGKILL"), or nothing while it runs.
  std::optional<std::string> Poll();
  // SIGTERM now; Wait gives it `patience`, then SIGKILL.
  void Terminate();
  void Wait(absl::Duration patience);

 private:
  explicit ChildProcess(pid_t pid) : pid_(pid) {}
  pid_t pid_ = -1;
  std::optional<std::string> ended_;
};

}  // namespace tandem::cli

#endif  // TANDEM_CLIENT_CLI_CHILD_PROCESS_H_
