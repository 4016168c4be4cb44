#include "kernels/mandelbrot/mandelbrot_ref.h"

namespace tandem::kernels {

int32_t MandelbrotReference(std::complex<long double> c, int32_t limit) {
  std::complex<long double> z = 0;
  for (int32_t steps = 0; steps < limit; ++steps) {
    z = z * z + c;
    if (std::abs(z) > 2) return steps;
  }
  return limit;
}

}  // namespace tandem::kernels
