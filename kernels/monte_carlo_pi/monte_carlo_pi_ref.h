// The reference of monte_carlo_pi: a scalar Philox of its own and the disc in real coordinates.
//
// Thread-safety: pure functions.
#ifndef TANDEM_KERNELS_MONTE_CARLO_PI_MONTE_CARLO_PI_REF_H_
#define TANDEM_KERNELS_MONTE_CARLO_PI_MONTE_CARLO_PI_REF_H_

#include <array>
#include <cstdint>

namespace tandem::kernels {

// Random123's philox4x32 with 10 rounds: counter and key to block.
std::array<uint32_t, 4> PhiloxReference(std::array<uint32_t, 4> counter,
                                        std::array<uint32_t, 2> key);

// Hits among tasks first … first + n - 1.
uint64_t MonteCarloPiReference(uint64_t seed, int64_t first, int64_t n);

}  // namespace tandem::kernels

#endif  // TANDEM_KERNELS_MONTE_CARLO_PI_MONTE_CARLO_PI_REF_H_
