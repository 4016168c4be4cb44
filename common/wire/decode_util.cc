#include "common/wire/decode_util.h"

#include <algorithm>

#include "common/base/reason.h"

namespace tandem::wire {
namespace {

// The length of the UTF-8 character that begins at text[at], or 0 where none does.
size_t CharacterAt(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(at);
  if (lead < 0x80) return 1;
  size_t length = 0;
  uint32_t code = 0;
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
    code = lead & 0x1Fu;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
    code = lead & 0x0Fu;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    code = lead & 0x07u;
  }
  if (length == 0 || at + length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xC0u) != 0x80u) return 0;
    code = code << 6 | (byte(at + i) & 0x3Fu);
  }
  const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  return overlong || surrogate || code > 0x10FFFF ? 0 : length;
}

bool IsControl(char c) {
  const auto byte = static_cast<uint8_t>(c);
  return (byte < 0x20 && c != '\t' && c != '\n') || byte == 0x7F;
}

}  // namespace

absl::Status Malformed(std::string_view field, std::string_view what) {
  return WithField(InvalidError(reason::kProtocolError, StrCat(field, " ", what)), field);
}

bool IsUtf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t length = CharacterAt(text, at);
    if (length == 0) return false;
    at += length;
  }
  return true;
}

absl::Status CheckText(std::string_view text, size_t bytes_max, std::string_view field) {
  if (text.size() > bytes_max) {
    return Malformed(field, StrCat("is ", text.size(), " bytes long; at most ", bytes_max));
  }
  if (!IsUtf8(text)) return Malformed(field, "is not UTF-8");
  if (std::ranges::any_of(text, IsControl)) return Malformed(field, "has control characters");
  return absl::OkStatus();
}

std::string CleanText(std::string_view text, size_t bytes_max) {
  static constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
  std::string clean;
  clean.reserve(std::min(text.size(), bytes_max));
  for (size_t at = 0; at < text.size();) {
    const size_t length = CharacterAt(text, at);
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
