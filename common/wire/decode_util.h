// What the decoders of this folder share: how a malformed field is named, texts within bounds.
//
// Thread-safety: pure functions.
#ifndef TANDEM_COMMON_WIRE_DECODE_UTIL_H_
#define TANDEM_COMMON_WIRE_DECODE_UTIL_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/base/optimization.h"
#include "absl/status/status.h"
#include "common/base/error.h"
#include "common/base/strings.h"
#include "common/base/utf8.h"

namespace tandem::wire {

// INVALID_ARGUMENT PROTOCOL_ERROR: "<field> <what>", with the field as its path.
absl::Status Malformed(std::string_view field, std::string_view what);

// At most `bytes_max` bytes, and UTF-8 without control characters other than tab and newline.
absl::Status CheckText(std::string_view text, size_t bytes_max, std::string_view field);
using ::tandem::IsUtf8;
// `text`, cut at a character to at most `bytes_max` bytes, with U+FFFD for what is not UTF-8.
std::string CleanText(std::string_view text, size_t bytes_max);

// field[index]
std::string Indexed(std::string_view field, int64_t index);

// A finite number of at least 0.
absl::Status CheckRate(double value, std::string_view field);

// [first, first + count) is not empty and does not overflow.
inline absl::Status CheckInterval(uint64_t first, uint64_t count, std::string_view field) {
  if (ABSL_PREDICT_FALSE(count == 0)) return Malformed(field, "is empty");
  if (ABSL_PREDICT_FALSE(first + count < first)) return Malformed(field, "overflows");
  return absl::OkStatus();
}

}  // namespace tandem::wire

#endif  // TANDEM_COMMON_WIRE_DECODE_UTIL_H_
