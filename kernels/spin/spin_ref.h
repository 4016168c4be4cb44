// The reference of spin: one step after the other, in 128-bit arithmetic reduced modulo 2^64.
//
// Thread-safety: pure functions.
#ifndef TANDEM_KERNELS_SPIN_SPIN_REF_H_
#define TANDEM_KERNELS_SPIN_SPIN_REF_H_

#include <cstdint>
#include <span>
#include <vector>

namespace tandem::kernels {

std::vector<uint64_t> SpinReference(uint64_t seed, int64_t first, std::span<const uint32_t> work);

}  // namespace tandem::kernels

#endif  // TANDEM_KERNELS_SPIN_SPIN_REF_H_
