#include "common/wire/decode_util.h"

#include <algorithm>
#include <cmath>

#include "common/base/reason.h"
#include "common/base/utf8.h"

namespace tandem::wire {
namespace {

bool IsControl(char c) {
  const auto byte = static_cast<uint8_t>(c);
  return (byte < 0x20 && c != '\t' && c != '\n') || byte == 0x7F;
}

}  // namespace

absl::Status Malformed(std::string_view field, std::string_view what) {
  return WithField(InvalidError(reason::kProtocolError, StrCat(field, " ", what)), field);
}

absl::Status CheckText(std::string_view text, size_t bytes_max, std::string_view field) {
  if (text.size() > bytes_max) {
    return Malformed(field, StrCat("is ", text.size(), " bytes long; at most ", bytes_max));
  }
  if (!IsUtf8(text)) return Malformed(field, "is not UTF-8");
  if (std::ranges::any_of(text, IsControl)) return Malformed(field, "has control characters");
  return absl::OkStatus();
}

absl::Status CheckRate(double value, std::string_view field) {
  if (std::isfinite(value) && value >= 0) return absl::OkStatus();
  return Malformed(field, "is not a finite number of at least 0");
}

std::string CleanText(std::string_view text, size_t bytes_max) {
  static constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
  std::string clean;
  clean.reserve(std::min(text.size(), bytes_max));
  for (size_t at = 0; at < text.size();) {
    const size_t length = Utf8CharacterAt(text, at);
    std::string_view piece = length == 0 ? kReplacement : text.substr(at, length);
    if (length == 1 && IsControl(text[at])) piece = " ";
    if (clean.size() + piece.size() > bytes_max) break;
    clean += piece;
    at += std::max<size_t>(length, 1);
  }
  return clean;
}

std::string Indexed(std::string_view field, int64_t index) {
  return StrCat(field, "[", index, "]");
}

}  // namespace tandem::wire
