// Ctrl-C as a flag: a waiting command looks at it and detaches.
//
// Thread-safety: safe from any thread.
#ifndef TANDEM_CLIENT_CLI_INTERRUPT_H_
#define TANDEM_CLIENT_CLI_INTERRUPT_H_

#include <functional>
#include <thread>

namespace tandem::cli {

// From now on SIGINT and SIGTERM set a flag instead of ending the program; a second one ends it.
void CatchInterrupts();
bool Interrupted();
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
// A descriptor that becomes readable with the first signal.
int InterruptFd();

}  // namespace tandem::cli

#endif  // TANDEM_CLIENT_CLI_INTERRUPT_H_
