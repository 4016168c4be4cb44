#include "client/lib/arguments.h"

#include <optional>
#include <set>
#include <utility>

#include "client/lib/dense_operand.h"
#include "client/lib/ragged_operand.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace tandem::client {
namespace {

bool IsGenerator(std::string_view value) {
  for (const std::string_view name : {"uniform", "iota", "constant"}) {
    if (value == name) return true;
    if (value.starts_with(name) && value.size() > name.size() && value[name.size()] == '(')
      return true;
  }
  return false;
}

absl::Status InArgument(const absl::Status& status, std::string_view name) {
  return WithField(WithContext(status, StrCat("argument ", name)), name);
}

class Preparer {
 public:
  Preparer(const KernelInfo& kernel, JobSpec spec) : kernel_(kernel), signature_(kernel.signature) {
    job_.spec = std::move(spec);
    job_.spec.kernel = kernel.identity();
    axes_.assign(signature_.axes().size(), kUnknownExtent);
    scalars_.assign(signature_.scalars().size(), 0);
  }

  absl::StatusOr<PreparedJob> Run(const std::vector<Argument>& arguments) {
    std::set<std::string_view> seen;
    for (const Argument& argument : arguments) {
      if (!seen.insert(argument.name).second) {
        return InvalidError(reason::kBadArgument,
                            StrCat("argument ", argument.name, " is given twice"));
      }
      RETURN_IF_ERROR(CheckKnown(argument.name));
    }
    // What others depend on comes first: scalars, axes, operands with a shape of their own, raw
    // files that get theirs from those, then generators.
    RETURN_IF_ERROR(ForEach(arguments, &Preparer::TakeScalar));
    RETURN_IF_ERROR(DefaultScalars());
    RETURN_IF_ERROR(ForEach(arguments, &Preparer::TakeAxis));
    RETURN_IF_ERROR(ForEach(arguments, &Preparer::TakeShapedOperand));
    last_chance_ = true;
    RETURN_IF_ERROR(ForEach(arguments, &Preparer::TakeShapedOperand));
    RETURN_IF_ERROR(ForEach(arguments, &Preparer::TakeGenerator));
    return std::move(job_);
  }

 private:
  using Take = absl::Status (Preparer::*)(const Argument&);
  absl::Status ForEach(const std::vector<Argument>& arguments, Take take) {
    for (const Argument& argument : arguments) {
      absl::Status status = (this->*take)(argument);
      if (!status.ok()) return InArgument(status, argument.name);
    }
    return absl::OkStatus();
  }

  absl::Status CheckKnown(std::string_view name) const {
    if (signature_.FindScalar(name) >= 0 || signature_.FindOperand(name) >= 0 ||
        signature_.FindAxis(name) >= 0) {
      return absl::OkStatus();
    }
    if (signature_.FindOutput(name) >= 0) {
      return InvalidError(reason::kUnknownOperand, StrCat(name, " is an output of ", kernel_.name,
                                                          ", not an operand: write "
                                                          "it with --out ",
                                                          name, "=@", name, ".npy"));
    }
    std::vector<std::string_view> names;
    for (const auto& scalar : signature_.scalars()) names.push_back(scalar.name);
    for (const auto& operand : signature_.operands()) names.push_back(operand.name);
    for (const auto& axis : signature_.axes()) names.push_back(axis);
    const std::string_view near = Nearest(name, names);
    return InvalidError(
        reason::kUnknownOperand,
        StrCat("kernel ", kernel_.name, " has no operand, scalar or axis ", Quoted(name),
               near.empty() ? "." : StrCat("; did you mean ", near, "?"), " It takes ",
               signature_.ToString()));
  }

  absl::Status TakeScalar(const Argument& argument) {
    const int index = signature_.FindScalar(argument.name);
    if (index < 0) return absl::OkStatus();
    const ScalarSig& scalar = signature_.scalars()[static_cast<size_t>(index)];
    ASSIGN_OR_RETURN(const Scalar value, Scalar::Parse(argument.value, scalar.dtype));
    job_.spec.scalars[argument.name] = value;
    scalars_[static_cast<size_t>(index)] = value.AsInt64().value_or(0);
    return absl::OkStatus();
  }

  absl::Status DefaultScalars() {
    for (size_t i = 0; i < signature_.scalars().size(); ++i) {
      const ScalarSig& scalar = signature_.scalars()[i];
      if (job_.spec.scalars.contains(scalar.name)) continue;
      if (!scalar.default_value.has_value()) {
        return InvalidError(reason::kMissingScalar,
                            StrCat("kernel ", kernel_.name, " needs ", scalar.name, " (",
                                   DTypeName(scalar.dtype), "); give ", scalar.name, "=VALUE"));
      }
      scalars_[i] = scalar.default_value->AsInt64().value_or(0);
    }
    return absl::OkStatus();
  }

