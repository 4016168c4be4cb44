// Texts of requests: Protobuf carries UTF-8 only, and its own refusal would name neither the text
// nor what to do.
//
//   RETURN_IF_ERROR(CheckText("worker", worker));
//
// Thread-safety: pure functions.
#ifndef TANDEM_CLIENT_LIB_TEXTS_H_
#define TANDEM_CLIENT_LIB_TEXTS_H_

#include <string_view>

#include "absl/status/status.h"
#include "common/base/error.h"
#include "common/base/strings.h"
#include "common/base/utf8.h"

namespace tandem::client {

// Errors: INVALID_ARGUMENT BAD_ARGUMENT that names the field and shows the text.
inline absl::Status CheckText(std::string_view field, std::string_view text) {
  if (IsUtf8(text)) return absl::OkStatus();
  return WithField(InvalidError(reason::kBadArgument,
                                StrCat("the ", field, " ", Quoted(text),
                                       " is not UTF-8, as every name is; type it anew, or set the "
                                       "terminal to UTF-8")),
                   field);
}

}  // namespace tandem::client

#endif  // TANDEM_CLIENT_LIB_TEXTS_H_
