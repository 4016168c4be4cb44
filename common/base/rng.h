// Seeded generators: SplitMix64 (one word of state, any index at once) and Rng (xoshiro256**).
//
// Entropy never comes from here: whoever wants it seeds from the system in a shell and passes the
// seed in, so that every run of a core can be repeated.
//
// Source: S. Vigna, https://prng.di.unimi.it (splitmix64.c, xoshiro256starstar.c), public domain.
// Thread-safety: an Rng belongs to one thread; the functions are pure.
#ifndef TANDEM_COMMON_BASE_RNG_H_
#define TANDEM_COMMON_BASE_RNG_H_

#include <cstdint>
#include <limits>

namespace tandem {

// The finalizer of SplitMix64: a bijection of 64-bit words that mixes well.
constexpr uint64_t Mix64(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// The `index`-th output (from 0) of splitmix64 seeded with `seed`, without those before it.
constexpr uint64_t SplitMix64At(uint64_t seed, uint64_t index) {
  return Mix64(seed + (index + 1) * 0x9e3779b97f4a7c15u);
}

// A UniformRandomBitGenerator: xoshiro256**, seeded through SplitMix64.
class Rng {
 public:
  using result_type = uint64_t;
  explicit constexpr Rng(uint64_t seed)
      : s_{SplitMix64At(seed, 0), SplitMix64At(seed, 1), SplitMix64At(seed, 2),
           SplitMix64At(seed, 3)} {}

  static constexpr uint64_t min() { return 0; }
  static constexpr uint64_t max() { return std::numeric_limits<uint64_t>::max(); }
  constexpr uint64_t operator()() { return Next(); }

  constexpr uint64_t Next() {
    const uint64_t result = Rotate(s_[1] * 5, 7) * 9;
    const uint64_t t = s_[1] << 17;
    s_[2] ^= s_[0];
    s_[3] ^= s_[1];
    s_[1] ^= s_[2];
    s_[0] ^= s_[3];
    s_[2] ^= t;
    s_[3] = Rotate(s_[3], 45);
    return result;
  }
  // Uniform in [0, bound), without bias. REQUIRES: bound > 0.
  constexpr uint64_t Below(uint64_t bound) {
    // Lemire, "Fast random integer generation in an interval" (2019).
    unsigned __int128 product = static_cast<unsigned __int128>(Next()) * bound;
    if (static_cast<uint64_t>(product) < bound) {
      const uint64_t threshold = (0 - bound) % bound;
      while (static_cast<uint64_t>(product) < threshold) {
        product = static_cast<unsigned __int128>(Next()) * bound;
      }
    }
    return static_cast<uint64_t>(product >> 64);
  }
  // Uniform in [lo, hi], both included. REQUIRES: lo <= hi.
  constexpr uint64_t Between(uint64_t lo, uint64_t hi) {
    return hi - lo == max() ? Next() : lo + Below(hi - lo + 1);
  }
  // Uniform in [0, 1), 53 bits.
  constexpr double NextDouble() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }
  // True with probability p.
  constexpr bool Chance(double p) { return NextDouble() < p; }

 private:
  static constexpr uint64_t Rotate(uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }
  uint64_t s_[4];
};

}  // namespace tandem

#endif  // TANDEM_COMMON_BASE_RNG_H_
