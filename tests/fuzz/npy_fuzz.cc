// Headers of .npy files: what is accepted describes exactly the bytes behind it, and can be written
// again.
#include <string>

#include "client/lib/npy.h"
#include "common/base/check.h"
#include "common/base/error.h"
#include "tests/fuzz/fuzz_target.h"

namespace tandem::client {
namespace {

// A file of version `major`; the last 8 bytes of an input say how much data there is.
std::string Seed(int major, std::string dict, uint64_t data_bytes) {
  dict += '\n';
  std::string file = "\x93NUMPY";
  file += static_cast<char>(major);
  file += '\0';
  for (int i = 0; i < (major == 1 ? 2 : 4); ++i) {
    file += static_cast<char>(dict.size() >> (8 * i) & 0xff);
  }
  file += dict;
  file.append(reinterpret_cast<const char*>(&data_bytes), sizeof data_bytes);
  return file;
}

FUZZ_SEEDS(npy) {
  return {Seed(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", 12),
          Seed(1, "{'descr': '<f8', 'fortran_order': True, 'shape': (2, 5), }", 80),
          Seed(2, "{'descr': '|u1', 'fortran_order': False, 'shape': (), }", 1),
          Seed(3, "{'descr': '<u8', 'fortran_order': False, 'shape': (0, 7), }", 0),
          Seed(1, "{'descr': '>i4', 'fortran_order': False, 'shape': (3,), }", 12),
          Seed(1, "{'descr': '|O', 'fortran_order': False, 'shape': (3,), }", 24),
          Seed(1, "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,), }", 12),
          Seed(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (-3,), }", 12),
          Seed(1, "{'descr': '|b1', 'fortran_order': False, 'shape': (9223372036854775807L,2)}", 1),
          Seed(1, "{\"shape\":(1,2,3),\"fortran_order\":False,\"descr\":\"=i2\"}", 12)};
}

FUZZ_TARGET(npy) {
  fuzz::Tail tail(input);
  const auto data_bytes = tail.Take<uint64_t>() & 0xffff'ffff'ffff;
  const std::string_view prefix = tail.rest();
  const uint64_t file_size = prefix.size() + data_bytes;
  const auto header = ParseNpyHeader(prefix, file_size);
  if (!header.ok()) {
    CHECK(header.status().code() == absl::StatusCode::kInvalidArgument);
    CHECK(!ReasonOf(header.status()).empty());
    return;
  }
  CHECK(header->data_offset <= prefix.size());
  CHECK(header->spec.shape.size() <= NpyHeader::kRankMax);
  const auto bytes = header->spec.Bytes();
  CHECK_OK(bytes);
  CHECK_EQ(header->data_offset + *bytes, file_size);
  const std::string written = MakeNpyHeader(header->spec);
  CHECK_EQ(written.size() % 64, 0u);
  const auto again = ParseNpyHeader(written, written.size() + *bytes);
  CHECK_OK(again);
  CHECK(again->spec == header->spec && !again->fortran_order);
}

}  // namespace
}  // namespace tandem::client
