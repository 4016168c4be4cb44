// Wall times as a store keeps them: nanoseconds since 1970, the ends of the range for "never".
//
// Thread-safety: pure functions.
#ifndef TANDEM_MASTER_STORE_WALL_TIME_H_
#define TANDEM_MASTER_STORE_WALL_TIME_H_

#include <cstdint>

#include "absl/time/time.h"

namespace tandem::master {

inline uint64_t ToStoredTime(absl::Time time) {
  return static_cast<uint64_t>(absl::ToUnixNanos(time));
}

inline absl::Time FromStoredTime(uint64_t stored) {
  const auto nanos = static_cast<int64_t>(stored);
  if (nanos == INT64_MAX) return absl::InfiniteFuture();
  if (nanos == INT64_MIN) return absl::InfinitePast();
  return absl::FromUnixNanos(nanos);
}

}  // namespace tandem::master

#endif  // TANDEM_MASTER_STORE_WALL_TIME_H_
