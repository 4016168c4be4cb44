#include "tests/fuzz/fuzz_target.h"

namespace tandem::fuzz {

std::vector<Target>& Targets() {
  static auto* const targets = new std::vector<Target>();
  return *targets;
}

}  // namespace tandem::fuzz
