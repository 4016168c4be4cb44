// SegmentExtent: how far a segment is meant, when it is to be durable.
//
// Thread-safety: plain data.
#ifndef TANDEM_COMMON_MODEL_SEGMENT_EXTENT_H_
#define TANDEM_COMMON_MODEL_SEGMENT_EXTENT_H_

#include <cstdint>

#include "common/model/ids.h"

namespace tandem {

// The bytes of a segment before `end`.
struct SegmentExtent {
  SegmentId segment;
  uint64_t end = 0;
  friend bool operator==(const SegmentExtent&, const SegmentExtent&) = default;
};

}  // namespace tandem

#endif  // TANDEM_COMMON_MODEL_SEGMENT_EXTENT_H_
