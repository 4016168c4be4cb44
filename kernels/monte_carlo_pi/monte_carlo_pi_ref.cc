#include "kernels/monte_carlo_pi/monte_carlo_pi_ref.h"

namespace tandem::kernels {

std::array<uint32_t, 4> PhiloxReference(std::array<uint32_t, 4> counter,
                                        std::array<uint32_t, 2> key) {
  const auto high = [](uint32_t a, uint32_t b) {
    return static_cast<uint32_t>(uint64_t{a} * b >> 32);
  };
  for (int round = 0; round < 10; ++round) {
    if (round > 0) key = {key[0] + 0x9E3779B9, key[1] + 0xBB67AE85};
    counter = {high(0xCD9E8D57, counter[2]) ^ counter[1] ^ key[0], 0xCD9E8D57 * counter[2],
               high(0xD2511F53, counter[0]) ^ counter[3] ^ key[1], 0xD2511F53 * counter[0]};
  }
  return counter;
}

uint64_t MonteCarloPiReference(uint64_t seed, int64_t first, int64_t n) {
  uint64_t hits = 0;
  for (int64_t id = first; id < first + n; ++id) {
    const uint64_t block = static_cast<uint64_t>(id) / 4;
    const uint32_t word =
        PhiloxReference({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), 0, 0},
                        {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)})[id % 4];
    // Multiples of 2^-17, whose squares and their sum a double holds exactly.
    const double x = (word % 65536 + 0.5) / 65536, y = (word / 65536 + 0.5) / 65536;
    hits += x * x + y * y < 1 ? 1 : 0;
  }
  return hits;
}

}  // namespace tandem::kernels
