#include "worker/device/buffers.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace tandem::worker {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kAlign = 64;
// A pooled buffer may serve a request down to a quarter of its size.
constexpr size_t kWasteMax = 4;

// Sizes grow in steps so that requests that differ little share buffers.
size_t RoundUp(size_t bytes) {
  const size_t step = bytes >= kHugePage ? kHugePage : kAlign;
  return (bytes + step - 1) / step * step;
}

}  // namespace

AlignedBuffer::~AlignedBuffer() { std::free(data_); }

AlignedBuffer::AlignedBuffer(AlignedBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), capacity_(std::exchange(other.capacity_, 0)) {}

AlignedBuffer& AlignedBuffer::operator=(AlignedBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(capacity_, other.capacity_);
  return *this;
}

uint8_t* AlignedBuffer::Ensure(size_t bytes) {
  if (bytes <= capacity_) return data_;
  if (bytes > SIZE_MAX / 2) return nullptr;
  const size_t capacity = RoundUp(std::max(bytes, capacity_ + capacity_ / 2));
  void* fresh = std::aligned_alloc(capacity >= kHugePage ? kHugePage : kAlign, capacity);
  if (fresh == nullptr) return nullptr;
  // A hint: without huge pages everything works as well, only slower.
  if (capacity >= kHugePage) (void)madvise(fresh, capacity, MADV_HUGEPAGE);
  std::free(data_);
  data_ = static_cast<uint8_t*>(fresh);
  capacity_ = capacity;
  return data_;
}

AlignedBuffer BufferPool::Take(size_t bytes) {
  AlignedBuffer buffer;
  {
    absl::MutexLock lock(&mu_);
    const auto it = idle_.lower_bound(bytes);
    if (it != idle_.end() && it->first / kWasteMax <= std::max(bytes, kAlign)) {
      buffer = std::move(it->second);
      idle_bytes_ -= it->first;
      idle_.erase(it);
    }
  }
  buffer.Ensure(std::max(bytes, size_t{1}));
  return buffer;
}

void BufferPool::Give(AlignedBuffer buffer) {
  std::vector<AlignedBuffer> surplus;  // Freed after the lock.
  absl::MutexLock lock(&mu_);
  const size_t bytes = buffer.capacity();
  if (bytes == 0) return;
  idle_.emplace(bytes, std::move(buffer));
  idle_bytes_ += bytes;
  while (idle_bytes_ > idle_bytes_max_) {
    const auto last = std::prev(idle_.end());
    idle_bytes_ -= last->first;
    surplus.push_back(std::move(last->second));
    idle_.erase(last);
  }
}

}  // namespace tandem::worker
