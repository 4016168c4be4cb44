// What a blob's blocks must hold: a checksum of each MiB, fixed while the blob is uploaded, so that
// whoever reads a part of it later can tell damage without reading all of it.
//
//   BlobSummer summer; summer.Update(bytes); …; std::vector<uint64_t> sums = summer.Finish();
//
// Kept in a file as a header, which tells a file that is torn or of other bytes, and the sums.
//
// Thread-safety: pure functions; a BlobSummer belongs to one thread.
#ifndef TANDEM_COMMON_DATA_BLOB_SUMS_H_
#define TANDEM_COMMON_DATA_BLOB_SUMS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/data/xxh3.h"

namespace tandem {

inline constexpr uint64_t kBlobBlockBytes = uint64_t{1} << 20;

constexpr uint64_t BlobBlocks(uint64_t bytes) {
  return bytes / kBlobBlockBytes + (bytes % kBlobBlockBytes == 0 ? 0 : 1);
}

class BlobSummer {
 public:
  void Update(std::string_view bytes);
  // A sum a block, the last one shorter, of the bytes so far.
  std::vector<uint64_t> Finish() const;

 private:
  Xxh3Stream block_;
  uint64_t filled_ = 0;  // Of the present block.
  std::vector<uint64_t> sums_;
};

std::string EncodeBlobSums(uint64_t blob_bytes, const std::vector<uint64_t>& sums);
// Nothing when that is not what Encode made for a blob of this size.
std::optional<std::vector<uint64_t>> DecodeBlobSums(uint64_t blob_bytes, std::string_view text);

}  // namespace tandem

#endif  // TANDEM_COMMON_DATA_BLOB_SUMS_H_
