// ContentIds: numbers for the bytes of operands, equal for equal bytes, by which a device knows
// what it has already.
//
//   ids.Of(StrCat("blob:", id), slice)
//
// Thread-safety: one thread.
#ifndef TANDEM_WORKER_EXECUTOR_CONTENT_IDS_H_
#define TANDEM_WORKER_EXECUTOR_CONTENT_IDS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "common/model/tensor.h"

namespace tandem::worker {

class ContentIds {
 public:
  // Beyond so many all are forgotten: numbers are never used again, so that costs copies only.
  static constexpr size_t kContentsMax = 1 << 18;

  // `identity`: of the whole operand's bytes.
  uint64_t Of(const std::string& identity, const StridedSlice& slice) {
    if (ids_.size() >= kContentsMax) ids_.clear();
    const auto [it, is_new] = ids_.try_emplace(
        Key{identity, slice.offset, slice.block_bytes, slice.stride_bytes, slice.blocks},
        last_ + 1);
    last_ += is_new;
    return it->second;
  }

 private:
  using Key = std::tuple<std::string, uint64_t, uint64_t, uint64_t, uint64_t>;
  absl::flat_hash_map<Key, uint64_t> ids_;
  uint64_t last_ = 0;
};

}  // namespace tandem::worker

#endif  // TANDEM_WORKER_EXECUTOR_CONTENT_IDS_H_
