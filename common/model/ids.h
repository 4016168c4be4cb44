// The ids of Tandem's things. See docs/ARCHITECTURE.md for what each one names.
//
// An id of value 0 names nothing. Thread-safety: value types.
#ifndef TANDEM_COMMON_MODEL_IDS_H_
#define TANDEM_COMMON_MODEL_IDS_H_

#include <array>
#include <compare>
#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "common/base/strong_id.h"

namespace tandem {

using JobId = StrongId<struct JobTag>;
using WorkerId = StrongId<struct WorkerTag>;
// A device of one worker: unique within that worker only.
using DeviceId = StrongId<struct DeviceTag>;
// A segment of one worker (or of the master): unique within that holder only.
using SegmentId = StrongId<struct SegmentTag>;
// The master's incarnation; grows with every start; a smaller epoch is never obeyed.
using Epoch = StrongId<struct EpochTag>;
// A node's run number, from 1; inherited by its children.
using AttemptNo = StrongId<struct AttemptTag, uint32_t>;

// A lease: ordered by epoch, then by number; of two claims for one node the larger wins.
struct LeaseId {
  Epoch epoch;
  uint64_t n = 0;

  bool valid() const { return n != 0; }
  // "3.17"
  std::string ToString() const;
  friend constexpr auto operator<=>(const LeaseId&, const LeaseId&) = default;
  template <class H>
  friend H AbslHashValue(H h, const LeaseId& id) {
    return H::combine(std::move(h), id.epoch, id.n);
  }
  friend std::ostream& operator<<(std::ostream& out, const LeaseId& id) {
    return out << id.ToString();
  }
};

// The SHA-256 of a blob's bytes. All zero names nothing.
class BlobId {
 public:
  static constexpr size_t kBytes = 32;

  constexpr BlobId() = default;
  constexpr explicit BlobId(const std::array<uint8_t, kBytes>& bytes) : bytes_(bytes) {}
  // 64 hexadecimal digits. Errors: INVALID_ARGUMENT.
  static absl::StatusOr<BlobId> FromHex(std::string_view hex);
  // REQUIRES: raw.size() == kBytes.
  static BlobId FromRaw(std::string_view raw);

  const std::array<uint8_t, kBytes>& bytes() const { return bytes_; }
  std::string_view raw() const {
    return std::string_view(reinterpret_cast<const char*>(bytes_.data()), kBytes);
  }
  std::string ToHex() const;
  std::string ToString() const { return ToHex(); }
  bool valid() const { return *this != BlobId(); }

  friend constexpr auto operator<=>(const BlobId&, const BlobId&) = default;
  template <class H>
  friend H AbslHashValue(H h, const BlobId& id) {
    return H::combine(std::move(h), id.bytes_);
  }
  friend std::ostream& operator<<(std::ostream& out, const BlobId& id) { return out << id.ToHex(); }

 private:
  std::array<uint8_t, kBytes> bytes_{};
};

}  // namespace tandem

#endif  // TANDEM_COMMON_MODEL_IDS_H_
