#include "kernels/gemm/gemm_ref.h"

namespace tandem::kernels {

std::vector<double> GemmReference(std::span<const float> a, std::span<const float> b, int64_t m,
                                  int64_t n, int64_t k) {
  std::vector<double> c(m * n);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t l = 0; l < k; ++l) c[i * n + j] += double{a[i * k + l]} * b[l * n + j];
    }
  }
  return c;
}

}  // namespace tandem::kernels
