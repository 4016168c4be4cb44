// Lists of messages, item by item: for the .cc files of this folder.
//
// It includes every header with an Encode and a Decode, so that the templates find them all.
//
// Thread-safety: pure functions.
#ifndef TANDEM_COMMON_WIRE_LISTS_H_
#define TANDEM_COMMON_WIRE_LISTS_H_

#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/optimization.h"
#include "absl/status/status.h"
#include "common/base/error.h"
#include "common/base/strings.h"
#include "common/wire/decode_util.h"
#include "common/wire/job_spec.h"
#include "common/wire/kernel.h"
#include "common/wire/lease_messages.h"
#include "common/wire/session.h"
#include "google/protobuf/repeated_ptr_field.h"

namespace tandem::wire {

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

#endif  // TANDEM_COMMON_WIRE_LISTS_H_
