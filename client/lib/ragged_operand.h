// One ragged operand (a list of byte strings) from files: an item a file. See arguments.h and
// file_list.h.
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

// `@FILES` (uploaded) or `path:FILES` (read by the workers). The items' names go to `job` (as they
// were typed) and, where they are not too long in all, into the operand.
// Errors: INVALID_ARGUMENT: no files, a name that is not UTF-8, a file that cannot be read.
absl::StatusOr<OperandSpec> RaggedOperand(const OperandSig& operand, std::string_view value,
                                          PreparedJob* job);

}  // namespace tandem::client

#endif  // TANDEM_CLIENT_LIB_RAGGED_OPERAND_H_
