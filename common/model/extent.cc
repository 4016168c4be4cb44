#include "common/model/extent.h"

#include <algorithm>

#include "absl/container/inlined_vector.h"
#include "common/base/check.h"
#include "common/base/checked_math.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace tandem {
namespace {

using Op = Extent::Op;

template <class T>
using Stack = absl::InlinedVector<T, 8>;

absl::Status Overflow() {
  return InvalidError(reason::kTooLarge, "its value does not fit 63 bits");
}

bool Apply(Op op, int64_t a, int64_t b, int64_t* result) {
  switch (op) {
    case Op::kAdd:
      return CheckedAdd(a, b, result);
    case Op::kSub:
      return CheckedSub(a, b, result);
    case Op::kMul:
      return CheckedMul(a, b, result);
    case Op::kPow:
      return CheckedPow(a, b, result);
    default:
      return false;
  }
}

// a op b for two linear forms. REQUIRES: the result is linear.
bool ApplyLinear(Op op, LinearForm a, LinearForm b, LinearForm* r) {
  if (op == Op::kAdd || op == Op::kSub) {
    return Apply(op, a.constant, b.constant, &r->constant) &&
           Apply(op, a.coefficient, b.coefficient, &r->coefficient);
  }
  if (op == Op::kPow) {
    r->coefficient = 0;
    return CheckedPow(a.constant, b.constant, &r->constant);
  }
  int64_t left = 0;
  int64_t right = 0;
  return CheckedMul(a.constant, b.constant, &r->constant) &&
         CheckedMul(a.coefficient, b.constant, &left) &&
         CheckedMul(a.constant, b.coefficient, &right) && CheckedAdd(left, right, &r->coefficient);
}

int Precedence(Op op) {
  switch (op) {
    case Op::kAdd:
    case Op::kSub:
      return 1;
    case Op::kMul:
      return 2;
    case Op::kPow:
      return 3;
    default:
      return 4;
  }
}

const char* Symbol(Op op) {
  switch (op) {
    case Op::kAdd:
      return " + ";
    case Op::kSub:
      return " - ";
    case Op::kMul:
      return " * ";
    default:
      return "^";
  }
}

}  // namespace

bool Extent::Mentions(int axis) const {
  return std::any_of(terms_.begin(), terms_.end(), [axis](const Term& term) {
    return term.op == Op::kAxis && term.value == axis;
  });
}

bool Extent::IsAxis(int axis) const { return terms_.size() == 1 && Mentions(axis); }

bool Extent::IsConstant() const {
  return std::none_of(terms_.begin(), terms_.end(), [](const Term& term) {
    return term.op == Op::kAxis || term.op == Op::kScalar;
  });
}

bool Extent::LinearIn(int axis) const {
  Stack<int> degrees;  // Of the axis, in each operand of the postfix code; 2 stands for more.
  for (const Term& term : terms_) {
    if (term.op <= Op::kScalar) {
      degrees.push_back(term.op == Op::kAxis && term.value == axis ? 1 : 0);
      continue;
    }
    const int b = degrees.back();
    degrees.pop_back();
    int& a = degrees.back();
    if (term.op == Op::kMul) {
      a = std::min(2, a + b);
    } else if (term.op == Op::kPow) {
      a = a == 0 && b == 0 ? 0 : 2;
    } else {
      a = std::max(a, b);
    }
  }
  return degrees.size() == 1 && degrees[0] <= 1;
}

bool Extent::MultipleOf(int axis) const {
  if (!LinearIn(axis)) return false;
  struct Part {
    bool mentions;
    bool multiple;
  };
  Stack<Part> parts;
  for (const Term& term : terms_) {
    if (term.op <= Op::kScalar) {
      const bool mentions = term.op == Op::kAxis && term.value == axis;
      parts.push_back({mentions, mentions});
      continue;
    }
    const Part b = parts.back();
    parts.pop_back();
    const Part a = parts.back();
    const bool multiple = term.op == Op::kMul ? a.multiple || b.multiple : a.multiple && b.multiple;
    parts.back() = {a.mentions || b.mentions, multiple};
  }
  return parts.size() == 1 && parts[0].multiple;
}

bool Extent::Known(ExtentValues values) const {
  return std::all_of(terms_.begin(), terms_.end(), [&](const Term& term) {
    return term.op != Op::kAxis || values.axes[term.value] != kUnknownExtent;
  });
}

absl::StatusOr<int64_t> Extent::Evaluate(ExtentValues values) const {
  ASSIGN_OR_RETURN(const LinearForm form, EvaluateLinear(-1, values));
  return form.constant;
}

absl::StatusOr<LinearForm> Extent::EvaluateLinear(int axis, ExtentValues values) const {
  Stack<LinearForm> stack;
  for (const Term& term : terms_) {
    if (term.op == Op::kLiteral) {
      stack.push_back({term.value, 0});
    } else if (term.op == Op::kScalar) {
      stack.push_back({values.scalars[term.value], 0});
    } else if (term.op == Op::kAxis) {
      stack.push_back(term.value == axis ? LinearForm{0, 1}
                                         : LinearForm{values.axes[term.value], 0});
    } else {
      const LinearForm b = stack.back();
      stack.pop_back();
      LinearForm result;
      if (!ApplyLinear(term.op, stack.back(), b, &result)) return Overflow();
      stack.back() = result;
    }
  }
  DCHECK_EQ(stack.size(), 1u);
  return stack.back();
}

std::string Extent::ToString(absl::Span<const std::string> axis_names,
                             absl::Span<const std::string> scalar_names) const {
  struct Text {
    std::string text;
    int precedence;
  };
  Stack<Text> stack;
  for (const Term& term : terms_) {
    if (term.op == Op::kLiteral) {
      stack.push_back({StrCat(term.value), 4});
    } else if (term.op == Op::kAxis) {
      stack.push_back({axis_names[term.value], 4});
    } else if (term.op == Op::kScalar) {
      stack.push_back({scalar_names[term.value], 4});
    } else {
      const Text b = stack.back();
      stack.pop_back();
      const Text a = stack.back();
      const int own = Precedence(term.op);
      auto wrap = [](const Text& t, bool parentheses) {
        return parentheses ? StrCat("(", t.text, ")") : t.text;
      };
      // + - * lean left, ^ leans right.
      const bool right = term.op == Op::kPow;
      stack.back() = {
          StrCat(wrap(a, a.precedence < own || (right && a.precedence == own)), Symbol(term.op),
                 wrap(b, b.precedence < own || (!right && b.precedence == own))),
          own};
    }
  }
  return stack.empty() ? "" : stack.back().text;
}

}  // namespace tandem
