#include "client/lib/byte_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/base/unique_fd.h"

namespace tandem::client {
namespace {

absl::Status PathError(const std::string& path, int error) {
  const std::string what = StrCat("cannot read ", Quoted(path), ": ", std::strerror(error));
  if (error == ENOENT || error == ENOTDIR) {
    return Error(absl::StatusCode::kNotFound, reason::kPathUnreadable, what);
  }
  if (error == EACCES || error == EPERM) {
    return Error(absl::StatusCode::kPermissionDenied, reason::kPathUnreadable, what);
  }
  return InvalidError(reason::kPathUnreadable, what);
}

absl::StatusOr<UniqueFd> OpenForReading(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (!fd.ok()) return PathError(path, errno);
  return fd;
}

absl::StatusOr<FileIdentity> IdentityOfOpen(const std::string& path, int fd) {
  struct stat info {};
  if (fstat(fd, &info) != 0) return PathError(path, errno);
  if (S_ISDIR(info.st_mode)) return PathError(path, EISDIR);
  if (!S_ISREG(info.st_mode)) {
    return InvalidError(reason::kPathUnreadable,
                        StrCat(Quoted(path), " is no regular file; copy it into one"));
  }
  return FileIdentity{static_cast<uint64_t>(info.st_size),
                      info.st_mtim.tv_sec * int64_t{1'000'000'000} + info.st_mtim.tv_nsec};
}

absl::Status Changed(const std::string& path) {
  return Error(
      absl::StatusCode::kFailedPrecondition, reason::kPathChanged,
      StrCat(Quoted(path), " changed while it was being read; submit again when it is complete"));
}

}  // namespace

absl::StatusOr<FileIdentity> IdentityOf(const std::string& path) {
  ASSIGN_OR_RETURN(const UniqueFd fd, OpenForReading(path));
  return IdentityOfOpen(path, fd.get());
}

absl::StatusOr<std::string> ReadPrefix(const std::string& path, uint64_t bytes_max) {
  ASSIGN_OR_RETURN(const UniqueFd fd, OpenForReading(path));
  ASSIGN_OR_RETURN(const FileIdentity identity, IdentityOfOpen(path, fd.get()));
  std::string bytes(std::min(bytes_max, identity.size), '\0');
  uint64_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n =
        pread(fd.get(), bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return PathError(path, errno);
    if (n == 0) return Changed(path);
    done += static_cast<uint64_t>(n);
  }
  return bytes;
}

absl::StatusOr<std::string> ReadWholeFile(const std::string& path) {
  return ReadPrefix(path, ~uint64_t{0});
}

ByteSource ByteSource::OfMemory(std::string bytes) {
  ByteSource source;
  source.size_ = bytes.size();
  Piece piece;
  piece.length = bytes.size();
  piece.memory = std::make_shared<const std::string>(std::move(bytes));
  source.pieces_.push_back(std::move(piece));
  return source;
}

absl::StatusOr<ByteSource> ByteSource::OfFile(const std::string& path, uint64_t offset) {
  ASSIGN_OR_RETURN(const FileIdentity identity, IdentityOf(path));
  if (offset > identity.size) {
    return Error(absl::StatusCode::kOutOfRange, reason::kTruncated,
                 StrCat(Quoted(path), " has ", identity.size, " bytes, fewer than ", offset));
  }
  ByteSource source;
  source.size_ = identity.size - offset;
  Piece piece;
  piece.path = std::make_shared<const std::string>(path);
  piece.identity = identity;
  piece.offset = offset;
  piece.length = source.size_;
  source.pieces_.push_back(std::move(piece));
  return source;
}

void ByteSource::Append(const ByteSource& other) {
  pieces_.insert(pieces_.end(), other.pieces_.begin(), other.pieces_.end());
  size_ += other.size_;
}

absl::Status ByteSource::ReadPiece(const Piece& piece, uint64_t from, Take take) {
  if (piece.memory != nullptr) {
    const std::string_view all(*piece.memory);
    for (uint64_t at = from; at < all.size(); at += kChunkBytes) {
      RETURN_IF_ERROR(take(all.substr(at, kChunkBytes)));
    }
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const UniqueFd fd, OpenForReading(*piece.path));
  ASSIGN_OR_RETURN(const FileIdentity identity, IdentityOfOpen(*piece.path, fd.get()));
  if (identity != piece.identity) return Changed(*piece.path);
  std::string buffer(std::min(kChunkBytes, piece.length - from), '\0');
  for (uint64_t at = from; at < piece.length;) {
    const uint64_t want = std::min<uint64_t>(buffer.size(), piece.length - at);
    const ssize_t n = pread(fd.get(), buffer.data(), want, static_cast<off_t>(piece.offset + at));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return PathError(*piece.path, errno);
    if (n == 0) return Changed(*piece.path);
    RETURN_IF_ERROR(take(std::string_view(buffer.data(), static_cast<size_t>(n))));
    at += static_cast<uint64_t>(n);
  }
  return absl::OkStatus();
}

absl::Status ByteSource::Read(uint64_t from, Take take) const {
  for (const Piece& piece : pieces_) {
    if (from >= piece.length) {
      from -= piece.length;
      continue;
    }
    RETURN_IF_ERROR(ReadPiece(piece, from, take));
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
