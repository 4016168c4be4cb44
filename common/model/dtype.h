// DType: what the elements of a tensor are.
//
// `bytes` is ragged: each item is a byte string of its own length. f16 and bf16 are storage types;
// arithmetic on them is in f32. Values in memory are little-endian.
// Thread-safety: pure functions.
#ifndef TANDEM_COMMON_MODEL_DTYPE_H_
#define TANDEM_COMMON_MODEL_DTYPE_H_

#include <cstdint>
#include <optional>
#include <ostream>
#include <string_view>

namespace tandem {

enum class DType : uint8_t {
  kUnspecified = 0,
  kBool,
  kU8,
  kI8,
  kI16,
  kI32,
  kI64,
  kU32,
  kU64,
  kF16,
  kBf16,
  kF32,
  kF64,
  kBytes,
};
inline constexpr DType kAllDTypes[] = {
    DType::kBool, DType::kU8,  DType::kI8,   DType::kI16, DType::kI32, DType::kI64,  DType::kU32,
    DType::kU64,  DType::kF16, DType::kBf16, DType::kF32, DType::kF64, DType::kBytes};

// Bytes of one element; 0 for kBytes (ragged) and kUnspecified.
constexpr uint64_t DTypeSize(DType dtype) {
  switch (dtype) {
    case DType::kBool:
    case DType::kU8:
    case DType::kI8:
      return 1;
    case DType::kI16:
    case DType::kF16:
    case DType::kBf16:
      return 2;
    case DType::kI32:
    case DType::kU32:
    case DType::kF32:
      return 4;
    case DType::kI64:
    case DType::kU64:
    case DType::kF64:
      return 8;
    case DType::kUnspecified:
    case DType::kBytes:
      return 0;
  }
  return 0;
}

constexpr bool IsFloat(DType d) {
  return d == DType::kF16 || d == DType::kBf16 || d == DType::kF32 || d == DType::kF64;
}
constexpr bool IsSigned(DType d) {
  return d == DType::kI8 || d == DType::kI16 || d == DType::kI32 || d == DType::kI64;
}
// Signed or unsigned; bool is neither.
constexpr bool IsInteger(DType d) {
  return IsSigned(d) || d == DType::kU8 || d == DType::kU32 || d == DType::kU64;
}

// "f32"; "unspecified".
std::string_view DTypeName(DType dtype);
std::optional<DType> DTypeFromName(std::string_view name);
// "bool, u8, …": for errors.
std::string_view DTypeNames();

// The `descr` of a .npy header ("<f4"), "" for bf16 (numpy has none), kBytes and kUnspecified.
std::string_view NpyDescr(DType dtype);
// Accepts '<', '=' and '|' byte orders; a big-endian descr gives nothing.
std::optional<DType> DTypeFromNpyDescr(std::string_view descr);

inline std::ostream& operator<<(std::ostream& out, DType dtype) { return out << DTypeName(dtype); }

}  // namespace tandem

#endif  // TANDEM_COMMON_MODEL_DTYPE_H_
