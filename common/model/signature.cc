#include "common/model/signature.h"

#include <algorithm>

#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/model/signature_parser.h"

namespace tandem {
namespace {

template <class Things>
int FindByName(const Things& things, std::string_view name) {
  for (size_t i = 0; i < things.size(); ++i) {
    if (things[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

int CountMentions(const std::vector<Extent>& dims, int axis) {
  return static_cast<int>(std::count_if(
      dims.begin(), dims.end(), [axis](const Extent& extent) { return extent.Mentions(axis); }));
}

std::vector<std::string> NamesOf(const std::vector<ScalarSig>& scalars) {
  std::vector<std::string> names;
  for (const ScalarSig& scalar : scalars) names.push_back(scalar.name);
  return names;
}

absl::Status NotSplittable(std::string_view axis, std::string_view why) {
  return InvalidError(reason::kAxisNotSplittable, StrCat("axis ", axis, " cannot be split: ", why));
}

}  // namespace

absl::StatusOr<Signature> Signature::Parse(std::string_view text) {
  return SignatureParser(text).Parse();
}

int Signature::FindOperand(std::string_view name) const { return FindByName(operands_, name); }
int Signature::FindScalar(std::string_view name) const { return FindByName(scalars_, name); }
int Signature::FindOutput(std::string_view name) const { return FindByName(outputs_, name); }
int Signature::FindAxis(std::string_view name) const {
  const auto it = std::find(axes_.begin(), axes_.end(), name);
  return it == axes_.end() ? -1 : static_cast<int>(it - axes_.begin());
}

bool Signature::Bound(int axis) const {
  for (const OperandSig& operand : operands_) {
    for (const Extent& extent : operand.dims) {
      if (extent.Mentions(axis) && extent.LinearIn(axis)) return true;
    }
  }
  return false;
}

absl::Status Signature::CheckSplittable(int axis, absl::Span<const int> task_axes) const {
  const std::string& name = axes_[axis];
  for (const OperandSig& operand : operands_) {
    if (CountMentions(operand.dims, axis) > 1) {
      return NotSplittable(name, StrCat("operand ", operand.name, " has it in two dimensions"));
    }
    for (const Extent& extent : operand.dims) {
      if (!extent.LinearIn(axis)) {
        return NotSplittable(name, StrCat("operand ", operand.name, " has an extent ",
                                          ExtentToString(extent), ", which is not linear in it"));
      }
    }
  }
  for (const OutputSig& output : outputs_) {
    const int mentions = CountMentions(output.dims, axis);
    if (mentions > 1) {
      return NotSplittable(name, StrCat("output ", output.name, " has it in two dimensions"));
    }
    if (mentions == 0 && output.reduction == Reduction::kNone) {
      return NotSplittable(
          name, StrCat("output ", output.name, " does not have it and names no reduction"));
    }
    for (const Extent& extent : output.dims) {
      if (!extent.Mentions(axis)) continue;
      if (!extent.MultipleOf(axis)) {
        return NotSplittable(
            name, StrCat("output ", output.name, " has an extent ", ExtentToString(extent),
                         ", which is not a multiple of it"));
      }
    }
  }
  if (std::find(task_axes.begin(), task_axes.end(), axis) == task_axes.end()) {
    std::string declared;
    for (const int task_axis : task_axes) {
      StrAppend(&declared, declared.empty() ? "" : " or ", axes_[task_axis]);
    }
    return NotSplittable(name, StrCat("the kernel's tasks run along ", declared,
                                      "; another axis must be declared by its signature"));
  }
  return absl::OkStatus();
}

absl::StatusOr<TensorSpec> Signature::OutputSpec(int output, ExtentValues values) const {
  const OutputSig& sig = outputs_[output];
  TensorSpec spec;
  spec.dtype = sig.dtype;
  for (const Extent& extent : sig.dims) {
    const absl::StatusOr<int64_t> value = extent.Evaluate(values);
    if (!value.ok()) {
      return WithContext(value.status(),
                         StrCat("output ", sig.name, ", extent ", ExtentToString(extent)));
    }
    if (*value < 0) {
      return InvalidError(reason::kShapeMismatch,
                          StrCat("output ", sig.name, " would have the extent ",
                                 ExtentToString(extent), " = ", *value, ", which is negative"));
    }
    spec.shape.push_back(*value);
  }
  return spec;
}

std::string Signature::ExtentToString(const Extent& extent) const {
  return extent.ToString(axes_, NamesOf(scalars_));
}

std::string Signature::ToString() const {
  auto dims_text = [this](const std::vector<Extent>& dims) {
    std::string text;
    for (const Extent& extent : dims) {
      StrAppend(&text, text.empty() ? "[" : ", ", ExtentToString(extent));
    }
    return text.empty() ? text : text + "]";
  };
  std::string text;
  auto separate = [&text] { StrAppend(&text, text.empty() ? "" : ", "); };
  auto declare_before = [&](size_t input) {
    for (const Declaration& declaration : declarations_) {
      if (declaration.before_input != static_cast<int>(input)) continue;
      separate();
      StrAppend(&text, "axis ", axes_[declaration.axis]);
    }
  };
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const Input& input = inputs_[i];
    declare_before(i);
    separate();
    if (input.kind == InputKind::kOperand) {
      const OperandSig& operand = operands_[input.index];
      StrAppend(&text, operand.name, dims_text(operand.dims), ":", DTypeName(operand.dtype));
      continue;
    }
    const ScalarSig& scalar = scalars_[input.index];
    StrAppend(&text, scalar.name, ":", DTypeName(scalar.dtype));
    if (scalar.default_value.has_value()) StrAppend(&text, " = ", *scalar.default_value);
    if (scalar.lo.has_value()) StrAppend(&text, " in [", *scalar.lo, ", ", *scalar.hi, "]");
  }
  declare_before(inputs_.size());
  text += text.empty() ? "->" : " ->";
  bool first = true;
  for (const OutputSig& output : outputs_) {
    StrAppend(&text, first ? " " : ", ", output.name, dims_text(output.dims), ":",
              DTypeName(output.dtype));
    first = false;
    if (output.reduction != Reduction::kNone) {
      StrAppend(&text, " : ", ReductionName(output.reduction));
    }
  }
  return text;
}

}  // namespace tandem
