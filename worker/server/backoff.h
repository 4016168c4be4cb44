// Backoff: how long to wait before the next attempt: exponential, with jitter.
//
//   Backoff backoff({}, seed);   deadline = now + backoff.Next();   backoff.Reset();
//
// Thread-safety: one thread.
#ifndef TANDEM_WORKER_SERVER_BACKOFF_H_
#define TANDEM_WORKER_SERVER_BACKOFF_H_

#include <algorithm>

#include "absl/time/time.h"
#include "common/base/rng.h"

namespace tandem::worker {

struct BackoffOptions {
  absl::Duration first = absl::Milliseconds(50);
  absl::Duration longest = absl::Seconds(2);
  double factor = 1.6;
};

class Backoff {
 public:
  Backoff(const BackoffOptions& options, uint64_t seed)
      : options_(options), rng_(seed), next_(options.first) {}

  // Between half of and one and a half times the present step, which then grows.
  absl::Duration Next() {
    const absl::Duration wait = next_ * (0.5 + rng_.NextDouble());
    next_ = std::min(next_ * options_.factor, options_.longest);
    return wait;
  }
  void Reset() { next_ = options_.first; }

 private:
  const BackoffOptions options_;
  Rng rng_;
  absl::Duration next_;
};

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_SERVER_BACKOFF_H_
