// The header of a .npy file (numpy's format, versions 1.0 to 3.0), both ways.
//
//   ASSIGN_OR_RETURN(NpyHeader header, ParseNpyHeader(first_bytes, file_size));
//   // the elements are bytes [header.data_offset, file_size) of the file
//
// Source of the format: numpy.lib.format. Accepted: numbers of either byte order, C and Fortran
// order, any rank up to kRankMax. Refused, each with its reason: other magic or version, headers
// beyond kHeaderBytesMax, object and structured dtypes, negative shapes, a file whose size does not
// fit its shape. NpyElements (npy_source.h) reads the elements.
//
// Thread-safety: pure functions.
#ifndef TANDEM_CLIENT_LIB_NPY_H_
#define TANDEM_CLIENT_LIB_NPY_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/model/tensor.h"

namespace tandem::client {

struct NpyHeader {
  static constexpr uint64_t kHeaderBytesMax = 64 << 10;
  static constexpr size_t kRankMax = 32;

  TensorSpec spec;
  std::string descr;  // As the file has it: "<f4".
  bool fortran_order = false;
  bool big_endian = false;  // Of elements longer than a byte.
  uint64_t data_offset = 0;
};

// `prefix`: the file's first bytes: all of them, or at least kHeaderBytesMax + 12.
// numpy has no bf16: u2, and V2 as the ml_dtypes package writes it, are taken as its bits.
// Errors: INVALID_ARGUMENT BAD_FILE or TRUNCATED.
absl::StatusOr<NpyHeader> ParseNpyHeader(std::string_view prefix, uint64_t file_size);

// Does a file that begins so claim to be a .npy file?
bool IsNpy(std::string_view prefix);

// The header of version 1.0 for a C-ordered array, padded to a multiple of 64 bytes. bf16, which
// numpy lacks, is written as u2 (its bits). REQUIRES: not ragged, each dimension >= 0.
std::string MakeNpyHeader(const TensorSpec& spec);

}  // namespace tandem::client

#endif  // TANDEM_CLIENT_LIB_NPY_H_
