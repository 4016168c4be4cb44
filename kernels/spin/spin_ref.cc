#include "kernels/spin/spin_ref.h"

namespace tandem::kernels {
namespace {

__extension__ using uint128 = unsigned __int128;

uint64_t MultiplyAdd(uint64_t a, uint64_t b, uint64_t c) {
  return static_cast<uint64_t>((static_cast<uint128>(a) * b + c) & ~uint64_t{0});
}

}  // namespace

std::vector<uint64_t> SpinReference(uint64_t seed, int64_t first, std::span<const uint32_t> work) {
  std::vector<uint64_t> value;
  for (size_t i = 0; i < work.size(); ++i) {
    uint64_t state = MultiplyAdd(seed ^ (static_cast<uint64_t>(first) + i), 0x9e3779b97f4a7c15, 0);
    for (uint32_t step = 0; step < work[i]; ++step) {
      state = MultiplyAdd(state, 6364136223846793005, 1442695040888963407);
    }
    value.push_back(state);
  }
  return value;
}

}  // namespace tandem::kernels
