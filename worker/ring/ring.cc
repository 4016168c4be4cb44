#include "worker/ring/ring.h"

#include <algorithm>
#include <cstring>

#include "common/base/error.h"
#include "common/base/reason.h"
#include "common/base/strings.h"

namespace tandem::worker {
namespace {

absl::Status Impossible(std::string_view whose, uint64_t position, uint64_t own) {
  return Error(absl::StatusCode::kDataLoss, reason::kProtocolError,
               StrCat("the shared ring is corrupt: the ", whose, "'s position ", position,
                      " is impossible beside ", own, "; the other process must be restarted"));
}

// Takes a flag that the other side raised; true when it was up. The fence orders the position just
// published before the look at the flag; its counterpart is in PrepareTo….
bool TakeFlag(std::atomic<uint32_t>* flag) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return flag->load(std::memory_order_relaxed) != 0 &&
         flag->exchange(0, std::memory_order_relaxed) != 0;
}

void RaiseFlag(std::atomic<uint32_t>* flag) {
  flag->store(1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

}  // namespace

absl::StatusOr<size_t> RingWriter::Free() {
  head_seen_ = control_->head.load(std::memory_order_acquire);
  if (written_ - head_seen_ > capacity_) return Impossible("reader", head_seen_, written_);
  return capacity_ - static_cast<size_t>(written_ - head_seen_);
}

char* RingWriter::Contiguous(size_t size) {
  const size_t at = static_cast<size_t>(written_) & (capacity_ - 1);
  return at + size <= capacity_ ? data_ + at : nullptr;
}

void RingWriter::Append(const char* bytes, size_t size) {
  const size_t at = static_cast<size_t>(written_) & (capacity_ - 1);
  const size_t first = std::min(size, capacity_ - at);
  std::memcpy(data_ + at, bytes, first);
  std::memcpy(data_, bytes + first, size - first);
  written_ += size;
}

void RingWriter::Publish() { control_->tail.store(written_, std::memory_order_release); }

bool RingWriter::TakeSleeper() { return TakeFlag(&control_->reader_sleeps); }

absl::StatusOr<bool> RingWriter::PrepareToWait() {
  RaiseFlag(&control_->writer_waits);
  const auto free = Free();
  if (!free.ok()) return free.status();
  if (*free == 0) return true;
  control_->writer_waits.store(0, std::memory_order_relaxed);
  return false;
}

absl::StatusOr<size_t> RingReader::Available() {
  tail_seen_ = control_->tail.load(std::memory_order_acquire);
  if (tail_seen_ - read_ > capacity_) return Impossible("writer", tail_seen_, read_);
  return static_cast<size_t>(tail_seen_ - read_);
}

const char* RingReader::Contiguous(size_t size) const {
  const size_t at = static_cast<size_t>(read_) & (capacity_ - 1);
  return at + size <= capacity_ ? data_ + at : nullptr;
}

void RingReader::Copy(size_t offset, size_t size, char* to) const {
  const size_t at = static_cast<size_t>(read_ + offset) & (capacity_ - 1);
  const size_t first = std::min(size, capacity_ - at);
  std::memcpy(to, data_ + at, first);
  std::memcpy(to + first, data_, size - first);
}

void RingReader::Consume(size_t size) {
  read_ += size;
  control_->head.store(read_, std::memory_order_release);
}

bool RingReader::TakeWaiter() { return TakeFlag(&control_->writer_waits); }

absl::StatusOr<bool> RingReader::PrepareToSleep(size_t needed) {
  RaiseFlag(&control_->reader_sleeps);
  const auto available = Available();
  if (!available.ok()) return available.status();
  if (*available < needed) return true;
  Awake();
  return false;
}

}  // namespace tandem::worker
