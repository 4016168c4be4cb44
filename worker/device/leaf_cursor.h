// LeafCursor: which leaves of a part have begun, in order, and where it ends; the end can be
// brought forward while it runs.
//
//   while (true) {
//     const LeafCursor::Leaves leaves = cursor.Claim(4);      // a thread that runs them
//     if (leaves.begin == leaves.end) break;
//   }
//   const uint32_t left = cursor.Cut(10);   // who takes back what has not begun
//
// Thread-safety: any thread. Invariant: what was claimed is never cut.
#ifndef TANDEM_WORKER_DEVICE_LEAF_CURSOR_H_
#define TANDEM_WORKER_DEVICE_LEAF_CURSOR_H_

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace tandem::worker {

class LeafCursor {
 public:
  static constexpr uint32_t kLeavesMax = ~uint32_t{0};

  struct Leaves {
    uint32_t begin = 0, end = 0;
  };

  explicit LeafCursor(uint32_t leaves) : state_(Pack({0, leaves})) {}

  // The next leaves, at most `count` (at least 1); none: there are no more.
  Leaves Claim(uint32_t count) {
    uint64_t seen = state_.load(std::memory_order_relaxed);
    while (true) {
      const Leaves left = Unpack(seen);
      const uint32_t end = left.begin + std::min(count, left.end - left.begin);
      if (state_.compare_exchange_weak(seen, Pack({end, left.end}), std::memory_order_relaxed)) {
        return {left.begin, end};
      }
    }
  }
  // It ends at `leaves`, or behind what has begun; returns where.
  uint32_t Cut(uint32_t leaves) {
    uint64_t seen = state_.load(std::memory_order_relaxed);
    while (true) {
      const Leaves left = Unpack(seen);
      const uint32_t end = std::min(left.end, std::max(left.begin, leaves));
      if (state_.compare_exchange_weak(seen, Pack({left.begin, end}), std::memory_order_relaxed)) {
        return end;
      }
    }
  }
  uint32_t end() const { return Unpack(state_.load(std::memory_order_relaxed)).end; }

 private:
  // What has not begun.
  static uint64_t Pack(Leaves leaves) { return uint64_t{leaves.end} << 32 | leaves.begin; }
  static Leaves Unpack(uint64_t state) {
    return {static_cast<uint32_t>(state), static_cast<uint32_t>(state >> 32)};
  }
  std::atomic<uint64_t> state_;
};

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_DEVICE_LEAF_CURSOR_H_
