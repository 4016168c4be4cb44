// Tells ThreadSanitizer of the synchronisation inside Debian's libabsl, which is not built with it.
//
// Linked into every test of the `tsan` preset. It defines the members of absl::Mutex, CondVar,
// Notification and BlockingCounter; the program's definitions come before the shared library's, so
// each call passes through here, says what it acquires and releases, and goes on to the library's
// own. Without it every field that an absl::Mutex guards would be reported as a race.
#include <dlfcn.h>
#include <sanitizer/tsan_interface.h>

#include <cstdlib>
#include <string>

#include "absl/base/options.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"

namespace {

#define TANDEM_TEXT_OF(x) #x
#define TANDEM_TEXT(x) TANDEM_TEXT_OF(x)

// The library's function, by its mangled name behind `_ZN` (or `_ZNK`) and absl's inline namespace.
void* Next(const char* prefix, const char* rest) {
  const std::string space = TANDEM_TEXT(ABSL_OPTION_INLINE_NAMESPACE_NAME);
  const std::string name = prefix + ("4absl" + std::to_string(space.size()) + space) + rest;
  void* found = dlsym(RTLD_NEXT, name.c_str());
  if (found == nullptr) std::abort();
  return found;
}

template <class R, class Self, class... A>
R Call(void* function, Self self, A... args) {
  return reinterpret_cast<R (*)(Self, A...)>(function)(self, args...);
}

// A condition that the library evaluates, in whichever thread, while that thread holds the mutex.
struct Guarded {
  absl::Mutex* mu;
  const absl::Condition* condition;

  bool Eval() {
    __tsan_acquire(mu);
    const bool holds = condition->Eval();
    __tsan_release(mu);
    return holds;
  }
};

}  // namespace

#define TANDEM_NEXT(rest) static void* const next = Next("_ZN", rest)
#define TANDEM_NEXT_CONST(rest) static void* const next = Next("_ZNK", rest)

namespace absl {
ABSL_NAMESPACE_BEGIN

void Mutex::Lock() {
  TANDEM_NEXT("5Mutex4LockEv");
  Call<void>(next, this);
  __tsan_acquire(this);
}

void Mutex::Unlock() {
  TANDEM_NEXT("5Mutex6UnlockEv");
  __tsan_release(this);
  Call<void>(next, this);
}

bool Mutex::TryLock() {
  TANDEM_NEXT("5Mutex7TryLockEv");
  const bool locked = Call<bool>(next, this);
  if (locked) __tsan_acquire(this);
  return locked;
}

void Mutex::ReaderLock() {
  TANDEM_NEXT("5Mutex10ReaderLockEv");
  Call<void>(next, this);
  __tsan_acquire(this);
}

void Mutex::ReaderUnlock() {
  TANDEM_NEXT("5Mutex12ReaderUnlockEv");
  __tsan_release(this);
  Call<void>(next, this);
}

void Mutex::Await(const Condition& condition) {
  TANDEM_NEXT("5Mutex5AwaitERKNS0_9ConditionE");
  Guarded guarded{this, &condition};
  const Condition inner(&guarded, &Guarded::Eval);
  __tsan_release(this);
  Call<void>(next, this, &inner);
  __tsan_acquire(this);
}

bool Mutex::AwaitWithTimeout(const Condition& condition, Duration timeout) {
  TANDEM_NEXT("5Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE");
  Guarded guarded{this, &condition};
  const Condition inner(&guarded, &Guarded::Eval);
  __tsan_release(this);
  const bool held = Call<bool>(next, this, &inner, timeout);
  __tsan_acquire(this);
  return held;
}

bool Mutex::AwaitWithDeadline(const Condition& condition, Time deadline) {
  TANDEM_NEXT("5Mutex17AwaitWithDeadlineERKNS0_9ConditionENS0_4TimeE");
  Guarded guarded{this, &condition};
  const Condition inner(&guarded, &Guarded::Eval);
  __tsan_release(this);
  const bool held = Call<bool>(next, this, &inner, deadline);
  __tsan_acquire(this);
  return held;
}

void Mutex::LockWhen(const Condition& condition) {
  Lock();
  Await(condition);
}

bool Mutex::LockWhenWithTimeout(const Condition& condition, Duration timeout) {
  Lock();
  return AwaitWithTimeout(condition, timeout);
}

bool Mutex::LockWhenWithDeadline(const Condition& condition, Time deadline) {
  Lock();
  return AwaitWithDeadline(condition, deadline);
}

void CondVar::Wait(Mutex* mu) {
  TANDEM_NEXT("7CondVar4WaitEPNS0_5MutexE");
  __tsan_release(mu);
  Call<void>(next, this, mu);
  __tsan_acquire(mu);
}

bool CondVar::WaitWithTimeout(Mutex* mu, Duration timeout) {
  TANDEM_NEXT("7CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE");
  __tsan_release(mu);
  const bool timed_out = Call<bool>(next, this, mu, timeout);
  __tsan_acquire(mu);
  return timed_out;
}

bool CondVar::WaitWithDeadline(Mutex* mu, Time deadline) {
  TANDEM_NEXT("7CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE");
  __tsan_release(mu);
  const bool timed_out = Call<bool>(next, this, mu, deadline);
  __tsan_acquire(mu);
  return timed_out;
}

// HasBeenNotified() is inline and loads the flag behind the mutex; a release there pairs with it.
void Notification::Notify() {
  TANDEM_NEXT("12Notification6NotifyEv");
  __tsan_release(&notified_yet_);
  Call<void>(next, this);
}

void Notification::WaitForNotification() const {
  TANDEM_NEXT_CONST("12Notification19WaitForNotificationEv");
  Call<void>(next, this);
  __tsan_acquire(const_cast<std::atomic<bool>*>(&notified_yet_));
}

bool Notification::WaitForNotificationWithTimeout(Duration timeout) const {
  TANDEM_NEXT_CONST("12Notification30WaitForNotificationWithTimeoutENS0_8DurationE");
  const bool notified = Call<bool>(next, this, timeout);
  if (notified) __tsan_acquire(const_cast<std::atomic<bool>*>(&notified_yet_));
  return notified;
}

bool Notification::WaitForNotificationWithDeadline(Time deadline) const {
  TANDEM_NEXT_CONST("12Notification31WaitForNotificationWithDeadlineENS0_4TimeE");
  const bool notified = Call<bool>(next, this, deadline);
  if (notified) __tsan_acquire(const_cast<std::atomic<bool>*>(&notified_yet_));
  return notified;
}

bool BlockingCounter::DecrementCount() {
  TANDEM_NEXT("15BlockingCounter14DecrementCountEv");
  __tsan_release(this);
  return Call<bool>(next, this);
}

void BlockingCounter::Wait() {
  TANDEM_NEXT("15BlockingCounter4WaitEv");
  Call<void>(next, this);
  __tsan_acquire(this);
}

ABSL_NAMESPACE_END
}  // namespace absl
