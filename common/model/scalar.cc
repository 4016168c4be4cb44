#include "common/model/scalar.h"

#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <system_error>

#include "common/base/error.h"
#include "common/base/strings.h"

namespace tandem {
namespace {

using Wide = __int128;

// The least and the largest value of an integer dtype or bool.
struct Range {
  Wide lo;
  Wide hi;
};
Range IntegerRange(DType dtype) {
  if (dtype == DType::kBool) return {0, 1};
  const uint64_t width = 8 * DTypeSize(dtype);
  if (IsSigned(dtype)) return {-(Wide{1} << (width - 1)), (Wide{1} << (width - 1)) - 1};
  return {0, (Wide{1} << width) - 1};
}

bool Integral(DType dtype) { return IsInteger(dtype) || dtype == DType::kBool; }

Wide IntegerOf(DType dtype, uint64_t bits) {
  if (!IsSigned(dtype)) return static_cast<Wide>(bits);
  const uint64_t unused = 64 - 8 * DTypeSize(dtype);
  return static_cast<int64_t>(bits << unused) >> unused;
}

uint64_t IntegerBits(DType dtype, Wide value) {
  const uint64_t width = 8 * DTypeSize(dtype);
  const auto bits = static_cast<uint64_t>(value);
  return width == 64 ? bits : bits & ((uint64_t{1} << width) - 1);
}

// Rounds to odd, so that rounding once more to a narrower type is as if done in one step.
float ToF32Odd(double value) {
  const auto nearest = static_cast<float>(value);
  if (std::isnan(value) || static_cast<double>(nearest) == value || std::isinf(nearest)) {
    return nearest;
  }
  float toward_zero = nearest;
  if (std::fabs(static_cast<double>(nearest)) > std::fabs(value)) {
    toward_zero = std::nextafter(nearest, 0.0f);
  }
  return std::bit_cast<float>(std::bit_cast<uint32_t>(toward_zero) | 1u);
}

uint64_t FloatBits(DType dtype, double value) {
  switch (dtype) {
    case DType::kF16:
      return F32ToF16(ToF32Odd(value));
    case DType::kBf16:
      return F32ToBf16(ToF32Odd(value));
    case DType::kF32:
      return std::bit_cast<uint32_t>(static_cast<float>(value));
    default:
      return std::bit_cast<uint64_t>(value);
  }
}

double FloatOf(DType dtype, uint64_t bits) {
  switch (dtype) {
    case DType::kF16:
      return F16ToF32(static_cast<uint16_t>(bits));
    case DType::kBf16:
      return Bf16ToF32(static_cast<uint16_t>(bits));
    case DType::kF32:
      return std::bit_cast<float>(static_cast<uint32_t>(bits));
    default:
      return std::bit_cast<double>(bits);
  }
}

absl::Status Expected(std::string_view text, DType dtype, std::string_view what) {
  return InvalidError(reason::kBadArgument,
                      StrCat(Quoted(text), " is not ", what, " of dtype ", DTypeName(dtype)));
}

absl::StatusOr<Scalar> ParseInteger(std::string_view text, DType dtype) {
  const bool negative = !text.empty() && text[0] == '-';
  std::string_view digits = text.substr(negative ? 1 : 0);
  int base = 10;
  if (digits.size() > 2 && digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X')) {
    base = 16;
    digits.remove_prefix(2);
  }
  uint64_t magnitude = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), magnitude, base);
  const Range range = IntegerRange(dtype);
  const Wide value = negative ? -static_cast<Wide>(magnitude) : static_cast<Wide>(magnitude);
  const bool whole = error != std::errc::invalid_argument && end == digits.data() + digits.size();
  if (!whole) return Expected(text, dtype, "a whole number");
  if (error == std::errc::result_out_of_range || value < range.lo || value > range.hi) {
    const std::string lo = range.lo < 0 ? StrCat(static_cast<int64_t>(range.lo)) : "0";
    return Expected(text, dtype,
                    StrCat("a whole number from ", lo, " to ", static_cast<uint64_t>(range.hi)));
  }
  return Scalar::FromBits(dtype, IntegerBits(dtype, value));
}

bool IsTooLarge(std::errc error, const char* end, const char* last) {
  return error == std::errc::result_out_of_range && end == last;
}

absl::Status OutOfRange(std::string_view text, DType dtype) {
  double least = std::numeric_limits<double>::min(), most = std::numeric_limits<double>::max();
  if (dtype == DType::kF32) {
    least = std::numeric_limits<float>::min();
    most = std::numeric_limits<float>::max();
  } else if (dtype != DType::kF64) {
    least = dtype == DType::kF16 ? 6.10352e-5 : 1.17549e-38;
    most = dtype == DType::kF16 ? 65504 : 3.38953e38;
  }
  return InvalidError(reason::kBadArgument,
                      StrCat(Quoted(text), " is out of the range of ", DTypeName(dtype),
                             ", whose numbers are of sizes from ", least, " to ", most));
}

absl::StatusOr<Scalar> ParseFloat(std::string_view text, DType dtype) {
  const std::string_view digits = !text.empty() && text[0] == '+' ? text.substr(1) : text;
  const char* last = digits.data() + digits.size();
  if (dtype == DType::kF32) {
    float value = 0;
    const auto [end, error] = std::from_chars(digits.data(), last, value);
    if (IsTooLarge(error, end, last)) return OutOfRange(text, dtype);
    if (error != std::errc() || end != last) return Expected(text, dtype, "a finite number");
    return Scalar::FromBits(dtype, std::bit_cast<uint32_t>(value));
  }
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), last, value);
  if (IsTooLarge(error, end, last)) return OutOfRange(text, dtype);
  if (error != std::errc() || end != last) return Expected(text, dtype, "a finite number");
  const uint64_t bits = FloatBits(dtype, value);
  if (std::isfinite(value) && !std::isfinite(FloatOf(dtype, bits))) {
    return OutOfRange(text, dtype);
  }
  return Scalar::FromBits(dtype, bits);
}

}  // namespace

