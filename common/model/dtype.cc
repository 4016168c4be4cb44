#include "common/model/dtype.h"

#include <array>

namespace tandem {
namespace {

struct Names {
  std::string_view name;
  std::string_view descr;
};

// By the enum's value.
constexpr std::array<Names, 14> kNames = {{{"unspecified", ""},
                                           {"bool", "|b1"},
                                           {"u8", "|u1"},
                                           {"i8", "|i1"},
                                           {"i16", "<i2"},
                                           {"i32", "<i4"},
                                           {"i64", "<i8"},
                                           {"u32", "<u4"},
                                           {"u64", "<u8"},
                                           {"f16", "<f2"},
                                           {"bf16", ""},
                                           {"f32", "<f4"},
                                           {"f64", "<f8"},
                                           {"bytes", ""}}};

}  // namespace

std::string_view DTypeName(DType dtype) {
  const auto index = static_cast<size_t>(dtype);
  return index < kNames.size() ? kNames[index].name : kNames[0].name;
}

std::optional<DType> DTypeFromName(std::string_view name) {
  for (const DType dtype : kAllDTypes) {
    if (DTypeName(dtype) == name) return dtype;
  }
  return std::nullopt;
}

std::string_view DTypeNames() {
  return "bool, u8, i8, i16, i32, i64, u32, u64, f16, bf16, f32, f64 or bytes";
}

std::string_view NpyDescr(DType dtype) {
  const auto index = static_cast<size_t>(dtype);
  return index < kNames.size() ? kNames[index].descr : std::string_view();
}

std::optional<DType> DTypeFromNpyDescr(std::string_view descr) {
  if (descr.size() != 3) return std::nullopt;
  for (const DType dtype : kAllDTypes) {
    const std::string_view own = NpyDescr(dtype);
    if (own.empty() || own.substr(1) != descr.substr(1)) continue;
    // One byte has no order, so any order is right.
    if (descr[0] == '<' || descr[0] == '=' || descr[0] == '|' || DTypeSize(dtype) == 1) {
      return dtype;
    }
  }
  return std::nullopt;
}

}  // namespace tandem
