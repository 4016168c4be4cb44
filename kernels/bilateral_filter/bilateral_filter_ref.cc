#include "kernels/bilateral_filter/bilateral_filter_ref.h"

#include <algorithm>
#include <cmath>

namespace tandem::kernels {

std::vector<double> BilateralFilterReference(std::span<const float> image, int64_t h, int64_t w,
                                             const BilateralFilterScalars& scalars) {
  const auto at = [&](int64_t y, int64_t x) -> double {
    return image[std::clamp<int64_t>(y, 0, h - 1) * w + std::clamp<int64_t>(x, 0, w - 1)];
  };
  const auto bell = [](double d, double sigma) { return std::exp(-d * d / (2 * sigma * sigma)); };
  std::vector<double> smooth;
  for (int64_t y = 0; y < h; ++y) {
    for (int64_t x = 0; x < w; ++x) {
      double sum = 0, weight = 0;
      for (int64_t dy = -scalars.radius; dy <= scalars.radius; ++dy) {
        for (int64_t dx = -scalars.radius; dx <= scalars.radius; ++dx) {
          const double v = at(y + dy, x + dx);
          const double here = bell(std::hypot(dx, dy), scalars.sigma_space) *
                              bell(v - at(y, x), scalars.sigma_value);
          sum += here * v;
          weight += here;
        }
      }
      smooth.push_back(sum / weight);
    }
  }
  return smooth;
}

}  // namespace tandem::kernels
