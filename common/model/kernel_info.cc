#include "common/model/kernel_info.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_format.h"
#include "common/base/error.h"
#include "common/base/strings.h"

namespace tandem {
namespace {

bool IsName(std::string_view text) {
  auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !text.empty() && letter(text[0]) && std::all_of(text.begin(), text.end(), [&](char c) {
    return letter(c) || (c >= '0' && c <= '9');
  });
}

}  // namespace

std::string_view OutputClassName(OutputClass output_class) {
  switch (output_class) {
    case OutputClass::kExact:
      return "exact";
    case OutputClass::kBitwise:
      return "bitwise";
    case OutputClass::kTolerant:
      return "tolerant";
    case OutputClass::kUnspecified:
      break;
  }
  return "unspecified";
}

std::string KernelInfo::identity() const {
  return StrCat(name, "@", absl::StrFormat("%016x", content_hash));
}

std::string KernelInfo::FaultReason(uint32_t code) const {
  if (code < fault_reasons.size()) return fault_reasons[code];
  return StrCat("fault ", code, " (the kernel ", name, " has no text for it)");
}

OutputClass KernelInfo::ClassOf(const OutputSig& output) const {
  if (output_class == OutputClass::kExact && output.reduction == Reduction::kMerge) {
    return OutputClass::kBitwise;  // Merged in the order of the tasks.
  }
  if (output_class != OutputClass::kBitwise) return output_class;
  const bool any_order = output.reduction == Reduction::kMin ||
                         output.reduction == Reduction::kMax ||
                         (!IsFloat(output.dtype) && output.reduction != Reduction::kMerge);
  return any_order ? OutputClass::kExact : OutputClass::kBitwise;
}

absl::StatusOr<KernelRef> ParseKernelRef(std::string_view text) {
  const size_t at = text.find('@');
  KernelRef ref;
  ref.name = std::string(text.substr(0, at));
  if (!IsName(ref.name)) {
    return InvalidError(reason::kBadArgument,
                        StrCat(Quoted(text), " is not a kernel: write a name, such as histogram"));
  }
  if (at == std::string_view::npos) return ref;
  uint8_t bytes[8];
  if (!FromHex(text.substr(at + 1), bytes, sizeof bytes)) {
    return InvalidError(reason::kBadArgument,
                        StrCat(Quoted(text),
                               " is not a kernel: after @ come the 16 hexadecimal "
                               "digits that tandem kernel show prints"));
  }
  for (const uint8_t byte : bytes) ref.content_hash = ref.content_hash << 8 | byte;
  return ref;
}

absl::StatusOr<double> UnitsPerTask(const CostHint& cost, const Signature& signature,
                                    absl::Span<const int64_t> axes,
                                    absl::Span<const Scalar> scalars) {
  if (cost.units.empty()) return 1.0;
  double product = 1;
  for (const std::string_view piece : Split(cost.units, '*')) {
    const std::string_view factor = Trim(piece);
    const int axis = signature.FindAxis(factor);
    const int scalar = signature.FindScalar(factor);
    if (axis >= 0) {
      product *= static_cast<double>(axes[axis]);
    } else if (scalar >= 0) {
      product *= scalars[scalar].AsDouble();
    } else {
      const absl::StatusOr<Scalar> number = Scalar::Parse(factor, DType::kF64);
      if (!number.ok()) {
        return InvalidError(reason::kBadSignature,
                            StrCat("the cost hint ", Quoted(cost.units), " has the factor ",
                                   Quoted(factor), ", which is no number, axis or scalar"));
      }
      product *= number->AsDouble();
    }
  }
  return product;
}

uint64_t DefaultGrain(const CostHint& cost, double ns_per_task) {
  if (cost.grain != 0) return cost.grain;
  if (!(ns_per_task > 0)) return 1;
  const double tasks = std::clamp(kLeafNanos / ns_per_task, 1.0, 0x1p32);
  return std::bit_floor(static_cast<uint64_t>(tasks));
}

}  // namespace tandem
