// ByteSource: bytes that will be uploaded, as pieces of memory and of files behind one another.
//
// Nothing is read before it is asked for, and a file is open only while it is read, so a directory
// of 100,000 images costs a list of names.
//
//   ByteSource source = ByteSource::OfMemory(header);
//   ASSIGN_OR_RETURN(ByteSource file, ByteSource::OfFile(path));
//   source.Append(std::move(file));
//   RETURN_IF_ERROR(source.Read(0, [&](std::string_view chunk) { hash.Update(chunk); return
//   absl::OkStatus(); }));
//
// A file whose size or modification time has changed since OfFile is FAILED_PRECONDITION
// PATH_CHANGED. Thread-safety: const calls from any thread. Ownership: memory is shared, copies are
// cheap.
#ifndef TANDEM_CLIENT_LIB_BYTE_SOURCE_H_
#define TANDEM_CLIENT_LIB_BYTE_SOURCE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tandem::client {

struct FileIdentity {
  uint64_t size = 0;
  int64_t mtime_ns = 0;
  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

// Of a regular file. Errors: NOT_FOUND, PERMISSION_DENIED, INVALID_ARGUMENT (PATH_UNREADABLE), each
// with the path.
absl::StatusOr<FileIdentity> IdentityOf(const std::string& path);
// The first `bytes_max` bytes of a file (all of a shorter one).
absl::StatusOr<std::string> ReadPrefix(const std::string& path, uint64_t bytes_max);
// All of a file.
absl::StatusOr<std::string> ReadWholeFile(const std::string& path);

class ByteSource {
 public:
  static constexpr uint64_t kChunkBytes = 1 << 20;

  ByteSource() = default;
  static ByteSource OfMemory(std::string bytes);
  // The bytes of a file from `offset` on. Errors: as IdentityOf; OUT_OF_RANGE.
  static absl::StatusOr<ByteSource> OfFile(const std::string& path, uint64_t offset = 0);

  void Append(const ByteSource& other);
  uint64_t size() const { return size_; }

  // Calls `take` with consecutive chunks of at most kChunkBytes, from byte `from` on, until it
  // fails.
  using Take = absl::FunctionRef<absl::Status(std::string_view)>;
  absl::Status Read(uint64_t from, Take take) const;
  absl::StatusOr<std::string> ReadAll() const;

 private:
  struct Piece {
    std::shared_ptr<const std::string> memory;  // or a file
    std::shared_ptr<const std::string> path;
    FileIdentity identity;
    uint64_t offset = 0;
    uint64_t length = 0;
  };
  static absl::Status ReadPiece(const Piece& piece, uint64_t from, Take take);

  std::vector<Piece> pieces_;
  uint64_t size_ = 0;
};

}  // namespace tandem::client

#endif  // TANDEM_CLIENT_LIB_BYTE_SOURCE_H_
