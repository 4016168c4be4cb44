// What g++, clang and nvcc have built in and NVRTC has under other names. Included by config.h,
// there alone.
//
// Thread-safety: macros and a type.
#ifndef TANDEM_RTC_BUILTINS_H_
#define TANDEM_RTC_BUILTINS_H_

typedef unsigned long long uintptr_t;
#define __builtin_memcpy(to, from, bytes) ::memcpy(to, from, bytes)
#define __builtin_sqrtf(x) ::sqrtf(x)
#define __builtin_sqrt(x) ::sqrt(x)
#define __builtin_floorf(x) ::floorf(x)
#define __builtin_floor(x) ::floor(x)
#define __builtin_ceilf(x) ::ceilf(x)
#define __builtin_ceil(x) ::ceil(x)
#define __builtin_rintf(x) ::rintf(x)
#define __builtin_rint(x) ::rint(x)
// The quiet NaNs of the other compilers, bit by bit.
#define __builtin_inff() __builtin_bit_cast(float, 0x7f800000u)
#define __builtin_inf() __builtin_bit_cast(double, 0x7ff0000000000000ull)
#define __builtin_nanf(text) __builtin_bit_cast(float, 0x7fc00000u)
#define __builtin_nan(text) __builtin_bit_cast(double, 0x7ff8000000000000ull)

#endif  // TANDEM_RTC_BUILTINS_H_
