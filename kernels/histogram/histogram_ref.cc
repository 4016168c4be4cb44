#include "kernels/histogram/histogram_ref.h"

#include <algorithm>

namespace tandem::kernels {

std::vector<uint64_t> HistogramReference(std::span<const uint8_t> value) {
  std::vector<uint8_t> sorted(value.begin(), value.end());
  std::ranges::sort(sorted);
  std::vector<uint64_t> count;
  for (int v = 0; v < 256; ++v) {
    const auto [first, last] =
        std::equal_range(sorted.begin(), sorted.end(), static_cast<uint8_t>(v));
    count.push_back(static_cast<uint64_t>(last - first));
  }
  return count;
}

}  // namespace tandem::kernels
