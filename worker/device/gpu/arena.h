// Arena: memory that batches and resident operands are cut from: a few large extents, got as they
// are needed, up to a hard budget, so that a device's allocator (which waits for the device) is
// asked a few times in a process's life.
//
//   Arena arena(budget, extent_bytes, get, give);
//   ASSIGN_OR_RETURN(const uint64_t address, arena.Take(bytes));
//   arena.Free(address);
//
// Blocks come back in any order, since streams pass each other and operands stay; so ranges are
// found by best fit instead of behind one another in a ring.
//
// Thread-safety: one thread. Ownership: gives back its extents in the end.
// Invariants: 1. free ranges and blocks together are the extents. 2. No two free ranges of one
// extent touch. 3. held() <= the budget. 4. used() + reserved() <= the budget.
#ifndef TANDEM_WORKER_DEVICE_GPU_ARENA_H_
#define TANDEM_WORKER_DEVICE_GPU_ARENA_H_

#include <cstdint>
#include <functional>
#include <map>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tandem::worker {

class Arena {
 public:
  // What regions of a block are aligned to, and blocks too.
  static constexpr uint64_t kAlign = 256;
  static constexpr uint64_t RoundUp(uint64_t bytes) {
    return (bytes + kAlign - 1) / kAlign * kAlign;
  }

  // Makes an extent and says its address. Errors: RESOURCE_EXHAUSTED; any other is passed on.
  using Get = std::function<absl::StatusOr<uint64_t>(uint64_t bytes)>;
  using Give = std::function<void(uint64_t address)>;

  // Extents have `extent_bytes` where the budget allows, more where a block needs more.
  Arena(uint64_t budget, uint64_t extent_bytes, Get get, Give give)
      : budget_(budget),
        extent_bytes_(extent_bytes),
        get_(std::move(get)),
        give_(std::move(give)) {}
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Errors: RESOURCE_EXHAUSTED (OUT_OF_MEMORY) when there is no room now; those of Get.
  absl::StatusOr<uint64_t> Take(uint64_t bytes);
  // REQUIRES: `address` is a block.
  void Free(uint64_t address);

  // Sets so much of the budget apart, without an address, for what is allocated beside the arena:
  // extents go back for it as far as no block is in them. Errors: RESOURCE_EXHAUSTED
  // (OUT_OF_MEMORY) when blocks leave no room.
  absl::Status Reserve(uint64_t bytes);
  // REQUIRES: so much is reserved.
  void Unreserve(uint64_t bytes) { reserved_ -= bytes; }

  uint64_t budget() const { return budget_; }
  uint64_t reserved() const { return reserved_; }
  uint64_t used() const { return used_; }  // by blocks
  uint64_t held() const { return held_; }  // by extents

 private:
  using Ranges = std::map<uint64_t, uint64_t>;  // begin to bytes

  // end(): none is large enough.
  Ranges::iterator BestFit(uint64_t bytes);
  absl::Status Grow(uint64_t bytes);
  absl::Status AddExtent(uint64_t bytes);
  absl::Status NoRoom(uint64_t bytes) const;
  // What extents may add up to, if blocks allow it.
  uint64_t limit() const { return budget_ - reserved_; }
  uint64_t room() const { return limit() > held_ ? limit() - held_ : 0; }
  // Extents without a block go back until `bytes` more fit into the limit, or there are none.
  void GiveBackFor(uint64_t bytes);

  const uint64_t budget_;
  const uint64_t extent_bytes_;
  const Get get_;
  const Give give_;
  Ranges extents_;
  Ranges free_;
  Ranges blocks_;
  uint64_t used_ = 0;
  uint64_t held_ = 0;
  uint64_t reserved_ = 0;
};

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_DEVICE_GPU_ARENA_H_
