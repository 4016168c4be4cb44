#include "worker/device/emulated/guarded_call.h"

#include <setjmp.h>
#include <signal.h>

#include <mutex>

namespace tandem::worker {
namespace {

struct Guard {
  sigjmp_buf back;
  volatile uint64_t address = 0;
};

thread_local Guard* current = nullptr;
struct sigaction before_segv, before_bus;

void OnFault(int signal, siginfo_t* info, void*) {
  Guard* const guard = current;
  if (guard == nullptr) {
    // Not ours: the instruction faults again under the handler that was there.
    sigaction(signal, signal == SIGSEGV ? &before_segv : &before_bus, nullptr);
    return;
  }
  guard->address = reinterpret_cast<uint64_t>(info->si_addr);
  siglongjmp(guard->back, 1);
}

void SetHandlers() {
  struct sigaction action = {};
  action.sa_sigaction = OnFault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  sigaction(SIGSEGV, &action, &before_segv);
  sigaction(SIGBUS, &action, &before_bus);
}

}  // namespace

std::optional<uint64_t> GuardedCall(void (*function)(void*), void* context) {
  static std::once_flag once;
  std::call_once(once, SetHandlers);
  Guard guard;
  if (sigsetjmp(guard.back, /*savemask=*/1) != 0) {
    current = nullptr;
    return guard.address;
  }
  current = &guard;
  function(context);
  current = nullptr;
  return std::nullopt;
}

}  // namespace tandem::worker
