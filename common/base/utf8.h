// Is a text UTF-8?
//
// Thread-safety: pure functions.
#ifndef TANDEM_COMMON_BASE_UTF8_H_
#define TANDEM_COMMON_BASE_UTF8_H_

#include <cstddef>
#include <string_view>

namespace tandem {

// The length of the UTF-8 character that begins at text[at], or 0 where none does: overlong forms
// and surrogates are none. REQUIRES: at < text.size().
size_t Utf8CharacterAt(std::string_view text, size_t at);

bool IsUtf8(std::string_view text);

}  // namespace tandem

#endif  // TANDEM_COMMON_BASE_UTF8_H_
