// A product of matrices on one core, by OpenBLAS, which picks its instruction set at run time.
//
// Thread-safety: safe.
#ifndef TANDEM_KERNELS_GEMM_GEMM_HOST_H_
#define TANDEM_KERNELS_GEMM_GEMM_HOST_H_

namespace tandem::kernels {

// c[rows, columns] = a[rows, k] b[k, columns]. Rows of a lie k apart, those of b and c `pitch`.
struct Product {
  const float *a, *b;
  float* c;
  long rows, columns, k, pitch;

  // Libraries of linear algebra count in 32 bits.
  constexpr bool Fits() const {
    constexpr long kMax = 0x7fffffff;
    return rows <= kMax && columns <= kMax && k <= kMax && pitch <= kMax;
  }
};

// False, and nothing done, if it does not fit.
bool Multiply(const Product& product);

}  // namespace tandem::kernels

#endif  // TANDEM_KERNELS_GEMM_GEMM_HOST_H_
