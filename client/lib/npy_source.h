// The elements of a .npy file as they are sent: little-endian, in C order, whatever the file has.
//
// A file that is stored so is read as it lies. Others are converted while they are read, in memory
// that does not grow with the file: big-endian numbers chunk by chunk, Fortran order in blocks of
// rows, each gathered from its columns.
//
// Thread-safety: pure functions but for reading files.
#ifndef TANDEM_CLIENT_LIB_NPY_SOURCE_H_
#define TANDEM_CLIENT_LIB_NPY_SOURCE_H_

#include <string>

#include "absl/status/statusor.h"
#include "client/lib/byte_source.h"
#include "client/lib/npy.h"

namespace tandem::client {

struct NpyFile {
  FileIdentity identity;
  NpyHeader header;
  // Are the file's own bytes what is sent (so that workers may read it themselves)?
  bool plain() const;
};
// Reads the header. Errors: as InputFile::Open and ParseNpyHeader, with the path.
absl::StatusOr<NpyFile> OpenNpy(const std::string& path);

// The elements of the file. Errors: RESOURCE_EXHAUSTED when one row of a Fortran-ordered array
// (all elements of one index of its first dimension) is too long to be gathered in memory.
absl::StatusOr<ByteSource> NpyElements(const std::string& path, const NpyFile& file);

}  // namespace tandem::client

#endif  // TANDEM_CLIENT_LIB_NPY_SOURCE_H_
