#include "client/cli/interrupt.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <utility>

#include "absl/time/clock.h"

namespace tandem::cli {
namespace {

constexpr absl::Duration kLook = absl::Milliseconds(10);

std::atomic<int> interrupts{0}, most_interrupts{1};
std::atomic<int> event_fd{-1};

void OnSignal(int number) {
  if (interrupts.fetch_add(1) >= most_interrupts) _exit(128 + number);
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(event_fd.load(), &one, sizeof one);
}

}  // namespace

void CatchInterrupts(int most) {
  most_interrupts = most;
  if (event_fd >= 0) return;
  event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  struct sigaction action {};
  action.sa_handler = OnSignal;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGHUP, &action, nullptr);
}

int Interrupts() { return interrupts.load(); }
int InterruptFd() { return event_fd.load(); }

bool AwaitInterrupts(int count, absl::Duration patience) {
  const absl::Time give_up = absl::Now() + patience;
  while (Interrupts() < count && absl::Now() < give_up) absl::SleepFor(kLook);
  return Interrupts() >= count;
}

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
