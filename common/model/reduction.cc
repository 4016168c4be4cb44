#include "common/model/reduction.h"

#include <limits>

#include "common/base/check.h"

namespace tandem {
namespace {

// Bits of the largest (or least) integer of the dtype.
uint64_t IntegerLimit(DType dtype, bool largest) {
  const uint64_t width = dtype == DType::kBool ? 1 : 8 * DTypeSize(dtype);
  const uint64_t ones = width == 64 ? ~uint64_t{0} : (uint64_t{1} << width) - 1;
  if (!IsSigned(dtype)) return largest ? ones : 0;
  return largest ? ones >> 1 : ones ^ (ones >> 1);
}

}  // namespace

std::string_view ReductionName(Reduction reduction) {
  switch (reduction) {
    case Reduction::kNone:
      return "none";
    case Reduction::kSum:
      return "sum";
    case Reduction::kMin:
      return "min";
    case Reduction::kMax:
      return "max";
    case Reduction::kMerge:
      return "merge";
  }
  return "none";
}

Scalar ReductionIdentity(Reduction reduction, DType dtype) {
  CHECK(DTypeSize(dtype) != 0);
  CHECK(reduction == Reduction::kSum || reduction == Reduction::kMin ||
        reduction == Reduction::kMax);
  if (reduction == Reduction::kSum) return Scalar::FromBits(dtype, 0);
  const bool largest = reduction == Reduction::kMin;
  if (!IsFloat(dtype)) return Scalar::FromBits(dtype, IntegerLimit(dtype, largest));
  const double infinity = std::numeric_limits<double>::infinity();
  return *Scalar::F64(largest ? infinity : -infinity).ConvertTo(dtype);
}

}  // namespace tandem
