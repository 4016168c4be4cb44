#include "client/cli/interrupt.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <utility>

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

OnInterrupt::OnInterrupt(std::function<void()> on_interrupt)
    : stop_fd_(eventfd(0, EFD_CLOEXEC)), thread_([this, on_interrupt = std::move(on_interrupt)] {
        pollfd fds[2] = {{InterruptFd(), POLLIN, 0}, {stop_fd_, POLLIN, 0}};
        while (poll(fds, 2, -1) < 0) {
        }
        if (fds[1].revents == 0) on_interrupt();
      }) {}

OnInterrupt::~OnInterrupt() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(stop_fd_, &one, sizeof one);
  thread_.join();
  close(stop_fd_);
}

}  // namespace tandem::cli
