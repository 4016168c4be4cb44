// Reduction: how the partials of an output that lacks the split axis become one.
//
// Thread-safety: pure functions.
#ifndef TANDEM_COMMON_MODEL_REDUCTION_H_
#define TANDEM_COMMON_MODEL_REDUCTION_H_

#include <cstdint>
#include <string_view>

#include "common/model/scalar.h"

namespace tandem {

// kMerge is the kernel's own merge of two outputs.
enum class Reduction : uint8_t { kNone = 0, kSum, kMin, kMax, kMerge };

// "none", "sum", "min", "max", "merge".
std::string_view ReductionName(Reduction reduction);

// What an elementwise reduction of nothing is: 0; +inf or the largest; -inf or the smallest value.
// REQUIRES: kSum, kMin or kMax; a dtype other than kBytes and kUnspecified.
Scalar ReductionIdentity(Reduction reduction, DType dtype);

}  // namespace tandem

#endif  // TANDEM_COMMON_MODEL_REDUCTION_H_
