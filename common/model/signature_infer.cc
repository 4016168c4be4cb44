// Signature::InferAxes: solving the extents of axes from operands' shapes.
#include <algorithm>

#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/model/signature.h"

namespace tandem {
namespace {

// One dimension of one operand.
struct Place {
  const Signature* signature;
  const OperandSig* operand;
  size_t dim;
  int64_t actual;

  const Extent& extent() const { return operand->dims[dim]; }
  std::string ToString() const {
    return StrCat("operand ", operand->name, ", dimension ", dim, " (",
                  signature->ExtentToString(extent()), ")");
  }
};

absl::Status Mismatch(const Place& place, std::string_view what) {
  return WithField(InvalidError(reason::kShapeMismatch, StrCat(place.ToString(), " ", what)),
                   StrCat("operands.", place.operand->name, ".shape"));
}

// The one axis of the extent that is not known yet, -1 when there is none or more than one.
int OnlyUnknown(const Extent& extent, absl::Span<const int64_t> axes) {
  int unknown = -1;
  for (const Extent::Term& term : extent.terms()) {
    if (term.op != Extent::Op::kAxis || axes[term.value] != kUnknownExtent) continue;
    if (unknown >= 0 && unknown != term.value) return -1;
    unknown = static_cast<int>(term.value);
  }
  return unknown;
}

// Solves extent = actual for one axis; kUnknownExtent when the axis drops out.
absl::StatusOr<int64_t> Solve(const Place& place, int axis, ExtentValues values) {
  const absl::StatusOr<LinearForm> form = place.extent().EvaluateLinear(axis, values);
  if (!form.ok()) return WithContext(form.status(), place.ToString());
  if (form->coefficient == 0) return kUnknownExtent;
  if (form->coefficient < 0) {
    return Mismatch(place, StrCat("shrinks as ", place.signature->axes()[axis], " grows"));
  }
  if (form->constant < 0) {
    return Mismatch(place, StrCat("reaches back ", -form->constant,
                                  " elements: a window cannot be shorter than a task"));
  }
  if (place.actual < form->constant) return 0;  // Not even one window.
  const int64_t rest = place.actual - form->constant;
  if (rest % form->coefficient != 0) {
    return Mismatch(place, StrCat("has ", place.actual, " elements, which is not ",
                                  form->coefficient, " for each task",
                                  form->constant == 0 ? "" : StrCat(" and ", form->constant)));
  }
  return rest / form->coefficient;
}

// A window over an axis without tasks may have fewer elements than the window.
bool ShorterThanOneWindow(const Place& place, int64_t expected, absl::Span<const int64_t> axes) {
  if (place.actual >= expected) return false;
  return std::any_of(place.extent().terms().begin(), place.extent().terms().end(),
                     [&](const Extent::Term& term) {
                       return term.op == Extent::Op::kAxis && axes[term.value] == 0 &&
                              place.extent().LinearIn(static_cast<int>(term.value));
                     });
}

}  // namespace

absl::StatusOr<std::vector<int64_t>> Signature::InferAxes(
    absl::Span<const Shape> operand_shapes, absl::Span<const int64_t> scalar_values,
    absl::Span<const int64_t> given_axes) const {
  std::vector<int64_t> axes(given_axes.begin(), given_axes.end());
  const ExtentValues values{axes, scalar_values};
  std::vector<std::string> origin(axes.size(), "given by the job");
  std::vector<Place> places;
  for (size_t i = 0; i < operands_.size(); ++i) {
    const OperandSig& operand = operands_[i];
    const Shape& shape = operand_shapes[i];
    if (shape.size() != operand.dims.size()) {
      return WithField(
          InvalidError(reason::kShapeMismatch,
                       StrCat("operand ", operand.name, " has the shape ", ShapeToString(shape),
                              ", but the kernel takes ", operand.dims.size(), " dimensions")),
          StrCat("operands.", operand.name, ".shape"));
    }
    for (size_t d = 0; d < shape.size(); ++d) places.push_back({this, &operand, d, shape[d]});
  }
  for (bool progress = true; progress;) {
    progress = false;
    for (const Place& place : places) {
      const int axis = OnlyUnknown(place.extent(), axes);
      if (axis < 0 || !place.extent().LinearIn(axis)) continue;
      ASSIGN_OR_RETURN(const int64_t extent, Solve(place, axis, values));
      if (extent == kUnknownExtent) continue;
      axes[axis] = extent;
      origin[axis] = StrCat("from operand ", place.operand->name);
      progress = true;
    }
  }
  for (size_t axis = 0; axis < axes.size(); ++axis) {
    if (axes[axis] != kUnknownExtent) continue;
    return WithField(InvalidError(reason::kMissingAxisExtent,
                                  StrCat("the extent of axis ", axes_[axis],
                                         " follows from no operand: give it with the job")),
                     StrCat("axis_extents.", axes_[axis]));
  }
  for (const Place& place : places) {
    const absl::StatusOr<int64_t> expected = place.extent().Evaluate(values);
    if (!expected.ok()) return WithContext(expected.status(), place.ToString());
    if (*expected == place.actual || ShorterThanOneWindow(place, *expected, axes)) continue;
    std::string why;
    for (size_t axis = 0; axis < axes.size(); ++axis) {
      if (!place.extent().Mentions(static_cast<int>(axis))) continue;
      StrAppend(&why, why.empty() ? ", as " : " and ", axes_[axis], " = ", axes[axis], " (",
                origin[axis], ")");
    }
    return Mismatch(place, StrCat("has ", place.actual, " elements, expected ", *expected, why));
  }
  return axes;
}

}  // namespace tandem
