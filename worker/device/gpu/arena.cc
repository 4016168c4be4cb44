#include "worker/device/gpu/arena.h"

#include <algorithm>
#include <iterator>

#include "common/base/check.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace tandem::worker {

Arena::~Arena() {
  for (const auto& [address, bytes] : extents_) give_(address);
}

Arena::Ranges::iterator Arena::BestFit(uint64_t bytes) {
  auto best = free_.end();
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    if (it->second >= bytes && (best == free_.end() || it->second < best->second)) best = it;
  }
  return best;
}

absl::StatusOr<uint64_t> Arena::Take(uint64_t bytes) {
  bytes = RoundUp(std::max<uint64_t>(bytes, 1));
  if (bytes > limit() || used_ > limit() - bytes) return NoRoom(bytes);
  auto range = BestFit(bytes);
  if (range == free_.end()) {
    RETURN_IF_ERROR(Grow(bytes));
    range = BestFit(bytes);
  }
  const auto [begin, size] = *range;
  free_.erase(range);
  if (size > bytes) free_.emplace(begin + bytes, size - bytes);
  blocks_.emplace(begin, bytes);
  used_ += bytes;
  return begin;
}

void Arena::Free(uint64_t address) {
  const auto block = blocks_.find(address);
  CHECK(block != blocks_.end());
  uint64_t begin = block->first;
  uint64_t bytes = block->second;
  used_ -= bytes;
  blocks_.erase(block);
  // Two extents may lie side by side by accident; their ranges stay two.
  const auto next = free_.find(begin + bytes);
  if (next != free_.end() && !extents_.contains(next->first)) {
    bytes += next->second;
    free_.erase(next);
  }
  const auto after = free_.lower_bound(begin);
  if (after != free_.begin() && !extents_.contains(begin)) {
    const auto before = std::prev(after);
    if (before->first + before->second == begin) {
      begin = before->first;
      bytes += before->second;
      free_.erase(before);
    }
  }
  free_.emplace(begin, bytes);
}

absl::Status Arena::NoRoom(uint64_t bytes) const {
  return Error(absl::StatusCode::kResourceExhausted, reason::kOutOfMemory,
               StrCat("no room for ", bytes, " bytes: of a budget of ", budget_, " bytes ", used_,
                      " are in use and ", reserved_, " set apart"));
}

absl::Status Arena::Reserve(uint64_t bytes) {
  if (bytes > limit() || used_ > limit() - bytes) return NoRoom(bytes);
  reserved_ += bytes;
  if (held_ > limit()) GiveBackFor(0);
  return absl::OkStatus();
}

absl::Status Arena::Grow(uint64_t bytes) {
  if (bytes > room()) GiveBackFor(bytes);
  if (bytes > room()) return NoRoom(bytes);
  const uint64_t wanted = std::min(std::max(bytes, extent_bytes_), room());
  const absl::Status added = AddExtent(wanted);
  if (added.ok() || wanted == bytes || !absl::IsResourceExhausted(added)) return added;
  // Others use the same device: what is needed may still be there.
  return AddExtent(bytes);
}

absl::Status Arena::AddExtent(uint64_t bytes) {
  ASSIGN_OR_RETURN(const uint64_t address, get_(bytes));
  extents_.emplace(address, bytes);
  free_.emplace(address, bytes);
  held_ += bytes;
  return absl::OkStatus();
}

void Arena::GiveBackFor(uint64_t bytes) {
  for (auto it = extents_.begin();
       it != extents_.end() && (held_ > limit() || bytes > limit() - held_);) {
    const auto range = free_.find(it->first);
    if (range == free_.end() || range->second != it->second) {
      ++it;
      continue;
    }
    give_(it->first);
    held_ -= it->second;
    free_.erase(range);
    it = extents_.erase(it);
  }
}

}  // namespace tandem::worker
