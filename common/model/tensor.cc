#include "common/model/tensor.h"

#include "common/base/check.h"
#include "common/base/checked_math.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace tandem {
namespace {

absl::Status TooLarge(const TensorSpec& spec) {
  return InvalidError(reason::kTooLarge,
                      StrCat("a tensor ", spec.ToString(),
                             " has more elements or bytes than 2^63 - 1: give smaller extents"));
}

}  // namespace

absl::StatusOr<uint64_t> TensorSpec::Elements() const {
  int64_t elements = 1;
  bool fits = true;
  bool zero = false;
  for (const int64_t extent : shape) {
    if (extent < 0) {
      return InvalidError(reason::kShapeMismatch,
                          StrCat("a tensor ", ToString(), " has a negative extent"));
    }
    zero |= extent == 0;
    fits = fits && CheckedMul(elements, extent, &elements);
  }
  if (zero) return 0;
  if (!fits) return TooLarge(*this);
  return static_cast<uint64_t>(elements);
}

absl::StatusOr<uint64_t> TensorSpec::Bytes() const {
  if (DTypeSize(dtype) == 0) {
    return InvalidError(reason::kDtypeMismatch,
                        StrCat("the elements of ", ToString(), " have no fixed size"));
  }
  ASSIGN_OR_RETURN(const uint64_t elements, Elements());
  int64_t bytes = 0;
  if (!CheckedMul(static_cast<int64_t>(elements), static_cast<int64_t>(DTypeSize(dtype)), &bytes)) {
    return TooLarge(*this);
  }
  return static_cast<uint64_t>(bytes);
}

std::string TensorSpec::ToString() const { return StrCat(DTypeName(dtype), ShapeToString(shape)); }

std::string ShapeToString(absl::Span<const int64_t> shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) StrAppend(&text, i == 0 ? "" : ",", shape[i]);
  return text + "]";
}

StridedSlice SliceOf(const TensorSpec& spec, size_t dim, uint64_t begin, uint64_t end) {
  DCHECK(dim < spec.shape.size() && begin <= end);
  DCHECK_LE(end, static_cast<uint64_t>(spec.shape[dim]));
  uint64_t outer = 1;
  uint64_t inner = DTypeSize(spec.dtype);
  for (size_t i = 0; i < dim; ++i) outer *= static_cast<uint64_t>(spec.shape[i]);
  for (size_t i = dim + 1; i < spec.shape.size(); ++i) {
    inner *= static_cast<uint64_t>(spec.shape[i]);
  }
  const uint64_t stride = static_cast<uint64_t>(spec.shape[dim]) * inner;
  StridedSlice slice{begin * inner, (end - begin) * inner, stride, outer};
  if (slice.bytes() == 0) return {slice.offset, 0, 0, 0};
  if (slice.contiguous()) {
    slice = {slice.offset, slice.bytes(), slice.bytes(), 1};
  }
  return slice;
}

}  // namespace tandem
