// OutFile: where a result is written, a file that bears its name only when it is whole.
//
//   RETURN_IF_ERROR(CheckOutFile(path, bytes, force));      // before anything runs
//   ASSIGN_OR_RETURN(OutFile file, OutFile::Create(path));
//   RETURN_IF_ERROR(file.Write(bytes));
//   RETURN_IF_ERROR(file.Close());                          // else nothing is left behind
//
// "-" is stdout. A character device or a pipe that is there (/dev/null, /dev/stdout) is written to
// as it stands, with or without `force`; directories, block devices and sockets never are.
// Thread-safety: one thread. Ownership: the open file, and its unfinished bytes.
#ifndef TANDEM_CLIENT_CLI_OUT_FILE_H_
#define TANDEM_CLIENT_CLI_OUT_FILE_H_

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tandem::cli {

// That a file of `bytes` could be written there now. Errors: ALREADY_EXISTS PATH_EXISTS unless
// `force`; PATH_UNWRITABLE (no such directory, not allowed, a directory); DISK_FULL.
absl::Status CheckOutFile(const std::string& path, uint64_t bytes, bool force);
// That files could be written in that directory, which is there or whose parent is.
// Errors: the same; PATH_EXISTS where it holds something already.
absl::Status CheckOutDirectory(const std::string& path, bool force);

class OutFile {
 public:
  // Errors: as Write; waits for a pipe's reader, until Ctrl-C.
  static absl::StatusOr<OutFile> Create(const std::string& path);
  OutFile(OutFile&& other) noexcept;
  OutFile& operator=(OutFile&&) = delete;
  // What was not closed is removed.
  ~OutFile();

  // Errors: RESOURCE_EXHAUSTED DISK_FULL, PATH_UNWRITABLE; CANCELLED INTERRUPTED after Ctrl-C.
  absl::Status Write(std::string_view bytes);
  absl::Status Close();

 private:
  OutFile() = default;
  absl::Status Interrupted() const;

  std::string path_;    // As named.
  std::string goal_;    // Where the bytes go: path_, or what it links to.
  std::string part_;    // Holds them until then; empty: they go there at once.
  int interrupts_ = 0;  // Those that had come before.
  std::FILE* stream_ = nullptr;
};

}  // namespace tandem::cli

#endif  // TANDEM_CLIENT_CLI_OUT_FILE_H_
