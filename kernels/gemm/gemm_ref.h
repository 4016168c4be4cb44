// The reference of gemm, in double precision.
//
// Thread-safety: pure functions.
#ifndef TANDEM_KERNELS_GEMM_GEMM_REF_H_
#define TANDEM_KERNELS_GEMM_GEMM_REF_H_

#include <cstdint>
#include <span>
#include <vector>

namespace tandem::kernels {

// c[m, n] of a[m, k] and b[k, n].
std::vector<double> GemmReference(std::span<const float> a, std::span<const float> b, int64_t m,
                                  int64_t n, int64_t k);

}  // namespace tandem::kernels

#endif  // TANDEM_KERNELS_GEMM_GEMM_REF_H_
