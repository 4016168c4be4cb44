#include "kernels/saxpy/saxpy_ref.h"

namespace tandem::kernels {

std::vector<float> SaxpyReference(float scale, std::span<const float> x, std::span<const float> y) {
  std::vector<float> z;
  for (size_t i = 0; i < x.size(); ++i) {
    // A double holds the product of two floats exactly; the cast rounds it once.
    float product = static_cast<float>(static_cast<double>(scale) * static_cast<double>(x[i]));
    // And twice the digits and two more make the double sum's second rounding harmless.
    z.push_back(static_cast<float>(static_cast<double>(product) + static_cast<double>(y[i])));
  }
  return z;
}

}  // namespace tandem::kernels
