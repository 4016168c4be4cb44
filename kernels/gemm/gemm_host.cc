#include "kernels/gemm/gemm_host.h"

#include <algorithm>

#include "cblas.h"

namespace tandem::kernels {

bool Multiply(const Product& p) {
  if (!p.Fits()) return false;
  if (p.rows == 0 || p.columns == 0) return true;
  // A worker has a thread a core already.
  static const bool one_thread = (openblas_set_num_threads(1), true);
  static_cast<void>(one_thread);
  // A stride of 0, which a matrix without columns has, is refused.
  const auto rows = static_cast<int>(p.rows), columns = static_cast<int>(p.columns),
             k = static_cast<int>(p.k);
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, rows, columns, k, 1, p.a, std::max(k, 1),
              p.b, static_cast<int>(p.pitch), 0, p.c, static_cast<int>(p.pitch));
  return true;
}

}  // namespace tandem::kernels
