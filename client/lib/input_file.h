// InputFile: a regular file that somebody named, open for reading.
//
// Everything that is read here has a size and a time of change, which are its identity:
// directories, pipes, devices, and the files of /proc (whose size is a fiction) are refused with a
// sentence each.
//
//   ASSIGN_OR_RETURN(const InputFile file, InputFile::Open(path));
//   RETURN_IF_ERROR(file.ReadAt(0, absl::MakeSpan(header)));
//   RETURN_IF_ERROR(file.CheckUnchanged());     // what was read is one state of the file
//
// Thread-safety: const calls from any thread. Ownership: the descriptor.
#ifndef TANDEM_CLIENT_LIB_INPUT_FILE_H_
#define TANDEM_CLIENT_LIB_INPUT_FILE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/unique_fd.h"

namespace tandem::client {

struct FileIdentity {
  uint64_t size = 0;
  int64_t mtime_ns = 0;
  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

class InputFile {
 public:
  // Errors, each with the path: NOT_FOUND, PERMISSION_DENIED, INVALID_ARGUMENT (PATH_UNREADABLE).
  static absl::StatusOr<InputFile> Open(const std::string& path);
  // The same, of a file that was seen before. Errors also: FAILED_PRECONDITION PATH_CHANGED.
  static absl::StatusOr<InputFile> OpenAgain(const std::string& path, const FileIdentity& seen);

  const FileIdentity& identity() const { return identity_; }
  // All of `to`. Errors: PATH_CHANGED when the file ends before; PATH_UNREADABLE;
  // INTERRUPTED.
  absl::Status ReadAt(uint64_t offset, absl::Span<char> to) const;
  // The first `bytes_max` bytes (all of a shorter file).
  absl::StatusOr<std::string> ReadPrefix(uint64_t bytes_max) const;
  // From any thread, once the program is to end: what ReadAt reads, now or later, of any file, is
  // CANCELLED INTERRUPTED.
  static void StopReading();
  // That it still is what it was when it was opened. Errors: PATH_CHANGED.
  absl::Status CheckUnchanged() const;

 private:
  InputFile(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  std::string path_;
  UniqueFd fd_;
  FileIdentity identity_;
};

// That a name can be said to others: UTF-8 without control characters (a tab and a line's end are
// some too), of a length that fits.
// Errors: INVALID_ARGUMENT PATH_UNREADABLE.
absl::Status CheckFileName(std::string_view path);

// Is there a file or directory of this name?
bool IsThere(std::string_view path);

// All of a file of at most `bytes_max` bytes. Errors: as above; RESOURCE_EXHAUSTED LIMIT_EXCEEDED.
absl::StatusOr<std::string> ReadWholeFile(const std::string& path, uint64_t bytes_max);

}  // namespace tandem::client

#endif  // TANDEM_CLIENT_LIB_INPUT_FILE_H_
