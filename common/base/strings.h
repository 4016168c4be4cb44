// Strings for people: StrCat over std::string_view, and sizes and durations, both ways.
//
// Debian 12's absl::string_view is not std::string_view; our interfaces use the latter, and the
// bridge between them is here.
//
//   StrCat("job ", id, " range [", 0, ",", 512, ")")
//   ParseSize("4GiB") == 4294967296;  HumanSize(4294967296) == "4GiB"
//   ParseDuration("1h30m"), ("90s"), ("2-00:30:00");  HumanDuration(absl::Minutes(90)) == "1h30m"
//
// What is ambiguous is refused with the readings it could have. Thread-safety: pure functions.
#ifndef TANDEM_COMMON_BASE_STRINGS_H_
#define TANDEM_COMMON_BASE_STRINGS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace tandem {

inline absl::string_view ToAbsl(std::string_view s) {
  return absl::string_view(s.data(), s.size());
}
inline std::string_view ToStd(absl::string_view s) { return std::string_view(s.data(), s.size()); }

// "1h30m", "2d3h", "1.5s", "250ms", "unlimited": at most two units, and what ParseDuration reads.
// (Not FormatDuration: a call could mean absl's.)
std::string HumanDuration(absl::Duration duration);

namespace internal {
template <class T>
concept HasToString = requires(const T& t) {
  { t.ToString() } -> std::convertible_to<std::string>;
};
// What absl::StrCat shall see in place of a value.
template <class T>
decltype(auto) Piece(const T& value) {
  if constexpr (std::is_same_v<T, std::string_view>) {
    return ToAbsl(value);
  } else if constexpr (std::is_same_v<T, bool>) {
    return value ? "true" : "false";
  } else if constexpr (std::is_same_v<T, char>) {
    return std::string(1, value);
  } else if constexpr (std::is_same_v<T, absl::Duration>) {
    return HumanDuration(value);
  } else if constexpr (HasToString<T>) {
    return value.ToString();
  } else if constexpr (std::is_array_v<T>) {
    return static_cast<const std::remove_extent_t<T>*>(value);
  } else {
    return value;
  }
}
}  // namespace internal

// absl::StrCat that also takes std::string_view, durations, strong ids and anything with
// ToString(), such as a Status. A bool reads "true" or "false", a char is a character.
template <class... T>
std::string StrCat(const T&... pieces) {
  return absl::StrCat(internal::Piece(pieces)...);
}
template <class... T>
void StrAppend(std::string* to, const T&... pieces) {
  absl::StrAppend(to, internal::Piece(pieces)...);
}

// The pieces between separators; an empty text is one empty piece.
std::vector<std::string_view> Split(std::string_view text, char separator);
std::string_view Trim(std::string_view text);
// Lower-case hexadecimal, and back (either case; false unless it has exactly 2 × bytes digits).
std::string ToHex(const void* bytes, size_t size);
bool FromHex(std::string_view hex, void* bytes, size_t size);
// The text in double quotes, shortened to a readable length, control characters escaped: for
// naming what a user typed in an error.
std::string Quoted(std::string_view text);
// The candidate nearest to what was typed (edit distance), or "" when none is near.
std::string_view Nearest(std::string_view typed, const std::vector<std::string_view>& candidates);

// Bytes: a whole number, then an optional unit: B; KiB MiB GiB TiB PiB (2^10…); kB MB GB TB PB
// (10^3…). A fraction is allowed with a unit ("1.5GiB") when it is a whole number of bytes.
// A bare K, M, G or T is refused with both readings. Errors: INVALID_ARGUMENT.
absl::StatusOr<uint64_t> ParseSize(std::string_view text);
// Exact where short ("4GiB", "512B"), else three significant digits ("1.46GiB").
std::string HumanSize(uint64_t bytes);

// "90s", "1h30m", "250ms", "1.5h", "2d", Slurm's "D-HH:MM:SS" and "HH:MM:SS"; "0". A bare number
// or "MM:SS"/"HH:MM" is refused with both readings. Errors: INVALID_ARGUMENT.
absl::StatusOr<absl::Duration> ParseDuration(std::string_view text);

}  // namespace tandem

#endif  // TANDEM_COMMON_BASE_STRINGS_H_
