#include "common/data/file_system.h"

#include <utility>

#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace tandem {

absl::Status WriteFully(File& file, uint64_t offset, absl::Span<const std::string_view> slices) {
  std::vector<std::string_view> rest;
  size_t first = 0;
  while (true) {
    while (first < slices.size() && slices[first].empty()) ++first;
    if (first == slices.size()) return absl::OkStatus();
    ASSIGN_OR_RETURN(size_t written, file.WriteAt(offset, slices.subspan(first)));
    offset += written;
    while (first < slices.size() && written >= slices[first].size()) {
      written -= slices[first].size();
      ++first;
    }
    if (written == 0) continue;
    // A slice was cut: go on with a list whose first slice is what is left of it.
    std::vector<std::string_view> tail(slices.begin() + first, slices.end());
    tail.front().remove_prefix(written);
    rest = std::move(tail);
    slices = rest;
    first = 0;
  }
}

absl::Status WriteFully(File& file, uint64_t offset, std::string_view bytes) {
  return WriteFully(file, offset, absl::MakeConstSpan(&bytes, 1));
}

absl::StatusOr<std::string> ReadFully(File& file, uint64_t offset, size_t size) {
  std::string bytes(size, '\0');
  ASSIGN_OR_RETURN(const size_t got, file.ReadAt(offset, bytes.data(), size));
  if (got != size) {
    return Error(absl::StatusCode::kOutOfRange, reason::kTruncated,
                 StrCat("the file ends at ", offset + got, ", before ", offset + size));
  }
  return bytes;
}

std::string_view ParentOf(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? "." : path.substr(0, slash);
}

absl::Status CreateDirectories(FileSystem& file_system, std::string_view path) {
  const absl::StatusOr<FileInfo> info = file_system.Stat(path);
  if (info.ok() && info->directory) return absl::OkStatus();
  const size_t slash = path.rfind('/');
  const bool has_parent = slash != std::string_view::npos && slash > 0;
  if (has_parent) RETURN_IF_ERROR(CreateDirectories(file_system, path.substr(0, slash)));
  RETURN_IF_ERROR(file_system.CreateDirectory(path));
  return file_system.SyncDirectory(has_parent                        ? path.substr(0, slash)
                                   : slash == std::string_view::npos ? "."
                                                                     : "/");
}

bool IsNotFound(const absl::Status& status) { return status.code() == absl::StatusCode::kNotFound; }

}  // namespace tandem
