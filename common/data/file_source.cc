#include "common/data/file_source.h"

#include <algorithm>
#include <utility>

#include "common/base/error.h"
#include "common/base/reason.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/data/xxh3.h"

namespace tandem {
namespace {

class FileSource final : public ByteSource {
 public:
  FileSource(std::unique_ptr<File> file, uint64_t offset, uint64_t length)
      : file_(std::move(file)), offset_(offset), left_(length) {}

  absl::StatusOr<size_t> Read(absl::Span<char> buffer) override {
    const size_t wanted = static_cast<size_t>(std::min<uint64_t>(buffer.size(), left_));
    if (wanted == 0) return 0;
    ASSIGN_OR_RETURN(const size_t got, file_->ReadAt(offset_, buffer.data(), wanted));
    if (got < wanted) {
      return Error(
          absl::StatusCode::kDataLoss, reason::kTruncated,
          StrCat("the file ends at byte ", offset_ + got, ", ", left_ - got, " bytes too early"));
    }
    offset_ += got;
    left_ -= got;
    return got;
  }

 private:
  const std::unique_ptr<File> file_;
  uint64_t offset_;
  uint64_t left_;
};

class RegionSource final : public ByteSource {
 public:
  RegionSource(SegmentStore* segments, const Region& region)
      : segments_(segments), region_(region) {}

  absl::StatusOr<size_t> Read(absl::Span<char> buffer) override {
    const size_t wanted =
        static_cast<size_t>(std::min<uint64_t>(buffer.size(), region_.length - read_));
    if (wanted == 0) return 0;
    RETURN_IF_ERROR(
        segments_->ReadInto(region_.segment, region_.offset + read_, buffer.subspan(0, wanted)));
    hash_.Update(std::string_view(buffer.data(), wanted));
    read_ += wanted;
    if (read_ == region_.length && hash_.Digest() != region_.xxh3) {
      return Error(absl::StatusCode::kDataLoss, reason::kChecksumMismatch,
                   StrCat("segment ", region_.segment, " bytes [", region_.offset, ", ",
                          region_.offset + region_.length, ") are not what was written"));
    }
    return wanted;
  }

 private:
  SegmentStore* const segments_;
  const Region region_;
  uint64_t read_ = 0;
  Xxh3Stream hash_;
};

}  // namespace

std::unique_ptr<ByteSource> MakeFileSource(std::unique_ptr<File> file, uint64_t offset,
                                           uint64_t length) {
  return std::make_unique<FileSource>(std::move(file), offset, length);
}

std::unique_ptr<ByteSource> MakeRegionSource(SegmentStore* segments, const Region& region) {
  return std::make_unique<RegionSource>(segments, region);
}

}  // namespace tandem
