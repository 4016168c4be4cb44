// Blind mutation: a fuzzer for builds without libFuzzer. It knows no coverage, but costs nothing
// and finds what lies near the known inputs.
//
//   Mutator mutator(known, seed);
//   for (;;) target.run(mutator.Next());
//
// Thread-safety: one thread. Deterministic: the same inputs and seed give the same sequence.
#ifndef TANDEM_TESTS_FUZZ_MUTATE_H_
#define TANDEM_TESTS_FUZZ_MUTATE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/rng.h"

namespace tandem::fuzz {

class Mutator {
 public:
  static constexpr size_t kBytesMax = 4096;

  // REQUIRES: `known` is not empty.
  Mutator(std::vector<std::string> known, uint64_t seed) : known_(std::move(known)), rng_(seed) {}
  const std::string& Next();

 private:
  size_t Below(size_t n) { return n == 0 ? 0 : static_cast<size_t>(rng_.Between(0, n - 1)); }
  void MutateOnce();

  const std::vector<std::string> known_;
  Rng rng_;
  std::string input_;
};

}  // namespace tandem::fuzz

#endif  // TANDEM_TESTS_FUZZ_MUTATE_H_
