#include "common/data/chunk_buffers.h"

namespace tandem {

ChunkBuffers::Buffer ChunkBuffers::Take() {
  {
    absl::MutexLock lock(&pool_->mu);
    if (!pool_->free.empty()) {
      Buffer buffer(pool_, std::move(pool_->free.back()));
      pool_->free.pop_back();
      return buffer;
    }
  }
  return Buffer(pool_, std::unique_ptr<char[]>(new char[pool_->bytes]));
}

grpc::Slice ChunkBuffers::Buffer::ToSlice(size_t size) && {
  char* const data = bytes_.get();
  return grpc::Slice(data, size, &Buffer::Return, new Buffer(std::move(*this)));
}

void ChunkBuffers::Buffer::Return(void* pointer) {
  const std::unique_ptr<Buffer> buffer(static_cast<Buffer*>(pointer));
  absl::MutexLock lock(&buffer->pool_->mu);
  if (buffer->pool_->free.size() < kFreeMax) {
    buffer->pool_->free.push_back(std::move(buffer->bytes_));
  }
}

}  // namespace tandem
