#include "client/cli/interrupt.h"

#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

namespace tandem::cli {
namespace {

std::atomic<bool> interrupted{false};
std::atomic<int> event_fd{-1};

void OnSignal(int number) {
  if (interrupted.exchange(true)) _exit(128 + number);
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(event_fd.load(), &one, sizeof one);
}

}  // namespace

void CatchInterrupts() {
  event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  struct sigaction action {};
  action.sa_handler = OnSignal;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool Interrupted() { return interrupted.load(); }
int InterruptFd() { return event_fd.load(); }

}  // namespace tandem::cli
