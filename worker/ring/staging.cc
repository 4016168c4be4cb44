#include "worker/ring/staging.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>

#include "common/base/check.h"
#include "common/base/error.h"
#include "common/base/reason.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace tandem::worker {
namespace {

constexpr uint64_t kAlign = 64;
constexpr uint64_t kGrowBytesMin = uint64_t{4} << 20;

constexpr uint64_t RoundUp(uint64_t length, uint64_t to) { return (length + to - 1) / to * to; }

absl::Status NoBlock(uint64_t offset) {
  return Error(absl::StatusCode::kNotFound, reason::kProtocolError,
               StrCat("no staging block begins at ", offset));
}

}  // namespace

absl::StatusOr<std::unique_ptr<StagingFile>> StagingFile::Create(uint64_t bytes_max) {
  UniqueFd fd(::memfd_create("tandem-staging", MFD_CLOEXEC));
  if (!fd.ok()) return absl::ErrnoToStatus(errno, "cannot make a staging file");
  return Open(std::move(fd), bytes_max);
}

absl::StatusOr<std::unique_ptr<StagingFile>> StagingFile::Open(UniqueFd fd, uint64_t bytes_max) {
  ASSIGN_OR_RETURN(Mapping mapping, Mapping::Make(fd.get(), bytes_max, true, "the staging file"));
  return std::unique_ptr<StagingFile>(new StagingFile(std::move(fd), std::move(mapping)));
}

absl::StatusOr<uint64_t> StagingFile::FileBytes() const {
  struct stat info = {};
  if (::fstat(fd_.get(), &info) != 0) return absl::ErrnoToStatus(errno, "staging file");
  return static_cast<uint64_t>(info.st_size);
}

absl::Status StagingFile::Grow(uint64_t bytes) {
  if (bytes > bytes_max()) {
    return Error(absl::StatusCode::kResourceExhausted, reason::kLimitExceeded,
                 StrCat("outputs that wait to be stored fill the staging file: ", HumanSize(bytes),
                        " are over its limit of ", HumanSize(bytes_max())));
  }
  ASSIGN_OR_RETURN(const uint64_t now, FileBytes());
  if (now < bytes && ::ftruncate(fd_.get(), static_cast<off_t>(bytes)) != 0) {
    return absl::ErrnoToStatus(errno, "cannot grow the staging file");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string_view> StagingFile::Read(uint64_t offset, uint64_t length) const {
  const uint64_t end = offset + length;
  if (end >= offset && end > known_bytes_.load(std::memory_order_relaxed)) {
    ASSIGN_OR_RETURN(const uint64_t bytes, FileBytes());
    known_bytes_.store(std::min(bytes, bytes_max()), std::memory_order_relaxed);
  }
  if (end < offset || end > known_bytes_.load(std::memory_order_relaxed)) {
    return Error(absl::StatusCode::kOutOfRange, reason::kProtocolError,
                 StrCat("bytes [", offset, ",+", length, ") are not in the staging file"));
  }
  return std::string_view(data() + offset, length);
}

absl::StatusOr<StagingBlock> StagingAllocator::Allocate(uint64_t length) {
  CHECK_GT(length, 0u);
  const uint64_t rounded = RoundUp(length, kAlign);
  absl::MutexLock lock(&mu_);
  auto found = by_length_.lower_bound({rounded, 0});
  if (found == by_length_.end()) {
    RETURN_IF_ERROR(GrowFor(rounded));
    found = by_length_.lower_bound({rounded, 0});
  }
  const auto [hole, offset] = *found;
  RemoveHole(offset, hole);
  if (hole > rounded) AddHole(offset + rounded, hole - rounded);
  blocks_.emplace(offset, rounded);
  used_ += rounded;
  return StagingBlock{offset, length, file_->data() + offset};
}

absl::Status StagingAllocator::Shrink(uint64_t offset, uint64_t length) {
  CHECK_GT(length, 0u);
  const uint64_t rounded = RoundUp(length, kAlign);
  absl::MutexLock lock(&mu_);
  const auto block = blocks_.find(offset);
  if (block == blocks_.end()) return NoBlock(offset);
  CHECK_LE(rounded, block->second);
  const uint64_t spare = block->second - rounded;
  block->second = rounded;
  used_ -= spare;
  if (spare > 0) AddHole(offset + rounded, spare);
  return absl::OkStatus();
}

absl::Status StagingAllocator::Release(uint64_t offset) {
  absl::MutexLock lock(&mu_);
  const auto block = blocks_.find(offset);
  if (block == blocks_.end()) return NoBlock(offset);
  used_ -= block->second;
  AddHole(offset, block->second);
  blocks_.erase(block);
  return absl::OkStatus();
}

uint64_t StagingAllocator::used_bytes() const {
  absl::MutexLock lock(&mu_);
  return used_;
}

uint64_t StagingAllocator::file_bytes() const {
  absl::MutexLock lock(&mu_);
  return end_;
}

// Grows by at least a quarter, so that a growing need costs few system calls.
absl::Status StagingAllocator::GrowFor(uint64_t length) {
  const uint64_t step = RoundUp(std::max({length, kGrowBytesMin, end_ / 4}), kGrowBytesMin);
  const uint64_t bytes = std::min(end_ + step, std::max(end_ + length, file_->bytes_max()));
  RETURN_IF_ERROR(file_->Grow(bytes));
  AddHole(end_, bytes - end_);
  end_ = bytes;
  return absl::OkStatus();
}

void StagingAllocator::AddHole(uint64_t offset, uint64_t length) {
  auto next = holes_.lower_bound(offset);
  if (next != holes_.end() && next->first == offset + length) {
    length += next->second;
    RemoveHole(next->first, next->second);
    next = holes_.lower_bound(offset);
  }
  if (next != holes_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == offset) {
      offset = before->first;
      length += before->second;
      RemoveHole(before->first, before->second);
    }
  }
  holes_.emplace(offset, length);
  by_length_.emplace(length, offset);
}

void StagingAllocator::RemoveHole(uint64_t offset, uint64_t length) {
  holes_.erase(offset);
  by_length_.erase({length, offset});
}

}  // namespace tandem::worker
