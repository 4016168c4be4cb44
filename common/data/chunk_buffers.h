// ChunkBuffers: buffers of one chunk each, used again, so that streaming a gigabyte faults a few
// pages and not a quarter of a million.
//
// Thread-safety: safe from any thread. Ownership: a slice gives its buffer back by itself, also
// after the ChunkBuffers is gone.
#ifndef TANDEM_COMMON_DATA_CHUNK_BUFFERS_H_
#define TANDEM_COMMON_DATA_CHUNK_BUFFERS_H_

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "grpcpp/support/slice.h"

namespace tandem {

class ChunkBuffers {
 private:
  struct Pool {
    explicit Pool(size_t bytes) : bytes(bytes) {}
    const size_t bytes;
    absl::Mutex mu;
    std::vector<std::unique_ptr<char[]>> free ABSL_GUARDED_BY(mu);
  };

 public:
  // The most buffers that wait to be used again.
  static constexpr size_t kFreeMax = 64;

  class Buffer {
   public:
    char* data() const { return bytes_.get(); }
    // Its first `size` bytes as a slice, which keeps the buffer.
    grpc::Slice ToSlice(size_t size) &&;

   private:
    friend class ChunkBuffers;
    Buffer(std::shared_ptr<Pool> pool, std::unique_ptr<char[]> bytes)
        : pool_(std::move(pool)), bytes_(std::move(bytes)) {}
    static void Return(void* buffer);

    std::shared_ptr<Pool> pool_;
    std::unique_ptr<char[]> bytes_;
  };

  // Buffers of `bytes` bytes.
  explicit ChunkBuffers(size_t bytes) : pool_(std::make_shared<Pool>(bytes)) {}
  size_t bytes() const { return pool_->bytes; }
  Buffer Take();

 private:
  std::shared_ptr<Pool> pool_;
};

}  // namespace tandem

#endif  // TANDEM_COMMON_DATA_CHUNK_BUFFERS_H_
