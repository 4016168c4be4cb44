// Sums and dot products of float rows inside one task, in 32 fixed lanes and a fixed tree: the same
// bytes on every instruction set, and vector code although sums may not be reordered.
//
//   float z = tandem::Dot(a.x(t, a.d).data(), a.w.data(), a.d);
//
// Thread-safety: pure functions.
#ifndef TANDEM_DOT_H_
#define TANDEM_DOT_H_

#include "tandem/config.h"
#include "tandem/reduce.h"

namespace tandem {
inline namespace TANDEM_ISA_NAMESPACE {

// lane[0] + lane[16], … down to one sum.
template <class T>
TANDEM_FN T FoldLanes(T* lane) {
  for (int w = kLanes / 2; w > 0; w /= 2) {
    for (int l = 0; l < w; ++l) lane[l] += lane[l + w];
  }
  return lane[0];
}

// The sum of term(0) … term(n - 1); term j goes to lane j mod 32.
template <class T, class F>
TANDEM_FN T SumInLanes(int64_t n, F term) {
  T lane[kLanes] = {};
  int64_t j = 0;
  for (; j + kLanes <= n; j += kLanes) {
    for (int l = 0; l < kLanes; ++l) lane[l] += term(j + l);
  }
  for (int l = 0; j + l < n; ++l) lane[l] += term(j + l);
  return FoldLanes(lane);
}

template <class T>
TANDEM_FN T Dot(const T* x, const T* y, int64_t n) {
  return SumInLanes<T>(n, [=](int64_t j) { return x[j] * y[j]; });
}

}  // namespace TANDEM_ISA_NAMESPACE
}  // namespace tandem

#endif  // TANDEM_DOT_H_
