// The reference of bilateral_filter, in double precision.
//
// Thread-safety: pure functions.
#ifndef TANDEM_KERNELS_BILATERAL_FILTER_BILATERAL_FILTER_REF_H_
#define TANDEM_KERNELS_BILATERAL_FILTER_BILATERAL_FILTER_REF_H_

#include <cstdint>
#include <span>
#include <vector>

namespace tandem::kernels {

struct BilateralFilterScalars {
  int32_t radius = 3;
  double sigma_space = 2, sigma_value = 0.1;
};

// One image of h rows of w pixels; the result has its shape.
std::vector<double> BilateralFilterReference(std::span<const float> image, int64_t h, int64_t w,
                                             const BilateralFilterScalars& scalars);

}  // namespace tandem::kernels

#endif  // TANDEM_KERNELS_BILATERAL_FILTER_BILATERAL_FILTER_REF_H_
