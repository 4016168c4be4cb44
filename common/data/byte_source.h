// ByteSource: bytes in order, for a stream to send: a blob, a region, an output put together.
//
// Thread-safety: one thread at a time; it need not be always the same.
#ifndef TANDEM_COMMON_DATA_BYTE_SOURCE_H_
#define TANDEM_COMMON_DATA_BYTE_SOURCE_H_

#include <cstddef>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace tandem {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Fills the buffer and returns how much; less than its size only at the end, 0 behind it.
  virtual absl::StatusOr<size_t> Read(absl::Span<char> buffer) = 0;
};

// Opens a source on the thread that will read it.
using ByteSourceOpener = std::function<absl::StatusOr<std::unique_ptr<ByteSource>>()>;

}  // namespace tandem

#endif  // TANDEM_COMMON_DATA_BYTE_SOURCE_H_
