// Philox4x32-10: a counter-based generator, so that a task's random numbers are a function of seed
// and task alone.
//
//   tandem::Philox4 r = tandem::Philox4x32(counter0, counter1, counter2, counter3, key0, key1);
//
// Source: Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3 (SC 2011),
// section 3.3 and table 2; a test holds the vectors of its Random123 library.
//
// Thread-safety: pure functions.
#ifndef TANDEM_PHILOX_H_
#define TANDEM_PHILOX_H_

#include "tandem/config.h"

namespace tandem {
inline namespace TANDEM_ISA_NAMESPACE {

struct Philox4 {
  uint32_t x, y, z, w;
};

TANDEM_FN Philox4 Philox4x32(uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3, uint32_t k0,
                             uint32_t k1) {
  TANDEM_UNROLL
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xd2511f53u} * c0, p1 = uint64_t{0xcd9e8d57u} * c2;
    const uint32_t n0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0,
                   n2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<uint32_t>(p1);
    c3 = static_cast<uint32_t>(p0);
    c0 = n0;
    c2 = n2;
    k0 += 0x9e3779b9u;
    k1 += 0xbb67ae85u;
  }
  return Philox4{c0, c1, c2, c3};
}

// The block of a 64-bit counter in a 64-bit stream, under a 64-bit seed.
TANDEM_FN Philox4 Philox(uint64_t seed, uint64_t stream, uint64_t counter) {
  return Philox4x32(static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32),
                    static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32),
                    static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32));
}

// A uniform number of (0, 1), the middle of one of 2^23 (2^52) equal intervals: never 0 or 1.
TANDEM_FN float Uniform(uint32_t bits) {
  return (static_cast<float>(static_cast<int32_t>(bits >> 9)) + 0.5f) * 0x1p-23f;
}
TANDEM_FN double UniformDouble(uint32_t high, uint32_t low) {
  const uint64_t bits = (uint64_t{high} << 32 | low) >> 12;
  return (static_cast<double>(static_cast<int64_t>(bits)) + 0.5) * 0x1p-52;
}

}  // namespace TANDEM_ISA_NAMESPACE
}  // namespace tandem

#endif  // TANDEM_PHILOX_H_
