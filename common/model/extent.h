// Extent: the length of one dimension as an integer expression over axes and scalar parameters:
// `n`, `256`, `4^k`, `n + k - 1`, `2 * n`.
//
// Operators, loosest first: + - (left), * (left), ^ (right; the exponent is never negative);
// parentheses. Stored as postfix code whose names are resolved to indices of a Signature.
// Thread-safety: a value type.
#ifndef TANDEM_COMMON_MODEL_EXTENT_H_
#define TANDEM_COMMON_MODEL_EXTENT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace tandem {

// What axes and integer scalars are worth. kUnknownExtent stands for an axis not known yet.
inline constexpr int64_t kUnknownExtent = -1;
struct ExtentValues {
  absl::Span<const int64_t> axes;     // By the signature's axis index.
  absl::Span<const int64_t> scalars;  // By the signature's scalar index; 0 for a float.
};

// constant + coefficient × axis.
struct LinearForm {
  int64_t constant = 0;
  int64_t coefficient = 0;
};

class Extent {
 public:
  enum class Op : uint8_t { kLiteral, kAxis, kScalar, kAdd, kSub, kMul, kPow };
  struct Term {
    Op op = Op::kLiteral;
    int64_t value = 0;  // The literal; the index of the axis or scalar.
    friend bool operator==(const Term&, const Term&) = default;
  };

  Extent() = default;
  explicit Extent(std::vector<Term> postfix) : terms_(std::move(postfix)) {}

  const std::vector<Term>& terms() const { return terms_; }
  bool Mentions(int axis) const;
  // Is it this axis and nothing else?
  bool IsAxis(int axis) const;
  bool IsConstant() const;  // Neither axis nor scalar.
  // Could it be written constant + coefficient × axis, as far as its form tells?
  bool LinearIn(int axis) const;
  // Could it be written coefficient × axis, without a constant?
  bool MultipleOf(int axis) const;
  // Every axis mentioned has a value?
  bool Known(ExtentValues values) const;

  // Errors: INVALID_ARGUMENT TOO_LARGE when an intermediate leaves int64_t, or a negative exponent.
  // REQUIRES: Known(values).
  absl::StatusOr<int64_t> Evaluate(ExtentValues values) const;
  // The form in one axis, all others known. Errors: as Evaluate().
  // REQUIRES: LinearIn(axis); every other axis mentioned has a value.
  absl::StatusOr<LinearForm> EvaluateLinear(int axis, ExtentValues values) const;

  // As in a signature; the names are looked up in the two lists.
  std::string ToString(absl::Span<const std::string> axis_names,
                       absl::Span<const std::string> scalar_names) const;
  friend bool operator==(const Extent&, const Extent&) = default;

 private:
  std::vector<Term> terms_;
};

}  // namespace tandem

#endif  // TANDEM_COMMON_MODEL_EXTENT_H_
