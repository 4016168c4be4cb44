// World: what all parts of one simulated run share: virtual time, the seeded dice, the trace, and
// the place where a broken promise is reported.
//
// Thread-safety: none; one thread runs a world.
#ifndef TANDEM_TESTS_SIM_WORLD_H_
#define TANDEM_TESTS_SIM_WORLD_H_

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include "common/base/rng.h"
#include "common/base/strings.h"
#include "tests/sim/event_queue.h"

namespace tandem::sim {

// How bad the world is.
struct Weather {
  absl::Duration delay_max = absl::Milliseconds(2);  // Of a message.
  absl::Duration sync_max = absl::Milliseconds(3);   // Of a commit to the disk.
  double stall = 0;                                  // Chance that a sync takes two seconds.
  double executor_crash = 0;                         // Chance a piece, besides poison tasks.
  double start_failure = 0;                          // Chance that an executor never gets ready.
};

class World {
 public:
  World(uint64_t seed, bool print) : rng(seed), print_(print) {}

  EventQueue queue;
  Rng rng;
  Weather weather;
  uint32_t devices = 0;  // Of each worker, besides its CPU.

  MonoTime now() const { return queue.now(); }
  absl::Duration Random(absl::Duration least, absl::Duration most) {
    return least + (most - least) * rng.NextDouble();
  }

  // A line of the run's trace. Two runs of one seed must have the same.
  template <class... Parts>
  void Trace(const Parts&... parts) {
    const std::string line = StrCat(parts...);
    for (const char c : line) hash_ = Mix64(hash_ ^ static_cast<uint8_t>(c));
    hash_ = Mix64(hash_ + static_cast<uint64_t>(now().nanos()));
    if (print_) {
      std::printf("%10.6f %s\n", static_cast<double>(now().nanos()) * 1e-9, line.c_str());
    }
  }
  uint64_t hash() const { return hash_; }

  // A promise is broken; the first one counts.
  void Broken(std::string_view what) {
    if (broken_.empty()) broken_ = what;
    Trace("BROKEN: ", what);
  }
  void Expect(bool holds, std::string_view what) {
    if (!holds) Broken(what);
  }
  const std::string& broken() const { return broken_; }

 private:
  bool print_;
  uint64_t hash_ = 0;
  std::string broken_;
};

}  // namespace tandem::sim

#endif  // TANDEM_TESTS_SIM_WORLD_H_
