// One ragged operand (a list of byte strings) from files: an item a file. See arguments.h.
//
// Thread-safety: pure functions but for reading files.
#ifndef TANDEM_CLIENT_LIB_RAGGED_OPERAND_H_
#define TANDEM_CLIENT_LIB_RAGGED_OPERAND_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/lib/arguments.h"
#include "common/model/locator.h"
#include "common/model/signature.h"

namespace tandem::client {

// `@DIR/`, `@GLOB`, `@FILE`, `list:FILE`, `list:-`. Names (paths as typed) go to `item_names`.
// Errors: INVALID_ARGUMENT for a directory without files, a name that is not UTF-8, a file that
// cannot be read.
absl::StatusOr<OperandSpec> RaggedOperand(const OperandSig& operand, std::string_view value,
                                          std::vector<Upload>* uploads,
                                          std::vector<std::string>* item_names);

}  // namespace tandem::client

#endif  // TANDEM_CLIENT_LIB_RAGGED_OPERAND_H_
