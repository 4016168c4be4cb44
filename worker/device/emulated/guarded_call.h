// GuardedCall: runs code that may touch memory which is not there for it, and says where it did.
//
// The code is left at the faulting instruction, so it must own nothing: a kernel's entry, not a
// function of ours.
//
// Thread-safety: any thread; each guards only what it runs itself. The handlers of SIGSEGV and
// SIGBUS are set at the first call; a fault elsewhere ends the process as before.
#ifndef TANDEM_WORKER_DEVICE_EMULATED_GUARDED_CALL_H_
#define TANDEM_WORKER_DEVICE_EMULATED_GUARDED_CALL_H_

#include <cstdint>
#include <optional>

namespace tandem::worker {

// Calls function(context). The address at fault, or nothing when it came to its end.
std::optional<uint64_t> GuardedCall(void (*function)(void*), void* context);

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_DEVICE_EMULATED_GUARDED_CALL_H_
