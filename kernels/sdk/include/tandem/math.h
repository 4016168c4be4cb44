// Mathematics for bodies.
//
// Thread-safety: pure functions.
#ifndef TANDEM_MATH_H_
#define TANDEM_MATH_H_

#include "tandem/config.h"

namespace tandem {
inline namespace TANDEM_ISA_NAMESPACE {

TANDEM_FN float sqrt(float x) { return __builtin_sqrtf(x); }
TANDEM_FN double sqrt(double x) { return __builtin_sqrt(x); }

}  // namespace TANDEM_ISA_NAMESPACE
}  // namespace tandem

#endif  // TANDEM_MATH_H_
