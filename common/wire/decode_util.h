// What the decoders of this folder share: how a malformed field is named, texts within bounds.
//
// Thread-safety: pure functions.
#ifndef TANDEM_COMMON_WIRE_DECODE_UTIL_H_
#define TANDEM_COMMON_WIRE_DECODE_UTIL_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/optimization.h"
#include "absl/status/status.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "google/protobuf/repeated_ptr_field.h"

namespace tandem::wire {

// INVALID_ARGUMENT PROTOCOL_ERROR: "<field> <what>", with the field as its path.
absl::Status Malformed(std::string_view field, std::string_view what);

// At most `bytes_max` bytes, and UTF-8 without control characters other than tab and newline.
absl::Status CheckText(std::string_view text, size_t bytes_max, std::string_view field);
bool IsUtf8(std::string_view text);
// `text`, cut at a character to at most `bytes_max` bytes, with U+FFFD for what is not UTF-8.
std::string CleanText(std::string_view text, size_t bytes_max);

// field[index]
std::string Indexed(std::string_view field, int64_t index);

// [first, first + count) is not empty and does not overflow.
inline absl::Status CheckInterval(uint64_t first, uint64_t count, std::string_view field) {
  if (ABSL_PREDICT_FALSE(count == 0)) return Malformed(field, "is empty");
  if (ABSL_PREDICT_FALSE(first + count < first)) return Malformed(field, "overflows");
  return absl::OkStatus();
}

// Decodes each item of a list into `to`, naming the item that is malformed.
template <class Proto, class Model>
absl::Status DecodeList(google::protobuf::RepeatedPtrField<Proto>* from, std::vector<Model>* to,
                        int items_max, std::string_view field) {
  if (from->size() > items_max) {
    return Malformed(field, StrCat("has ", from->size(), " items; at most ", items_max));
  }
  to->resize(static_cast<size_t>(from->size()));
  for (int i = 0; i < from->size(); ++i) {
    absl::Status status;
    if constexpr (requires { Decode(from->Mutable(i), &(*to)[i]); }) {
      status = Decode(from->Mutable(i), &(*to)[static_cast<size_t>(i)]);
    } else {
      status = Decode(from->Get(i), &(*to)[static_cast<size_t>(i)]);
    }
    if (ABSL_PREDICT_FALSE(!status.ok())) return WithField(std::move(status), Indexed(field, i));
  }
  return absl::OkStatus();
}

template <class Model, class Proto>
void EncodeList(const std::vector<Model>& from, google::protobuf::RepeatedPtrField<Proto>* to) {
  to->Reserve(to->size() + static_cast<int>(from.size()));
  for (const Model& item : from) Encode(item, to->Add());
}

}  // namespace tandem::wire

#endif  // TANDEM_COMMON_WIRE_DECODE_UTIL_H_