  absl::Status TakeAxis(const Argument& argument) {
    const int axis = signature_.FindAxis(argument.name);
    if (axis < 0 || signature_.FindOperand(argument.name) >= 0 ||
        signature_.FindScalar(argument.name) >= 0) {
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const Scalar value, Scalar::Parse(argument.value, DType::kI64));
    const int64_t extent = *value.AsInt64();
    if (extent < 0) return InvalidError(reason::kBadArgument, "an axis has no negative length");
    axes_[static_cast<size_t>(axis)] = extent;
    job_.spec.axis_extents[argument.name] = extent;
    return absl::OkStatus();
  }

  absl::Status TakeShapedOperand(const Argument& argument) {
    const int index = signature_.FindOperand(argument.name);
    if (index < 0 || IsGenerator(argument.value) || job_.spec.operands.contains(argument.name)) {
      return absl::OkStatus();
    }
    const OperandSig& operand = signature_.operands()[static_cast<size_t>(index)];
    if (!last_chance_ && NeedsMoreAxes(operand, argument.value, Known())) return absl::OkStatus();
    OperandSpec spec;
    if (operand.ragged()) {
      ASSIGN_OR_RETURN(spec, RaggedOperand(operand, argument.value, &job_));
    } else {
      ASSIGN_OR_RETURN(spec,
                       DenseOperand(signature_, operand, argument.value, Known(), &job_.uploads));
    }
    LearnAxes(operand, spec.spec);
    job_.spec.operands[argument.name] = std::move(spec);
    return absl::OkStatus();
  }

  absl::Status TakeGenerator(const Argument& argument) {
    const int index = signature_.FindOperand(argument.name);
    if (index < 0 || !IsGenerator(argument.value)) return absl::OkStatus();
    const OperandSig& operand = signature_.operands()[static_cast<size_t>(index)];
    ASSIGN_OR_RETURN(job_.spec.operands[argument.name],
                     GeneratedOperand(signature_, operand, argument.value, Known()));
    return absl::OkStatus();
  }

  // Axes that this operand's shape tells; whether all agree is ValidateAndBind's to say.
  void LearnAxes(const OperandSig& operand, const TensorSpec& spec) {
    if (spec.shape.size() != operand.dims.size()) return;
    for (size_t d = 0; d < operand.dims.size(); ++d) {
      for (size_t axis = 0; axis < axes_.size(); ++axis) {
        const Extent& extent = operand.dims[d];
        if (axes_[axis] != kUnknownExtent || !OnlyUnknownIn(extent, static_cast<int>(axis)))
          continue;
        const auto form = extent.EvaluateLinear(static_cast<int>(axis), Known());
        if (!form.ok() || form->coefficient <= 0) continue;
        const int64_t rest = spec.shape[d] - form->constant;
        if (rest >= 0 && rest % form->coefficient == 0) axes_[axis] = rest / form->coefficient;
      }
    }
  }

  // Is the axis in the extent, linearly, and every other axis there known?
  bool OnlyUnknownIn(const Extent& extent, int axis) const {
    if (!extent.Mentions(axis) || !extent.LinearIn(axis)) return false;
    for (size_t other = 0; other < axes_.size(); ++other) {
      const int index = static_cast<int>(other);
      if (index != axis && extent.Mentions(index) && axes_[other] == kUnknownExtent) return false;
    }
    return true;
  }

  ExtentValues Known() const { return ExtentValues{axes_, scalars_}; }

  const KernelInfo& kernel_;
  const Signature& signature_;
  PreparedJob job_;
  std::vector<int64_t> axes_, scalars_;
  bool last_chance_ = false;  // What was put off is taken now, or refused.
};

}  // namespace

absl::StatusOr<Argument> ParseArgument(std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    return InvalidError(reason::kBadArgument,
                        StrCat(Quoted(text), " is not of the form name=value"));
  }
  return Argument{std::string(text.substr(0, equals)), std::string(text.substr(equals + 1))};
}

absl::StatusOr<PreparedJob> PrepareJob(const KernelInfo& kernel, JobSpec spec,
                                       const std::vector<Argument>& arguments) {
  return Preparer(kernel, std::move(spec)).Run(arguments);
}

}  // namespace tandem::client
