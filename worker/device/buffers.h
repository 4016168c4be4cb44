// Memory that is kept: aligned blocks that grow and are used again, so that large buffers are
// neither allocated nor faulted in once a piece.
//
// Blocks from 2 MiB on are aligned to huge pages and ask for them: a partial of tens of megabytes
// that is hit at random costs most in the translation of addresses.
//
// Thread-safety: an AlignedBuffer belongs to one thread at a time; a BufferPool to any.
#ifndef TANDEM_WORKER_DEVICE_BUFFERS_H_
#define TANDEM_WORKER_DEVICE_BUFFERS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace tandem::worker {

class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  ~AlignedBuffer();
  AlignedBuffer(AlignedBuffer&& other) noexcept;
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept;

  // At least `bytes`, aligned to 64; the content is unspecified. Null when there is no memory (or
  // for 0 bytes on a fresh buffer); what was there stays then.
  uint8_t* Ensure(size_t bytes);
  uint8_t* data() const { return data_; }
  size_t capacity() const { return capacity_; }

 private:
  uint8_t* data_ = nullptr;
  size_t capacity_ = 0;
};

// Buffers given back, by capacity. What is kept idle is bounded; the largest go first.
class BufferPool {
 public:
  explicit BufferPool(size_t idle_bytes_max) : idle_bytes_max_(idle_bytes_max) {}

  // A buffer with room for `bytes`; data() is null when there is no memory.
  AlignedBuffer Take(size_t bytes);
  void Give(AlignedBuffer buffer);

 private:
  const size_t idle_bytes_max_;
  absl::Mutex mu_;
  std::multimap<size_t, AlignedBuffer> idle_ ABSL_GUARDED_BY(mu_);
  size_t idle_bytes_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_DEVICE_BUFFERS_H_
