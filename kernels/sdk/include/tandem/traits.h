// The few type traits that bodies and drivers need, without a standard library.
//
// Thread-safety: types only.
#ifndef TANDEM_TRAITS_H_
#define TANDEM_TRAITS_H_

#include "tandem/config.h"

namespace tandem {
inline namespace TANDEM_ISA_NAMESPACE {

template <class A, class B>
inline constexpr bool kSame = false;
template <class A>
inline constexpr bool kSame<A, A> = true;

template <class T>
struct RemoveConst {
  using type = T;
};
template <class T>
struct RemoveConst<const T> {
  using type = T;
};
template <class T>
using Unqualified = typename RemoveConst<T>::type;

template <class T>
struct RemoveReference {
  using type = T;
};
template <class T>
struct RemoveReference<T&> {
  using type = T;
};
template <class T>
using Plain = Unqualified<typename RemoveReference<T>::type>;

template <class T>
inline constexpr bool kConst = !kSame<T, Unqualified<T>>;

template <class...>
using Void = void;

template <class T>
inline constexpr bool kIntegral =
    kSame<T, bool> || kSame<T, char> || kSame<T, signed char> || kSame<T, unsigned char> ||
    kSame<T, short> || kSame<T, unsigned short> || kSame<T, int> || kSame<T, unsigned> ||
    kSame<T, long> || kSame<T, unsigned long> || kSame<T, long long> ||
    kSame<T, unsigned long long>;
template <class T>
inline constexpr bool kFloating = kSame<T, float> || kSame<T, double>;

// The unsigned integer of a size that CUDA's atomic operations take.
template <int kBytes>
struct SizedBits;
template <>
struct SizedBits<4> {
  using type = unsigned;
};
template <>
struct SizedBits<8> {
  using type = unsigned long long;
};

// The bits of `from` as a To of the same size.
template <class To, class From>
TANDEM_FN To BitCast(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  __builtin_memcpy(&to, &from, sizeof(to));
  return to;
}

}  // namespace TANDEM_ISA_NAMESPACE
}  // namespace tandem

#endif  // TANDEM_TRAITS_H_
