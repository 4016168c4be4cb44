// path: operands: files on a file system that the workers share, which they read themselves.
//
// What is fixed when the job is submitted: the absolute path, size, time of change, and a checksum
// of each slice. A file that is another one when a worker reads it fails what needs it.
//
// Thread-safety: pure functions but for reading files.
#ifndef TANDEM_CLIENT_LIB_PATH_OPERAND_H_
#define TANDEM_CLIENT_LIB_PATH_OPERAND_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "client/lib/input_file.h"
#include "common/model/locator.h"

namespace tandem::client {

// The file's bytes from `offset` on; reads all of them, for the checksums.
// REQUIRES: offset <= seen.size. Errors: as InputFile::OpenAgain.
absl::StatusOr<PathLocator> LocatePath(const std::string& path, const FileIdentity& seen,
                                       uint64_t offset);

}  // namespace tandem::client

#endif  // TANDEM_CLIENT_LIB_PATH_OPERAND_H_
