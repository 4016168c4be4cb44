#include "client/lib/byte_source.h"

#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/data/sha256.h"

namespace tandem::client {
namespace {

class MemoryOrigin final : public ByteOrigin {
 public:
  explicit MemoryOrigin(std::string bytes) : bytes_(std::move(bytes)) {}
  absl::Status Read(uint64_t from, TakeChunk take) const override {
    return TakeInChunks(std::string_view(bytes_).substr(from), take);
  }
  bool AddIdentity(ByteIdentity* to) const override {
    StrAppend(&to->text, "memory ", Sha256Of(bytes_), "\n");
    return true;
  }

 private:
  const std::string bytes_;
};

class FileOrigin final : public ByteOrigin {
 public:
  FileOrigin(std::string path, const FileIdentity& identity, uint64_t offset)
      : path_(std::move(path)), identity_(identity), offset_(offset) {}

  absl::Status Read(uint64_t from, TakeChunk take) const override {
    ASSIGN_OR_RETURN(const InputFile file, InputFile::OpenAgain(path_, identity_));
    uint64_t at = offset_ + from;
    std::string buffer(std::min(kChunkBytes, identity_.size - at), '\0');
    while (at < identity_.size) {
      const absl::Span<char> chunk(buffer.data(),
                                   std::min<uint64_t>(buffer.size(), identity_.size - at));
      RETURN_IF_ERROR(file.ReadAt(at, chunk));
      RETURN_IF_ERROR(take(std::string_view(chunk.data(), chunk.size())));
      at += chunk.size();
    }
    return file.CheckUnchanged();
  }
  bool AddIdentity(ByteIdentity* to) const override {
    // A change within the same tick of the clock would not show.
    constexpr absl::Duration kSettled = absl::Seconds(2);
    struct stat info {};
    if (stat(path_.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return false;
    const absl::Time now = absl::Now();
    const absl::Time modified = absl::TimeFromTimespec(info.st_mtim);
    const absl::Time changed = absl::TimeFromTimespec(info.st_ctim);
    const FileIdentity found{static_cast<uint64_t>(info.st_size), absl::ToUnixNanos(modified)};
    if (!(found == identity_)) return false;
    StrAppend(&to->text, "file ", info.st_dev, " ", info.st_ino, " ", found.size, " ",
              found.mtime_ns, " ", absl::ToUnixNanos(changed), " ", offset_, "\n");
    to->settled = to->settled && changed + kSettled < now && modified + kSettled < now;
    return true;
  }

 private:
  const std::string path_;
  const FileIdentity identity_;
  const uint64_t offset_;
};

}  // namespace

absl::Status TakeInChunks(std::string_view bytes, TakeChunk take) {
  for (; !bytes.empty(); bytes.remove_prefix(std::min<uint64_t>(kChunkBytes, bytes.size()))) {
    RETURN_IF_ERROR(take(bytes.substr(0, kChunkBytes)));
  }
  return absl::OkStatus();
}

ByteSource ByteSource::OfMemory(std::string bytes) {
  const uint64_t size = bytes.size();
  return Of(std::make_shared<MemoryOrigin>(std::move(bytes)), size);
}

absl::StatusOr<ByteSource> ByteSource::OfFile(const std::string& path, uint64_t offset) {
  ASSIGN_OR_RETURN(const InputFile file, InputFile::Open(path));
  if (offset > file.identity().size) {
    return Error(
        absl::StatusCode::kOutOfRange, reason::kTruncated,
        StrCat(Quoted(path), " has ", file.identity().size, " bytes, fewer than ", offset));
  }
  return OfFile(path, file.identity(), offset);
}

ByteSource ByteSource::OfFile(const std::string& path, const FileIdentity& identity,
                              uint64_t offset) {
  return Of(std::make_shared<FileOrigin>(path, identity, offset), identity.size - offset);
}

ByteSource ByteSource::Of(std::shared_ptr<const ByteOrigin> origin, uint64_t size) {
  ByteSource source;
  source.size_ = size;
  source.pieces_.push_back({std::move(origin), size});
  return source;
}

std::optional<ByteIdentity> ByteSource::IdentityNow() const {
  ByteIdentity identity;
  for (const Piece& piece : pieces_) {
    if (!piece.origin->AddIdentity(&identity)) return std::nullopt;
  }
  return identity;
}

void ByteSource::Append(const ByteSource& other) {
  pieces_.insert(pieces_.end(), other.pieces_.begin(), other.pieces_.end());
  size_ += other.size_;
}

absl::Status ByteSource::Read(uint64_t from, TakeChunk take) const {
  for (const Piece& piece : pieces_) {
    if (from >= piece.length) {
      from -= piece.length;
      continue;
    }
    RETURN_IF_ERROR(piece.origin->Read(from, take));
    from = 0;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ByteSource::ReadAll() const {
  std::string all;
  all.reserve(size_);
  RETURN_IF_ERROR(Read(0, [&](std::string_view chunk) {
    all += chunk;
    return absl::OkStatus();
  }));
  return all;
}

}  // namespace tandem::client
