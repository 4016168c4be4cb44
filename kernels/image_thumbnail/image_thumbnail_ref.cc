#include "kernels/image_thumbnail/image_thumbnail_ref.h"

#include <algorithm>
#include <cmath>

namespace tandem::kernels {

Thumbnail ThumbnailReference(const std::vector<uint8_t>& rgb, int width, int height, int side) {
  const double scale = std::min(1.0, static_cast<double>(side) / std::max(width, height));
  const auto scaled = [&](int length) {
    return std::max(1, static_cast<int>(std::floor(length * scale + 0.5)));
  };
  Thumbnail out{scaled(width), scaled(height), {}};
  // The box of source index i is the last one that begins at or before i.
  const auto box = [](int i, int from, int to) {
    int b = 0;
    while (b + 1 < to && std::floor(static_cast<double>(b + 1) * from / to) <= i) ++b;
    return b;
  };
  const size_t pixels = static_cast<size_t>(out.width) * static_cast<size_t>(out.height);
  std::vector<double> sum(pixels * 3), count(pixels);
  std::vector<int> column(static_cast<size_t>(width));
  for (int x = 0; x < width; ++x) column[static_cast<size_t>(x)] = box(x, width, out.width);
  for (int y = 0; y < height; ++y) {
    const int row = box(y, height, out.height);
    for (int x = 0; x < width; ++x) {
      const size_t to = static_cast<size_t>(row * out.width + column[static_cast<size_t>(x)]);
      count[to] += 1;
      for (size_t c = 0; c < 3; ++c)
        sum[to * 3 + c] +=
            rgb[(static_cast<size_t>(y) * static_cast<size_t>(width) + static_cast<size_t>(x)) * 3 +
                c];
    }
  }
  for (size_t i = 0; i < pixels * 3; ++i) {
    out.rgb.push_back(static_cast<uint8_t>(std::floor(sum[i] / count[i / 3] + 0.5)));
  }
  return out;
}

}  // namespace tandem::kernels
