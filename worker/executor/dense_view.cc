#include "worker/executor/dense_view.h"

#include <algorithm>
#include <cstring>

#include "common/base/error.h"
#include "common/base/status_macros.h"

namespace tandem::worker {
namespace {

// Strided blocks of a file are read together while they and the gaps between them are this long.
constexpr uint64_t kSpanBytesMax = uint64_t{4} << 20;
// Bytes of packing or computing that are worth a second thread.
constexpr int64_t kPrepareBytes = 64 << 10;

absl::Status NoMemory() {
  return Error(absl::StatusCode::kResourceExhausted, reason::kOutOfMemory,
               "no memory for an operand's slice; choose a smaller grain");
}

}  // namespace

DenseView::~DenseView() { pool_->Give(std::move(packed_)); }

bool DenseView::TakeBuffer() {
  if (packed_.data() == nullptr) packed_ = pool_->Take(std::max<uint64_t>(slice_.bytes(), 1));
  data_ = packed_.data();
  return data_ != nullptr;
}

bool DenseView::Settle() {
  if (slice_.bytes() == 0) return TakeBuffer();
  if (source_->computed()) return prepares_ = TakeBuffer();
  if (!source_->Resident(slice_.offset, slice_.end() - slice_.offset)) return false;
  const char* mapped = source_->Mapped(slice_.offset);
  if (mapped == nullptr) return false;
  if (slice_.contiguous() && reinterpret_cast<uintptr_t>(mapped) % align_ == 0) {
    data_ = mapped;
    return true;
  }
  return prepares_ = TakeBuffer();
}

absl::Status DenseView::Wait() {
  RETURN_IF_ERROR(source_->Fetch(slice_.offset, slice_.end() - slice_.offset));
  if (Settle()) return absl::OkStatus();
  if (!TakeBuffer()) return NoMemory();
  return ReadBlocks();
}

absl::Status DenseView::ReadBlocks() {
  char* to = reinterpret_cast<char*>(packed_.data());
  if (slice_.contiguous()) return source_->Read(slice_.offset, slice_.bytes(), to);
  AlignedBuffer span;
  for (uint64_t block = 0; block < slice_.blocks;) {
    const uint64_t fit =
        1 + (kSpanBytesMax - std::min(kSpanBytesMax, slice_.block_bytes)) / slice_.stride_bytes;
    const uint64_t blocks = std::min(fit, slice_.blocks - block);
    const StridedSlice part = {0, slice_.block_bytes, slice_.stride_bytes, blocks};
    char* from = reinterpret_cast<char*>(span.Ensure(part.end()));
    if (from == nullptr) return NoMemory();
    RETURN_IF_ERROR(source_->Read(slice_.offset + block * slice_.stride_bytes, part.end(), from));
    GatherSlice(part, from, to);
    to += part.bytes();
    block += blocks;
  }
  return absl::OkStatus();
}

void DenseView::Prepare(HostCrew& crew) {
  if (source_->computed()) {
    Compute(crew);
  } else {
    Gather(crew);
  }
  prepares_ = false;
}

void DenseView::Gather(HostCrew& crew) {
  const char* whole = source_->Mapped(slice_.offset);
  char* packed = reinterpret_cast<char*>(packed_.data());
  if (slice_.blocks == 1) {
    std::memcpy(packed, whole, slice_.block_bytes);
    return;
  }
  const auto block = static_cast<int64_t>(slice_.block_bytes);
  const int64_t grain = std::max<int64_t>(1, kPrepareBytes / block);
  crew.ParallelFor(static_cast<int64_t>(slice_.blocks), grain, [&](int64_t begin, int64_t end) {
    const StridedSlice part = {static_cast<uint64_t>(begin) * slice_.stride_bytes,
                               slice_.block_bytes, slice_.stride_bytes,
                               static_cast<uint64_t>(end - begin)};
    GatherSlice(part, whole, packed + begin * block);
  });
}

void DenseView::Compute(HostCrew& crew) {
  char* packed = reinterpret_cast<char*>(packed_.data());
  const uint64_t per_block = slice_.block_bytes / align_;
  const auto elements = static_cast<int64_t>(per_block * slice_.blocks);
  const int64_t grain = kPrepareBytes / static_cast<int64_t>(align_);
  crew.ParallelFor(elements, grain, [&](int64_t first, int64_t last) {
    auto begin = static_cast<uint64_t>(first);
    const auto end = static_cast<uint64_t>(last);
    while (begin < end) {
      const uint64_t block = begin / per_block;
      const uint64_t count = std::min(end, (block + 1) * per_block) - begin;
      const uint64_t offset =
          slice_.offset + block * slice_.stride_bytes + (begin % per_block) * align_;
      // Computed sources never fail.
      (void)source_->Read(offset, count * align_, packed + begin * align_);
      begin += count;
    }
  });
}

}  // namespace tandem::worker
