#include "client/lib/path_operand.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "client/lib/byte_source.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/data/xxh3.h"

namespace tandem::client {
namespace {

constexpr uint64_t kSliceBytesMin = 1 << 20;
constexpr uint64_t kSlicesMax = 1 << 16;

}  // namespace

absl::StatusOr<PathLocator> LocatePath(const std::string& path, const FileIdentity& seen,
                                       uint64_t offset) {
  std::error_code failed;
  PathLocator located;
  located.path = std::filesystem::absolute(path, failed).lexically_normal().string();
  if (failed) {
    return InvalidError(reason::kPathUnreadable,
                        StrCat("where ", Quoted(path), " is cannot be told: ", failed.message()));
  }
  RETURN_IF_ERROR(CheckFileName(located.path));
  located.file_size = seen.size;
  located.mtime_ns = seen.mtime_ns;
  located.data_offset = offset;
  located.size = seen.size - offset;
  located.slice_bytes = kSliceBytesMin;
  while (located.size / located.slice_bytes >= kSlicesMax) located.slice_bytes *= 2;
  Xxh3Stream hash;
  uint64_t in_slice = 0;
  const ByteSource bytes = ByteSource::OfFile(path, seen, offset);
  RETURN_IF_ERROR(bytes.Read(0, [&](std::string_view chunk) {
    while (!chunk.empty()) {
      const size_t take = std::min<uint64_t>(chunk.size(), located.slice_bytes - in_slice);
      hash.Update(chunk.substr(0, take));
      in_slice += take;
      chunk.remove_prefix(take);
      if (in_slice == located.slice_bytes) {
        located.slice_checksums.push_back(hash.Digest());
        hash.Reset();
        in_slice = 0;
      }
    }
    return absl::OkStatus();
  }));
  if (in_slice > 0) located.slice_checksums.push_back(hash.Digest());
  return located;
}

}  // namespace tandem::client
