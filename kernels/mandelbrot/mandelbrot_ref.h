// The reference of mandelbrot, by complex numbers.
//
// Thread-safety: pure functions.
#ifndef TANDEM_KERNELS_MANDELBROT_MANDELBROT_REF_H_
#define TANDEM_KERNELS_MANDELBROT_MANDELBROT_REF_H_

#include <complex>
#include <cstdint>

namespace tandem::kernels {

// Steps that stay within the circle of radius 2, at most `limit`.
int32_t MandelbrotReference(std::complex<long double> c, int32_t limit);

}  // namespace tandem::kernels

#endif  // TANDEM_KERNELS_MANDELBROT_MANDELBROT_REF_H_
