#include "kernels/linear/linear_ref.h"

namespace tandem::kernels {

std::vector<double> LinearReference(std::span<const float> x, std::span<const float> w,
                                    std::span<const float> b, int64_t k) {
  const int64_t m = std::ssize(b), n = k > 0 ? std::ssize(x) / k : 0;
  std::vector<double> y;
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t o = 0; o < m; ++o) {
      double sum = b[o];
      for (int64_t j = 0; j < k; ++j) sum += static_cast<double>(x[i * k + j]) * w[o * k + j];
      y.push_back(sum);
    }
  }
  return y;
}

}  // namespace tandem::kernels
