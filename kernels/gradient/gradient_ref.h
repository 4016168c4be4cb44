// The reference of gradient, in double precision.
//
// Thread-safety: pure functions.
#ifndef TANDEM_KERNELS_GRADIENT_GRADIENT_REF_H_
#define TANDEM_KERNELS_GRADIENT_GRADIENT_REF_H_

#include <span>
#include <vector>

namespace tandem::kernels {

struct GradientSums {
  std::vector<double> grad;
  double loss;
};
// Rows whose label is neither 0 nor 1 do not count.
GradientSums GradientReference(std::span<const float> x, std::span<const float> label,
                               std::span<const float> w);

}  // namespace tandem::kernels

#endif  // TANDEM_KERNELS_GRADIENT_GRADIENT_REF_H_
