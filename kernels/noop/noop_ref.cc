#include "kernels/noop/noop_ref.h"

namespace tandem::kernels {
namespace {

// The published generator, state and all.
class SplitMix64 {
 public:
  explicit SplitMix64(uint64_t state) : state_(state) {}

  uint64_t Next() {
    state_ += 0x9e3779b97f4a7c15;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

 private:
  uint64_t state_;
};

}  // namespace

std::vector<uint64_t> NoopReference(uint64_t seed, int64_t first, int64_t n) {
  SplitMix64 generator(seed);
  for (int64_t i = 0; i < first; ++i) generator.Next();
  std::vector<uint64_t> value;
  for (int64_t i = 0; i < n; ++i) value.push_back(generator.Next());
  return value;
}

}  // namespace tandem::kernels
