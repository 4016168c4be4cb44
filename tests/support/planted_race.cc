// A true race beside an absl::Mutex: the `tsan` preset's tests expect ThreadSanitizer to report it,
// so that neither the suppressions nor tsan_absl.cc can silence everything unnoticed.
#include <cstdio>
#include <thread>

#include "absl/synchronization/mutex.h"

int main() {
  absl::Mutex mu;
  int guarded = 0, unguarded = 0;
  auto work = [&] {
    for (int i = 0; i < 1000; ++i) {
      ++unguarded;
      absl::MutexLock lock(&mu);
      ++guarded;
    }
  };
  std::thread other(work);
  work();
  other.join();
  std::printf("%d %d\n", guarded, unguarded);
  return 0;
}
