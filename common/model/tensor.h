// TensorSpec, the dtype and shape of an operand or output, and StridedSlice, a part of its bytes.
//
// Elements are in row-major order without gaps. A ragged list is a TensorSpec of dtype kBytes with
// one dimension, the number of items; its bytes are elsewhere (locator.h).
// Thread-safety: value types.
#ifndef TANDEM_COMMON_MODEL_TENSOR_H_
#define TANDEM_COMMON_MODEL_TENSOR_H_

#include <cstdint>
#include <cstring>
#include <string>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/model/dtype.h"

namespace tandem {

using Shape = absl::InlinedVector<int64_t, 4>;

struct TensorSpec {
  DType dtype = DType::kUnspecified;
  Shape shape;

  bool ragged() const { return dtype == DType::kBytes; }
  // Product of the dimensions. Errors: INVALID_ARGUMENT TOO_LARGE beyond 2^63 - 1, or a negative
  // dimension.
  absl::StatusOr<uint64_t> Elements() const;
  // Elements × element size; for a ragged list an error. Errors: as Elements().
  absl::StatusOr<uint64_t> Bytes() const;
  // "f32[1000,4]"
  std::string ToString() const;
  friend bool operator==(const TensorSpec&, const TensorSpec&) = default;
};

// "[1000,4]"
std::string ShapeToString(absl::Span<const int64_t> shape);

// `blocks` runs of `block_bytes`, the first at `offset`, each `stride_bytes` after the one before.
// Invariant: blocks ≤ 1, or stride_bytes ≥ block_bytes.
struct StridedSlice {
  uint64_t offset = 0;
  uint64_t block_bytes = 0;
  uint64_t stride_bytes = 0;
  uint64_t blocks = 0;

  uint64_t bytes() const { return block_bytes * blocks; }
  bool contiguous() const { return blocks <= 1 || stride_bytes == block_bytes; }
  // One past the last byte touched; `offset` when empty.
  uint64_t end() const {
    return bytes() == 0 ? offset : offset + (blocks - 1) * stride_bytes + block_bytes;
  }
  friend bool operator==(const StridedSlice&, const StridedSlice&) = default;
};

// The part of a dense row-major tensor with begin ≤ index < end in dimension `dim`; blocks that
// touch are joined into one. REQUIRES: 0 ≤ begin ≤ end ≤ shape[dim], the tensor's bytes fit.
StridedSlice SliceOf(const TensorSpec& spec, size_t dim, uint64_t begin, uint64_t end);

// Copies a slice out of a whole tensor, packed.
inline void GatherSlice(const StridedSlice& slice, const void* whole, void* packed) {
  const char* from = static_cast<const char*>(whole) + slice.offset;
  char* to = static_cast<char*>(packed);
  for (uint64_t i = 0; i < slice.blocks; ++i) {
    if (slice.block_bytes != 0) std::memcpy(to, from, slice.block_bytes);
    from += slice.stride_bytes;
    to += slice.block_bytes;
  }
}

}  // namespace tandem

#endif  // TANDEM_COMMON_MODEL_TENSOR_H_
