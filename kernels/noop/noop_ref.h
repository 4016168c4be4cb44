// The reference of noop: SplitMix64 stepped from its start, one output after the other.
//
// Thread-safety: pure functions.
#ifndef TANDEM_KERNELS_NOOP_NOOP_REF_H_
#define TANDEM_KERNELS_NOOP_NOOP_REF_H_

#include <cstdint>
#include <vector>

namespace tandem::kernels {

// value[0, n) for tasks first … first + n - 1.
std::vector<uint64_t> NoopReference(uint64_t seed, int64_t first, int64_t n);

}  // namespace tandem::kernels

#endif  // TANDEM_KERNELS_NOOP_NOOP_REF_H_
