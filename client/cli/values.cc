#include "client/cli/values.h"

#include <cstring>

#include "common/base/strings.h"
#include "common/model/scalar.h"

namespace tandem::cli {

using Json = nlohmann::ordered_json;

Json ValuesOf(DType dtype, std::string_view bytes) {
  const uint64_t size = DTypeSize(dtype);
  Json values = Json::array();
  for (uint64_t at = 0; at + size <= bytes.size(); at += size) {
    uint64_t bits = 0;
    std::memcpy(&bits, bytes.data() + at, size);
    const std::string text = Scalar::FromBits(dtype, bits).ToString();
    Json value = Json::parse(text, nullptr, false);
    values.push_back(value.is_number() || value.is_boolean() ? value : Json(text));
  }
  return values;
}

std::string ValueText(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) return value.dump();
  std::string text = "[";
  for (const Json& one : value) StrAppend(&text, text.size() == 1 ? "" : ", ", ValueText(one));
  return text + "]";
}

}  // namespace tandem::cli
