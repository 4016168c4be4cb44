// Integer arithmetic that says when it overflows.
//
//   ASSIGN-free use:  uint64_t bytes; if (!CheckedMul(rows, width, &bytes)) return TooLarge();
//
// Each function returns false, and leaves *result unspecified, when the true result does not fit.
// Thread-safety: pure functions.
#ifndef TANDEM_COMMON_BASE_CHECKED_MATH_H_
#define TANDEM_COMMON_BASE_CHECKED_MATH_H_

#include <bit>
#include <concepts>
#include <cstdint>
#include <limits>

namespace tandem {

template <std::integral T>
[[nodiscard]] constexpr bool CheckedAdd(T a, T b, T* result) {
  return !__builtin_add_overflow(a, b, result);
}
template <std::integral T>
[[nodiscard]] constexpr bool CheckedSub(T a, T b, T* result) {
  return !__builtin_sub_overflow(a, b, result);
}
template <std::integral T>
[[nodiscard]] constexpr bool CheckedMul(T a, T b, T* result) {
  return !__builtin_mul_overflow(a, b, result);
}
// The next multiple. REQUIRES: it fits; multiple > 0.
constexpr uint64_t RoundUp(uint64_t value, uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}
// base^exponent; false for a negative exponent too. 0^0 is 1.
template <std::integral T>
[[nodiscard]] constexpr bool CheckedPow(T base, T exponent, T* result) {
  if (exponent < 0) return false;
  T value = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && !CheckedMul(value, base, &value)) return false;
    exponent >>= 1;
    if (exponent > 0 && !CheckedMul(base, base, &base)) return false;
  }
  *result = value;
  return true;
}

// ceil(a / b). REQUIRES: b > 0. Never overflows.
template <std::unsigned_integral T>
constexpr T CeilDiv(T a, T b) {
  return a / b + (a % b != 0 ? 1 : 0);
}
// The smaller of a + b and the largest value.
template <std::unsigned_integral T>
constexpr T SaturatingAdd(T a, T b) {
  T sum = 0;
  return CheckedAdd(a, b, &sum) ? sum : std::numeric_limits<T>::max();
}

}  // namespace tandem

#endif  // TANDEM_COMMON_BASE_CHECKED_MATH_H_
