// The reference of linear, in double precision.
//
// Thread-safety: pure functions.
#ifndef TANDEM_KERNELS_LINEAR_LINEAR_REF_H_
#define TANDEM_KERNELS_LINEAR_LINEAR_REF_H_

#include <cstdint>
#include <span>
#include <vector>

namespace tandem::kernels {

// y[n, m] of x[n, k], w[m, k], b[m].
std::vector<double> LinearReference(std::span<const float> x, std::span<const float> w,
                                    std::span<const float> b, int64_t k);

}  // namespace tandem::kernels

#endif  // TANDEM_KERNELS_LINEAR_LINEAR_REF_H_
