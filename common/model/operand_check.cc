#include "common/model/operand_check.h"

#include <vector>

#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace tandem {
namespace {

std::vector<const Locator*> LocatorsOf(const OperandSpec& operand) {
  std::vector<const Locator*> locators;
  if (const auto* locator = std::get_if<Locator>(&operand.source)) {
    locators.push_back(locator);
  } else if (const auto* packed = std::get_if<RaggedPacked>(&operand.source)) {
    locators = {&packed->offsets, &packed->data};
  } else if (const auto* list = std::get_if<RaggedItems>(&operand.source)) {
    for (const Locator& item : list->items) locators.push_back(&item);
  }
  return locators;
}

// What the locator is, where this version does not honour it; else "".
std::string_view NotHonoured(const Locator& locator, const Capabilities& can) {
  if (std::holds_alternative<JobOutputLocator>(locator) && !can.job_outputs) {
    return "the output of another job";
  }
  if (std::holds_alternative<PathLocator>(locator) && !can.paths) return "a shared path";
  return "";
}

absl::Status CheckLocators(const OperandSig& sig, const OperandSpec& operand,
                           const Capabilities& can, const JobLimits& limits) {
  uint64_t inline_bytes = 0;
  for (const Locator* locator : LocatorsOf(operand)) {
    if (const std::string_view what = NotHonoured(*locator, can); !what.empty()) {
      return Error(absl::StatusCode::kUnimplemented, reason::kNotYetHonoured,
                   StrCat("operand ", sig.name, " is ", what, " (", LocatorToString(*locator),
                          "), which is not honoured by this version: upload its bytes instead"));
    }
    if (const auto* bytes = std::get_if<InlineLocator>(locator)) {
      inline_bytes += bytes->bytes.size();
    }
  }
  if (inline_bytes > limits.inline_bytes_max) {
    return InvalidError(
        reason::kLimitExceeded,
        StrCat("operand ", sig.name, " has ", HumanSize(inline_bytes), " inline, more than ",
               HumanSize(limits.inline_bytes_max), ": upload it as a blob"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckOperand(const OperandSig& sig, const OperandSpec& operand,
                          const Capabilities& capabilities, const JobLimits& limits) {
  if (operand.spec.dtype != sig.dtype) {
    return InvalidError(
        reason::kDtypeMismatch,
        StrCat("operand ", sig.name, " is ", DTypeName(operand.spec.dtype),
               ", but the kernel takes ", DTypeName(sig.dtype), ": convert it first"));
  }
  if (operand.spec.shape.size() > limits.rank_max) {
    return InvalidError(reason::kLimitExceeded,
                        StrCat("operand ", sig.name, " has ", operand.spec.shape.size(),
                               " dimensions, more than ", limits.rank_max));
  }
  const auto* list = std::get_if<RaggedItems>(&operand.source);
  if (list != nullptr && list->items.size() > limits.ragged_items_max) {
    return InvalidError(
        reason::kLimitExceeded,
        StrCat("operand ", sig.name, " lists ", list->items.size(), " items, more than ",
               limits.ragged_items_max, ": pack them into offsets and data"));
  }
  RETURN_IF_ERROR(WithContext(ValidateOperandSpec(operand), StrCat("operand ", sig.name)));
  return CheckLocators(sig, operand, capabilities, limits);
}

}  // namespace tandem
