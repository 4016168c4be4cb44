// Ctrl-C as a count: a waiting command looks at it and detaches.
//
// Thread-safety: safe from any thread.
#ifndef TANDEM_CLIENT_CLI_INTERRUPT_H_
#define TANDEM_CLIENT_CLI_INTERRUPT_H_

#include <functional>
#include <thread>

#include "absl/time/time.h"

namespace tandem::cli {

// From now on SIGINT, SIGTERM and SIGHUP are counted instead of ending the program; the one after
// `most` ends it. May be called again.
void CatchInterrupts(int most = 1);
int Interrupts();
inline bool Interrupted() { return Interrupts() > 0; }
// Until `count` signals have come, or for so long. Returns whether they have.
bool AwaitInterrupts(int count, absl::Duration patience);

// Calls `on_interrupt` once, from a thread of its own, when the first signal comes while it lives.
// Needs CatchInterrupts() before it.
class OnInterrupt {
 public:
  explicit OnInterrupt(std::function<void()> on_interrupt);
  ~OnInterrupt();

 private:
  int stop_fd_;
  std::thread thread_;
};
// A descriptor that is readable from the first signal on.
int InterruptFd();

}  // namespace tandem::cli

#endif  // TANDEM_CLIENT_CLI_INTERRUPT_H_