Scalar Scalar::Bool(bool value) { return Scalar(DType::kBool, value ? 1 : 0); }
Scalar Scalar::I64(int64_t value) { return Scalar(DType::kI64, static_cast<uint64_t>(value)); }
Scalar Scalar::U64(uint64_t value) { return Scalar(DType::kU64, value); }
Scalar Scalar::F64(double value) { return Scalar(DType::kF64, std::bit_cast<uint64_t>(value)); }

absl::StatusOr<Scalar> Scalar::Parse(std::string_view text, DType dtype) {
  text = Trim(text);
  if (dtype == DType::kBool) {
    if (text == "true" || text == "1") return Scalar(dtype, 1);
    if (text == "false" || text == "0") return Scalar(dtype, 0);
    return Expected(text, dtype, "true, false, 1 or 0");
  }
  if (IsInteger(dtype)) return ParseInteger(text, dtype);
  if (IsFloat(dtype)) return ParseFloat(text, dtype);
  return Expected(text, dtype, "a single value: there is none");
}

absl::StatusOr<Scalar> Scalar::ConvertTo(DType dtype) const {
  if (dtype == dtype_) return *this;
  auto refuse = [&] {
    return InvalidError(
        reason::kScalarOutOfRange,
        StrCat(ToString(), " (", DTypeName(dtype_), ") is no value of dtype ", DTypeName(dtype)));
  };
  const bool to_float = IsFloat(dtype);
  if ((!to_float && !Integral(dtype)) || (!IsFloat(dtype_) && !Integral(dtype_))) return refuse();
  if (to_float) {
    const double value = AsDouble();
    const uint64_t bits = FloatBits(dtype, value);
    if (std::isfinite(value) && !std::isfinite(FloatOf(dtype, bits))) return refuse();
    return Scalar(dtype, bits);
  }
  const Range range = IntegerRange(dtype);
  Wide value = 0;
  if (Integral(dtype_)) {
    value = IntegerOf(dtype_, bits_);
  } else {
    const double real = FloatOf(dtype_, bits_);
    if (!(std::fabs(real) < 0x1p64) || real != std::floor(real)) return refuse();
    value = static_cast<Wide>(real);
  }
  if (value < range.lo || value > range.hi) return refuse();
  return Scalar(dtype, IntegerBits(dtype, value));
}

double Scalar::AsDouble() const {
  if (IsFloat(dtype_)) return FloatOf(dtype_, bits_);
  return static_cast<double>(IntegerOf(dtype_, bits_));
}

std::optional<int64_t> Scalar::AsInt64() const {
  if (!Integral(dtype_)) return std::nullopt;
  const Wide value = IntegerOf(dtype_, bits_);
  if (value > std::numeric_limits<int64_t>::max()) return std::nullopt;
  return static_cast<int64_t>(value);
}

std::string Scalar::ToString() const {
  if (dtype_ == DType::kBool) return bits_ != 0 ? "true" : "false";
  if (IsSigned(dtype_)) return StrCat(static_cast<int64_t>(IntegerOf(dtype_, bits_)));
  if (IsInteger(dtype_)) return StrCat(bits_);
  if (!IsFloat(dtype_)) return "unspecified";
  char text[64];
  const double value = FloatOf(dtype_, bits_);
  const std::to_chars_result result =
      dtype_ == DType::kF64 ? std::to_chars(text, text + sizeof text, value)
                            : std::to_chars(text, text + sizeof text, static_cast<float>(value));
  return std::string(text, result.ptr);
}

int Scalar::Compare(const Scalar& a, const Scalar& b) {
  if (Integral(a.dtype_) && Integral(b.dtype_)) {
    const Wide x = IntegerOf(a.dtype_, a.bits_);
    const Wide y = IntegerOf(b.dtype_, b.bits_);
    return x < y ? -1 : (x > y ? 1 : 0);
  }
  const double x = a.AsDouble();
  const double y = b.AsDouble();
  if (std::isnan(x) || std::isnan(y)) return int{std::isnan(x)} - int{std::isnan(y)};
  return x < y ? -1 : (x > y ? 1 : 0);
}

uint16_t F32ToF16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return 0x7e00;
  if (magnitude >= 0x477ff000u) return sign | 0x7c00;  // Rounds to 65536 or beyond.
  if (magnitude < 0x38800000u) {
    // A subnormal: adding 0.5 leaves its 10 bits, rounded to nearest even, in the low end.
    const float sum = std::bit_cast<float>(magnitude) + 0.5f;
    return sign | static_cast<uint16_t>(std::bit_cast<uint32_t>(sum) - 0x3f000000u);
  }
  const uint32_t odd = (magnitude >> 13) & 1;
  return sign | static_cast<uint16_t>((magnitude - 0x38000000u + 0xfffu + odd) >> 13);
}

float F16ToF32(uint16_t bits) {
  const uint32_t sign = (bits & 0x8000u) << 16;
  const uint32_t magnitude = bits & 0x7fffu;
  if (magnitude > 0x7c00u) return std::bit_cast<float>(0x7fc00000u);
  if (magnitude == 0x7c00u) return std::bit_cast<float>(sign | 0x7f800000u);
  if (magnitude < 0x400u) {
    const float value = static_cast<float>(magnitude) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(value));
  }
  return std::bit_cast<float>(sign | ((magnitude << 13) + 0x38000000u));
}

uint16_t F32ToBf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fc0;
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1)) >> 16);
}

float Bf16ToF32(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

}  // namespace tandem
