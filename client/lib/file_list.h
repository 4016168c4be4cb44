// Which files a ragged operand is made of, and in what order.
//
//   DIR/         the regular files in it, by name, bytewise ("10.png" before "2.png"); hidden ones
//                and subdirectories are left out, and how many is said; anything else in it (a link
//                to nothing, a pipe) is an error
//   GLOB         *, ? and [] as in a shell, by path, bytewise; the same rules
//   FILE         itself
//   list:FILE    the files named in FILE, in its order, one a line (or NUL-ended, as `find -print0`
//                writes them); relative names start at the current directory; blank lines are
//                skipped
//   list:-       the same, from stdin
//
// Thread-safety: pure functions but for reading directories, files and stdin.
#ifndef TANDEM_CLIENT_LIB_FILE_LIST_H_
#define TANDEM_CLIENT_LIB_FILE_LIST_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace tandem::client {

struct FileList {
  std::vector<std::string> files;  // Paths as named; at least one.
  std::string left_out;            // "2 subdirectories and 1 hidden file of "photos/"", or "".
};
// Errors: INVALID_ARGUMENT (BAD_ARGUMENT: no files; PATH_UNREADABLE), RESOURCE_EXHAUSTED.
absl::StatusOr<FileList> FilesNamed(std::string_view what);

// The files named in a list's text.
std::vector<std::string> ParseFileList(std::string_view text);

}  // namespace tandem::client

#endif  // TANDEM_CLIENT_LIB_FILE_LIST_H_
