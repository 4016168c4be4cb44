// FileSystem: the seam through which blobs and segments reach files, so that tests can put a
// disk below them that fills up, fails, writes short or loses what was not synced.
//
// RealFileSystem() is POSIX. tests/support/fault_file_system.h is the other one. Helpers that hold
// for both (write everything, read everything) are free functions here.
//
// Errors: a full disk is RESOURCE_EXHAUSTED with reason DISK_FULL; a path that is not there
// NOT_FOUND; one that is there already ALREADY_EXISTS; an input/output error INTERNAL with reason
// STORE_FAILED. Each message names the path and the system's words.
// Thread-safety: a FileSystem may be used from any thread. A File may be read and synced from any
// thread while one thread writes.
// Ownership: a File owns its descriptor; a FileSystem outlives its files.
#ifndef TANDEM_COMMON_DATA_FILE_SYSTEM_H_
#define TANDEM_COMMON_DATA_FILE_SYSTEM_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace tandem {

class File {
 public:
  virtual ~File() = default;

  // Reads up to `size` bytes at `offset` and returns how many; fewer only at the end of the file.
  virtual absl::StatusOr<size_t> ReadAt(uint64_t offset, char* buffer, size_t size) = 0;
  // Writes some of the bytes, in order, at `offset`, and returns how many: at least one, or an
  // error. Most callers want WriteFully.
  virtual absl::StatusOr<size_t> WriteAt(uint64_t offset,
                                         absl::Span<const std::string_view> slices) = 0;
  // Sees to it that blocks are there for bytes [size(), size), without changing the size, so that
  // a full disk is found before anything is written. OK where the file system cannot do it.
  virtual absl::Status Reserve(uint64_t size) = 0;
  // Cuts or zero-extends; gives back blocks reserved beyond `size`.
  virtual absl::Status Truncate(uint64_t size) = 0;
  // Bytes written (and the size) survive a crash once this returned OK. After an error nothing is
  // known about what was written since the last success: give the file up.
  virtual absl::Status Sync() = 0;
  // Begins writing out [offset, offset + size) and does not wait. Promises nothing.
  virtual void StartWriteout(uint64_t offset, uint64_t size) = 0;
  virtual absl::StatusOr<uint64_t> Size() = 0;
};

struct FileInfo {
  uint64_t size = 0;
  // Of blocks on disk: more than `size` where room was reserved, less where there are holes.
  uint64_t allocated = 0;
  // Names that the file has (hard links).
  uint64_t links = 0;
  bool directory = false;
  absl::Time modified = absl::InfinitePast();
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;

  enum class Mode {
    kRead,        // must exist
    kReadWrite,   // must exist
    kCreate,      // read and write; must not exist
    kOpenAlways,  // read and write; made when it does not exist
  };
  virtual absl::StatusOr<std::unique_ptr<File>> Open(std::string_view path, Mode mode) = 0;
  virtual absl::StatusOr<FileInfo> Stat(std::string_view path) = 0;
  // Replaces `to` where it exists, atomically.
  virtual absl::Status Rename(std::string_view from, std::string_view to) = 0;
  // A second name for a file.
  virtual absl::Status Link(std::string_view existing, std::string_view added) = 0;
  virtual absl::Status Remove(std::string_view path) = 0;
  // OK when the directory is there already.
  virtual absl::Status CreateDirectory(std::string_view path) = 0;
  // Names of entries, sorted, without "." and "..".
  virtual absl::StatusOr<std::vector<std::string>> List(std::string_view directory) = 0;
  // Makes names added to and removed from this directory survive a crash.
  virtual absl::Status SyncDirectory(std::string_view directory) = 0;
};

// The process's own file system. Never destroyed.
FileSystem* RealFileSystem();

// Writes all bytes. On an error some of them may have been written.
absl::Status WriteFully(File& file, uint64_t offset, absl::Span<const std::string_view> slices);
absl::Status WriteFully(File& file, uint64_t offset, std::string_view bytes);
// Exactly `size` bytes. Errors: OUT_OF_RANGE when the file ends before.
absl::StatusOr<std::string> ReadFully(File& file, uint64_t offset, size_t size);
// Makes each missing directory of `path`, and makes the new names durable.
absl::Status CreateDirectories(FileSystem& file_system, std::string_view path);
// The folder in which the path's last name lies; "." for a name alone.
std::string_view ParentOf(std::string_view path);

}  // namespace tandem

#endif  // TANDEM_COMMON_DATA_FILE_SYSTEM_H_
