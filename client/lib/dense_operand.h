// One dense operand from what was typed for it. See arguments.h for the forms.
//
// Thread-safety: pure functions but for reading files.
#ifndef TANDEM_CLIENT_LIB_DENSE_OPERAND_H_
#define TANDEM_CLIENT_LIB_DENSE_OPERAND_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/lib/arguments.h"
#include "common/model/locator.h"
#include "common/model/signature.h"

namespace tandem::client {

// Bytes up to this many travel inside the job itself.
inline constexpr uint64_t kInlineBytesMax = 16 << 10;

// A locator for the bytes: inline where they are few, else a blob that is added to `uploads`.
absl::StatusOr<Locator> LocateBytes(const ByteSource& source, std::string_view what,
                                    std::vector<Upload>* uploads);

// `@…`, `path:…` and `[…]`. `known` are the axes' extents so far (kUnknownExtent where not known),
// for raw files. Errors: INVALID_ARGUMENT.
absl::StatusOr<OperandSpec> DenseOperand(const Signature& signature, const OperandSig& operand,
                                         std::string_view value, ExtentValues known,
                                         std::vector<Upload>* uploads);

// Is it a raw file whose shape cannot be told before more axes are known?
bool NeedsMoreAxes(const OperandSig& operand, std::string_view value, ExtentValues known);

// A generator, whose shape follows from the axes. Errors: INVALID_ARGUMENT MISSING_AXIS_EXTENT.
absl::StatusOr<OperandSpec> GeneratedOperand(const Signature& signature, const OperandSig& operand,
                                             std::string_view value, ExtentValues known);

}  // namespace tandem::client

#endif  // TANDEM_CLIENT_LIB_DENSE_OPERAND_H_
