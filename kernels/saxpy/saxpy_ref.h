// The reference of saxpy.
//
// Thread-safety: pure functions.
#ifndef TANDEM_KERNELS_SAXPY_SAXPY_REF_H_
#define TANDEM_KERNELS_SAXPY_SAXPY_REF_H_

#include <span>
#include <vector>

namespace tandem::kernels {

// The correctly rounded product, then the correctly rounded sum.
std::vector<float> SaxpyReference(float scale, std::span<const float> x, std::span<const float> y);

}  // namespace tandem::kernels

#endif  // TANDEM_KERNELS_SAXPY_SAXPY_REF_H_
