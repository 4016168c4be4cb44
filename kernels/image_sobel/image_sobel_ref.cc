#include "kernels/image_sobel/image_sobel_ref.h"

#include <algorithm>
#include <cmath>

namespace tandem::kernels {

std::vector<uint8_t> SobelReference(const std::vector<uint8_t>& rgb, int width, int height) {
  const auto luma = [&](int x, int y) {
    const size_t at =
        3 * (static_cast<size_t>(std::clamp(y, 0, height - 1)) * static_cast<size_t>(width) +
             static_cast<size_t>(std::clamp(x, 0, width - 1)));
    return std::floor((77.0 * rgb[at] + 150.0 * rgb[at + 1] + 29.0 * rgb[at + 2]) / 256.0);
  };
  constexpr double kAcross[3][3] = {{-1, 0, 1}, {-2, 0, 2}, {-1, 0, 1}};
  std::vector<uint8_t> edges;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      double gx = 0, gy = 0;
      for (int j = 0; j < 3; ++j) {
        for (int i = 0; i < 3; ++i) {
          gx += kAcross[j][i] * luma(x + i - 1, y + j - 1);
          gy += kAcross[i][j] * luma(x + i - 1, y + j - 1);
        }
      }
      edges.push_back(static_cast<uint8_t>(std::min(255.0, std::floor(std::hypot(gx, gy) / 4))));
    }
  }
  return edges;
}

}  // namespace tandem::kernels
