// BlockLayout: where everything of a batch lies in its block, once on the device and once in
// pinned memory, at the same offsets:
//
//   [ parts | operands | in and out | outputs, faults ][ staging ]
//     `------- up -------------'
//                        `------ down -------------'
//
// so that one copy takes up all that goes up, and one brings down all that comes down. Staging
// exists in pinned memory alone: it is what goes up to other places, operands that stay.
//
// Thread-safety: a value type.
#ifndef TANDEM_WORKER_DEVICE_GPU_BLOCK_LAYOUT_H_
#define TANDEM_WORKER_DEVICE_GPU_BLOCK_LAYOUT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "worker/device/gpu/arena.h"

namespace tandem::worker {

class BlockLayout {
 public:
  enum Section { kParts, kIn, kInOut, kOut, kStaging };
  using Chunk = uint32_t;
  static constexpr Chunk kNone = ~Chunk{0};

  Chunk Add(Section section, uint64_t bytes) {
    chunks_.push_back({section, bytes, 0});
    return static_cast<Chunk>(chunks_.size() - 1);
  }
  // Staging was planned for nothing.
  void DropStaging() {
    while (!chunks_.empty() && chunks_.back().section == kStaging) chunks_.pop_back();
  }
  // Decides where the chunks lie. Staging may still be added, and closed again.
  void Close() {
    uint64_t at = 0;
    for (int section = kParts; section <= kStaging; ++section) {
      for (Place& chunk : chunks_) {
        if (chunk.section != section) continue;
        chunk.at = at;
        at += Arena::RoundUp(chunk.bytes);
      }
      end_[static_cast<size_t>(section)] = at;
    }
  }

  uint64_t at(Chunk chunk) const { return chunks_[chunk].at; }
  uint64_t bytes(Chunk chunk) const { return chunks_[chunk].bytes; }
  uint64_t up_bytes() const { return end_[kInOut]; }
  uint64_t down_begin() const { return end_[kIn]; }
  uint64_t down_bytes() const { return end_[kOut] - end_[kIn]; }
  uint64_t in_out_bytes() const { return end_[kInOut] - end_[kIn]; }
  uint64_t device_bytes() const { return end_[kOut]; }
  uint64_t pinned_bytes() const { return end_[kStaging]; }

 private:
  struct Place {
    Section section;
    uint64_t bytes, at;
  };
  std::vector<Place> chunks_;
  std::array<uint64_t, 5> end_ = {};
};

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_DEVICE_GPU_BLOCK_LAYOUT_H_
