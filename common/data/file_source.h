// ByteSources over files and regions of segments.
//
// Thread-safety: as ByteSource. Ownership: as said at each function.
#ifndef TANDEM_COMMON_DATA_FILE_SOURCE_H_
#define TANDEM_COMMON_DATA_FILE_SOURCE_H_

#include <cstdint>
#include <memory>

#include "common/data/byte_source.h"
#include "common/data/file_system.h"
#include "common/data/segment_store.h"
#include "common/model/outputs.h"

namespace tandem {

// `length` bytes from `offset`; a file that ends before is DATA_LOSS (TRUNCATED).
std::unique_ptr<ByteSource> MakeFileSource(std::unique_ptr<File> file, uint64_t offset,
                                           uint64_t length);

// The bytes of a region. Its checksum is known to be right only at the end: the last Read is
// DATA_LOSS (CHECKSUM_MISMATCH) otherwise. The store outlives the source.
std::unique_ptr<ByteSource> MakeRegionSource(SegmentStore* segments, const Region& region);

}  // namespace tandem

#endif  // TANDEM_COMMON_DATA_FILE_SOURCE_H_
