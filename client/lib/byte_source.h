// ByteSource: bytes that will be uploaded, as pieces of memory and of files behind one another.
//
// Nothing is read before it is asked for, and a file is open only while it is read, so a directory
// of 100,000 images costs a list of names and a file of a terabyte costs one buffer. What is not
// stored as it is to be sent (big-endian or Fortran-ordered arrays, FASTA) is a ByteOrigin of its
// own, which converts while it reads.
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
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/lib/input_file.h"

namespace tandem::client {

inline constexpr uint64_t kChunkBytes = 1 << 20;

// Takes consecutive chunks of at most kChunkBytes.
using TakeChunk = absl::FunctionRef<absl::Status(std::string_view)>;

// What bytes are known by without reading them: equal texts mean equal bytes, as far as the file
// system can tell.
struct ByteIdentity {
  std::string text;
  bool settled = true;  // nothing of it changed just now, within a tick of the clock
};

// A run of bytes that can be read again and again, and yields the same each time or an error.
class ByteOrigin {
 public:
  virtual ~ByteOrigin() = default;
  // From byte `from` to the end, until `take` fails.
  virtual absl::Status Read(uint64_t from, TakeChunk take) const = 0;
  // False: it can only be known by reading it.
  virtual bool AddIdentity(ByteIdentity*) const { return false; }
};

// Hands `bytes` to `take` in chunks.
absl::Status TakeInChunks(std::string_view bytes, TakeChunk take);

class ByteSource {
 public:
  ByteSource() = default;
  static ByteSource OfMemory(std::string bytes);
  // The bytes of a file from `offset` on. Errors: as InputFile::Open; OUT_OF_RANGE.
  static absl::StatusOr<ByteSource> OfFile(const std::string& path, uint64_t offset = 0);
  // The same, of a file whose identity is known. REQUIRES: offset <= identity.size.
  static ByteSource OfFile(const std::string& path, const FileIdentity& identity, uint64_t offset);
  // REQUIRES: the origin yields exactly `size` bytes.
  static ByteSource Of(std::shared_ptr<const ByteOrigin> origin, uint64_t size);

  void Append(const ByteSource& other);
  uint64_t size() const { return size_; }

  // Calls `take` with what follows byte `from`, until it fails.
  absl::Status Read(uint64_t from, TakeChunk take) const;
  absl::StatusOr<std::string> ReadAll() const;

  // Nothing when a part of it is made while it is read, cannot be looked at, or has changed.
  std::optional<ByteIdentity> IdentityNow() const;

 private:
  struct Piece {
    std::shared_ptr<const ByteOrigin> origin;
    uint64_t length = 0;
  };
  std::vector<Piece> pieces_;
  uint64_t size_ = 0;
};

}  // namespace tandem::client

#endif  // TANDEM_CLIENT_LIB_BYTE_SOURCE_H_
