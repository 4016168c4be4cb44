#include "common/base/strings.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>

#include "common/base/checked_math.h"
#include "common/base/error.h"
#include "common/base/utf8.h"

namespace tandem {
namespace {

struct Unit {
  std::string_view name;
  uint64_t size;
};

constexpr std::array<Unit, 11> kSizeUnits = {{{"B", 1},
                                              {"KiB", uint64_t{1} << 10},
                                              {"MiB", uint64_t{1} << 20},
                                              {"GiB", uint64_t{1} << 30},
                                              {"TiB", uint64_t{1} << 40},
                                              {"PiB", uint64_t{1} << 50},
                                              {"kB", 1'000},
                                              {"MB", 1'000'000},
                                              {"GB", 1'000'000'000},
                                              {"TB", 1'000'000'000'000},
                                              {"PB", 1'000'000'000'000'000}}};

constexpr std::array<Unit, 7> kTimeUnits = {{{"ns", 1},
                                             {"us", 1'000},
                                             {"ms", 1'000'000},
                                             {"s", 1'000'000'000},
                                             {"m", 60'000'000'000},
                                             {"h", 3'600'000'000'000},
                                             {"d", 86'400'000'000'000}}};

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// digits[.digits] scaled by a unit, exactly; false when it is no whole number of the least unit.
class Decimal {
 public:
  // Takes the number at the front of *text. False when there is none or it is too long.
  bool Take(std::string_view* text) {
    size_t i = 0;
    bool point = false;
    bool any = false;
    for (; i < text->size(); ++i) {
      const char c = (*text)[i];
      if (c == '.' && !point) {
        point = true;
        continue;
      }
      if (!IsDigit(c)) break;
      any = true;
      if (point && !CheckedMul<uint64_t>(divisor_, 10, &divisor_)) return false;
      if (!CheckedMul<uint64_t>(value_, 10, &value_) ||
          !CheckedAdd<uint64_t>(value_, static_cast<uint64_t>(c - '0'), &value_)) {
        return false;
      }
    }
    text->remove_prefix(i);
    fraction_ = point;
    return any;
  }
  bool Scale(uint64_t unit, uint64_t* result) const {
    const unsigned __int128 product = static_cast<unsigned __int128>(value_) * unit;
    if (product % divisor_ != 0) return false;
    const unsigned __int128 quotient = product / divisor_;
    *result = static_cast<uint64_t>(quotient);
    return quotient <= ~uint64_t{0};
  }
  bool fraction() const { return fraction_; }

 private:
  uint64_t value_ = 0;
  uint64_t divisor_ = 1;
  bool fraction_ = false;
};

absl::Status BadSize(std::string_view text, std::string_view why) {
  return InvalidError(
      reason::kBadSize,
      StrCat("size ", Quoted(text), " ", why,
             ": write a whole number and a unit, such as 512B, 64KiB, 4GiB or 10GB"));
}

absl::Status BadDuration(std::string_view text, std::string_view why) {
  return InvalidError(reason::kBadDuration, StrCat("duration ", Quoted(text), " ", why,
                                                   ": write 90s, 1h30m, 250ms or D-HH:MM:SS"));
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

// The readings of a unit that means two things, or "" for any other.
std::string AmbiguousSize(std::string_view number, std::string_view unit) {
  const std::string lower = Lower(unit);
  if (unit == "KB") return StrCat(number, "kB (10^3) or ", number, "KiB (2^10)");
  if (lower.size() != 1 || std::string_view("kmgtp").find(lower) == std::string_view::npos) {
    return "";
  }
  const char prefix = static_cast<char>(lower[0] - 'a' + 'A');
  const char decimal = prefix == 'K' ? 'k' : prefix;
  return StrCat(number, decimal, "B (powers of 10) or ", number, prefix, "iB (powers of 2)");
}

absl::StatusOr<absl::Duration> ParseClockDuration(std::string_view text) {
  std::string_view rest = text;
  uint64_t days = 0;
  const size_t dash = rest.find('-');
  const bool has_days = dash != std::string_view::npos;
  auto number = [](std::string_view s, uint64_t limit, uint64_t* value) {
    Decimal d;
    std::string_view left = s;
    return s.size() <= 9 && d.Take(&left) && left.empty() && !d.fraction() && d.Scale(1, value) &&
           *value <= limit;
  };
  if (has_days) {
    if (!number(rest.substr(0, dash), 106'000, &days)) {
      return BadDuration(text, "has no number of days before '-'");
    }
    rest.remove_prefix(dash + 1);
  }
  const std::vector<std::string_view> parts = Split(rest, ':');
  if (!has_days && parts.size() == 2) {
    return InvalidError(reason::kAmbiguous,
                        StrCat("duration ", Quoted(text), " could be ", parts[0], "h", parts[1],
                               "m or ", parts[0], "m", parts[1], "s: write one of them"));
  }
  if (parts.size() > 3) return BadDuration(text, "has too many ':'");
  uint64_t field[3] = {0, 0, 0};
  for (size_t i = 0; i < parts.size(); ++i) {
    const uint64_t limit = i == 0 ? (has_days ? 23 : 999'999) : 59;
    if (!number(parts[i], limit, &field[i])) {
      return BadDuration(
          text, StrCat("has ", Quoted(parts[i]), " where a number up to ", limit, " belongs"));
    }
  }
  return absl::Hours(days * 24 + field[0]) + absl::Minutes(field[1]) + absl::Seconds(field[2]);
}

}  // namespace

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  while (true) {
    const size_t at = text.find(separator);
    pieces.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return pieces;
    text.remove_prefix(at + 1);
  }
}

std::string_view Trim(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

std::string ToHex(const void* bytes, size_t size) {
  static constexpr char kDigits[] = "0123456789abcdef";
  const auto* p = static_cast<const unsigned char*>(bytes);
  std::string hex;
  hex.reserve(size * 2);
  for (size_t i = 0; i < size; ++i) {
    hex.push_back(kDigits[p[i] >> 4]);
    hex.push_back(kDigits[p[i] & 15]);
  }
  return hex;
}

bool FromHex(std::string_view hex, void* bytes, size_t size) {
  if (hex.size() != 2 * size) return false;
  auto digit = [](char c) {
    if (IsDigit(c)) return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
  };
  for (size_t i = 0; i < size; ++i) {
    const int high = digit(hex[2 * i]);
    const int low = digit(hex[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    static_cast<unsigned char*>(bytes)[i] = static_cast<unsigned char>(high << 4 | low);
  }
  return true;
}

std::string Quoted(std::string_view text) {
  constexpr size_t kMost = 80;
  std::string quoted = "\"";
  size_t at = 0;
  while (at < text.size() && at < kMost) {
    const size_t length = Utf8CharacterAt(text, at);
    const auto byte = static_cast<unsigned char>(text[at]);
    if (length == 0 || byte < 0x20 || byte == 0x7f) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\x%02x", byte);
      quoted += escaped;
    } else {
      if (byte == '"' || byte == '\\') quoted += '\\';
      quoted += text.substr(at, length);
    }
    at += std::max<size_t>(length, 1);
  }
  return quoted + (at < text.size() ? "…\"" : "\"");
}

namespace {

// How many letters were left out, added, mistaken or swapped with their neighbour.
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> rows(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        rows[i][j] = i + j;
        continue;
      }
      const size_t substituted = rows[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      rows[i][j] = std::min({rows[i - 1][j] + 1, rows[i][j - 1] + 1, substituted});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        rows[i][j] = std::min(rows[i][j], rows[i - 2][j - 2] + 1);
      }
    }
  }
  return rows[a.size()][b.size()];
}

}  // namespace

std::string_view Nearest(std::string_view typed, const std::vector<std::string_view>& candidates) {
  constexpr size_t kTypedMax = 128;  // what is longer resembles no name
  if (typed.size() > kTypedMax) return {};
  std::string_view best;
  size_t best_distance = std::max<size_t>(1, typed.size() / 3) + 1;
  for (const std::string_view candidate : candidates) {
    const size_t distance = EditDistance(typed, candidate);
    if (distance >= best_distance) continue;
    best_distance = distance;
    best = candidate;
  }
  return best;
}

absl::StatusOr<uint64_t> ParseSize(std::string_view text) {
  std::string_view rest = Trim(text);
  const std::string_view trimmed = rest;
  Decimal number;
  if (!number.Take(&rest)) return BadSize(text, "does not begin with a number that fits 64 bits");
  const std::string_view digits = trimmed.substr(0, trimmed.size() - rest.size());
  const std::string_view unit = Trim(rest);
  if (const std::string readings = AmbiguousSize(digits, unit); !readings.empty()) {
    return InvalidError(reason::kAmbiguous, StrCat("size ", Quoted(text), " could be ", readings,
                                                   ": write one of them"));
  }
  uint64_t scale = unit.empty() ? 1 : 0;
  for (const Unit& known : kSizeUnits) {
    const bool binary = known.name.size() == 3;
    if (unit == known.name || (binary && Lower(unit) == Lower(known.name))) scale = known.size;
  }
  if (scale == 0) return BadSize(text, StrCat("has the unknown unit ", Quoted(unit)));
  uint64_t bytes = 0;
  if (!number.Scale(scale, &bytes)) {
    return BadSize(text, "is not a whole number of bytes below 2^64");
  }
  return bytes;
}

std::string HumanSize(uint64_t bytes) {
  static constexpr std::string_view kNames[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  size_t unit = 0;
  while (unit < 6 && (bytes >> (10 * (unit + 1))) != 0) ++unit;
  const uint64_t size = uint64_t{1} << (10 * unit);
  if (bytes % size == 0) return StrCat(bytes / size, kNames[unit]);
  const double value = static_cast<double>(bytes) / static_cast<double>(size);
  char text[32];
  std::snprintf(text, sizeof text, "%.*f", value < 10 ? 2 : value < 100 ? 1 : 0, value);
  return StrCat(text, kNames[unit]);
}

absl::StatusOr<absl::Duration> ParseDuration(std::string_view text) {
  std::string_view rest = Trim(text);
  if (rest == "unlimited" || rest == "inf") return absl::InfiniteDuration();
  if (rest == "0") return absl::ZeroDuration();
  if (rest.find(':') != std::string_view::npos || rest.find('-') != std::string_view::npos) {
    return ParseClockDuration(rest);
  }
  uint64_t total = 0;
  uint64_t last_unit = ~uint64_t{0};
  if (rest.empty()) return BadDuration(text, "is empty");
  while (!rest.empty()) {
    const std::string_view before = rest;
    Decimal number;
    if (!number.Take(&rest)) {
      return BadDuration(text, StrCat("has no number before ", Quoted(before)));
    }
    const std::string_view digits = before.substr(0, before.size() - rest.size());
    size_t letters = 0;
    while (letters < rest.size() && IsLetter(rest[letters])) ++letters;
    const std::string_view name = rest.substr(0, letters);
    rest.remove_prefix(letters);
    if (name.empty() && last_unit == ~uint64_t{0} && rest.empty()) {
      return InvalidError(reason::kAmbiguous,
                          StrCat("duration ", Quoted(text), " could be ", digits, "s (seconds) or ",
                                 digits, "m (minutes): write one of them"));
    }
    const auto* unit = std::find_if(kTimeUnits.begin(), kTimeUnits.end(),
                                    [&](const Unit& u) { return u.name == name; });
    if (unit == kTimeUnits.end()) {
      return BadDuration(text, StrCat("has the unknown unit ", Quoted(name)));
    }
    if (unit->size >= last_unit) return BadDuration(text, "has units that do not grow smaller");
    last_unit = unit->size;
    uint64_t nanos = 0;
    if (!number.Scale(unit->size, &nanos) || !CheckedAdd(total, nanos, &total) ||
        total > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return BadDuration(text, "is not a whole number of nanoseconds below 292 years");
    }
  }
  return absl::Nanoseconds(static_cast<int64_t>(total));
}

std::string HumanDuration(absl::Duration duration) {
  if (duration == absl::InfiniteDuration()) return "unlimited";
  if (duration < absl::ZeroDuration()) return StrCat("-", HumanDuration(-duration));
  const int64_t nanos = absl::ToInt64Nanoseconds(duration);
  if (nanos == 0) return "0s";
  auto fraction = [](double value, std::string_view unit) {
    char text[32];
    std::snprintf(text, sizeof text, "%.3g", value);
    return StrCat(text, unit);
  };
  if (nanos < 1'000) return StrCat(nanos, "ns");
  if (nanos < 999'500) return fraction(static_cast<double>(nanos) / 1e3, "us");
  if (nanos < 999'500'000) return fraction(static_cast<double>(nanos) / 1e6, "ms");
  if (nanos < 59'950'000'000) return fraction(static_cast<double>(nanos) / 1e9, "s");
  const int64_t seconds = (nanos + 500'000'000) / 1'000'000'000;
  auto two = [](int64_t big, std::string_view big_unit, int64_t small, std::string_view unit) {
    return small == 0 ? StrCat(big, big_unit) : StrCat(big, big_unit, small, unit);
  };
  if (seconds < 3'600) return two(seconds / 60, "m", seconds % 60, "s");
  if (seconds < 86'400) return two(seconds / 3'600, "h", seconds % 3'600 / 60, "m");
  return two(seconds / 86'400, "d", seconds % 86'400 / 3'600, "h");
}

}  // namespace tandem
