#include "common/model/signature_parser.h"

#include <algorithm>
#include <charconv>

#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace tandem {
namespace {

constexpr int kDepthMax = 64;

bool IsNameStart(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsBlank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

}  // namespace

void SignatureParser::Advance() {
  while (position_ < text_.size() && IsBlank(text_[position_])) ++position_;
  const size_t start = position_;
  auto peek = [&] { return position_ < text_.size() ? text_[position_] : '\0'; };
  token_.column = start + 1;
  if (start == text_.size()) {
    token_.kind = TokenKind::kEnd;
  } else if (IsNameStart(peek())) {
    token_.kind = TokenKind::kName;
    while (IsNameStart(peek()) || IsDigit(peek())) ++position_;
  } else if (IsDigit(peek()) || peek() == '.') {
    token_.kind = TokenKind::kNumber;
    while (IsDigit(peek()) || peek() == '.' || IsNameStart(peek()) ||
           ((peek() == '-' || peek() == '+') && (text_[position_ - 1] | 0x20) == 'e')) {
      ++position_;
    }
  } else if (text_.substr(start, 2) == "->") {
    token_.kind = TokenKind::kArrow;
    position_ += 2;
  } else {
    const bool known = std::string_view("[](),:=+-*^").find(peek()) != std::string_view::npos;
    token_.kind = known ? TokenKind::kSymbol : TokenKind::kBad;
    ++position_;
  }
  token_.text = text_.substr(start, position_ - start);
}

bool SignatureParser::At(std::string_view symbol) const {
  return token_.kind == TokenKind::kSymbol && token_.text == symbol;
}

bool SignatureParser::AtName(std::string_view name) const {
  return token_.kind == TokenKind::kName && token_.text == name;
}

bool SignatureParser::Take(std::string_view symbol) {
  if (!At(symbol)) return false;
  Advance();
  return true;
}

absl::Status SignatureParser::ErrorAt(size_t column, std::string_view message) const {
  return InvalidError(reason::kBadSignature, StrCat("signature, column ", column, ": ", message));
}

absl::Status SignatureParser::Expected(std::string_view what) const {
  const std::string found =
      token_.kind == TokenKind::kEnd ? "the end of the text" : Quoted(token_.text);
  return ErrorAt(token_.column, StrCat("expected ", what, ", found ", found));
}

absl::StatusOr<Signature> SignatureParser::Parse() {
  if (text_.size() > Signature::kTextBytesMax) {
    return ErrorAt(Signature::kTextBytesMax + 1,
                   StrCat("the text is longer than ", Signature::kTextBytesMax, " bytes"));
  }
  Advance();
  if (token_.kind != TokenKind::kArrow) {
    do {
      RETURN_IF_ERROR(ParseInput());
    } while (Take(","));
  }
  if (token_.kind != TokenKind::kArrow) return Expected("\",\" or \"->\"");
  Advance();
  if (token_.kind != TokenKind::kEnd) {
    do {
      RETURN_IF_ERROR(ParseOutput());
    } while (Take(","));
  }
  if (token_.kind != TokenKind::kEnd) return Expected("\",\" or the end");
  RETURN_IF_ERROR(ResolveMentions());
  RETURN_IF_ERROR(ResolveExtents());
  RETURN_IF_ERROR(CheckAxesAreBound());
  // The canonical text is what travels, and has to parse where it arrives.
  if (result_.ToString().size() > Signature::kTextBytesMax) {
    return ErrorAt(text_.size() + 1,
                   StrCat("in canonical form, with its blanks, the text is longer than ",
                          Signature::kTextBytesMax, " bytes"));
  }
  return std::move(result_);
}

absl::StatusOr<std::string> SignatureParser::ParseNewName(std::string_view what) {
  if (token_.kind != TokenKind::kName) return Expected(StrCat("the name of ", what));
  std::string name(token_.text);
  if (std::find(names_.begin(), names_.end(), name) != names_.end()) {
    return Expected(StrCat("a name that is not taken yet"));
  }
  names_.push_back(name);
  Advance();
  return name;
}

absl::StatusOr<DType> SignatureParser::ParseDType() {
  if (!Take(":")) return Expected("\":\" and a dtype");
  const std::optional<DType> dtype = DTypeFromName(token_.text);
  if (token_.kind != TokenKind::kName || !dtype.has_value()) {
    return Expected(StrCat("a dtype (", DTypeNames(), ")"));
  }
  Advance();
  return *dtype;
}

absl::Status SignatureParser::ParseInput() {
  const size_t column = token_.column;
  const bool axis_word = AtName("axis");
  if (axis_word) {
    // "axis n" declares; "axis[n]" and "axis:f32" are things that bear the name.
    const Token word = token_;
    const size_t after = position_;
    Advance();
    if (token_.kind == TokenKind::kName) {
      mentions_.push_back(
          {std::string(token_.text), token_.column, static_cast<int>(result_.inputs_.size())});
      Advance();
      return absl::OkStatus();
    }
    token_ = word;
    position_ = after;
  }
  ASSIGN_OR_RETURN(std::string name, ParseNewName("an operand, a scalar or \"axis\""));
  if (!At("[")) {
    ScalarSig scalar;
    scalar.name = std::move(name);
    return ParseScalarTail(std::move(scalar), column);
  }
  OperandSig operand;
  operand.name = std::move(name);
  RETURN_IF_ERROR(ParseDims(&operand.dims));
  ASSIGN_OR_RETURN(operand.dtype, ParseDType());
  if (At("=")) return Expected("\",\" or \"->\": only a scalar has a default");
  result_.inputs_.push_back(
      {Signature::InputKind::kOperand, static_cast<int>(result_.operands_.size())});
  result_.operands_.push_back(std::move(operand));
  operand_columns_.push_back(column);
  return absl::OkStatus();
}

absl::StatusOr<Scalar> SignatureParser::ParseValue(DType dtype, std::string_view what) {
  const size_t column = token_.column;
  std::string text;
  if (Take("-")) text = "-";
  if (token_.kind != TokenKind::kNumber && token_.kind != TokenKind::kName) return Expected(what);
  StrAppend(&text, token_.text);
  absl::StatusOr<Scalar> value = Scalar::Parse(text, dtype);
  if (!value.ok()) {
    return ErrorAt(column, StrCat("expected ", what, ": ", ToStd(value.status().message())));
  }
  Advance();
  return value;
}

absl::Status SignatureParser::ParseScalarTail(ScalarSig scalar, size_t column) {
  if (!At(":")) return Expected("\"[\" for an operand or \":\" for a scalar");
  ASSIGN_OR_RETURN(scalar.dtype, ParseDType());
  if (scalar.dtype == DType::kBytes) {
    return ErrorAt(column, StrCat("expected an axis, as in ", scalar.name,
                                  "[n]:bytes: a scalar cannot be bytes"));
  }
  const size_t value_column = token_.column;
  if (Take("=")) {
    ASSIGN_OR_RETURN(scalar.default_value, ParseValue(scalar.dtype, "a default value"));
  }
  const size_t bounds_column = token_.column;
  if (AtName("in")) {
    Advance();
    if (!Take("[")) return Expected("\"[\" and the bounds, as in [1, 15]");
    ASSIGN_OR_RETURN(scalar.lo, ParseValue(scalar.dtype, "the lower bound"));
    if (!Take(",")) return Expected("\",\" and the upper bound");
    ASSIGN_OR_RETURN(scalar.hi, ParseValue(scalar.dtype, "the upper bound"));
    if (!Take("]")) return Expected("\"]\" after the bounds");
    if (Scalar::Compare(*scalar.lo, *scalar.hi) > 0) {
      return ErrorAt(bounds_column, "expected a lower bound that is not above the upper one");
    }
    if (scalar.default_value.has_value() &&
        (Scalar::Compare(*scalar.default_value, *scalar.lo) < 0 ||
         Scalar::Compare(*scalar.default_value, *scalar.hi) > 0)) {
      return ErrorAt(value_column, StrCat("expected a default within the bounds [", *scalar.lo,
                                          ", ", *scalar.hi, "]"));
    }
  }
  result_.inputs_.push_back(
      {Signature::InputKind::kScalar, static_cast<int>(result_.scalars_.size())});
  result_.scalars_.push_back(std::move(scalar));
  return absl::OkStatus();
}

absl::Status SignatureParser::ParseOutput() {
  const size_t column = token_.column;
  OutputSig output;
  ASSIGN_OR_RETURN(output.name, ParseNewName("an output"));
  if (At("[")) RETURN_IF_ERROR(ParseDims(&output.dims));
  ASSIGN_OR_RETURN(output.dtype, ParseDType());
  const size_t reduction_column = token_.column;
  if (Take(":")) {
    for (const Reduction reduction :
         {Reduction::kSum, Reduction::kMin, Reduction::kMax, Reduction::kMerge}) {
      if (AtName(ReductionName(reduction))) output.reduction = reduction;
    }
    if (output.reduction == Reduction::kNone) {
      return Expected("a reduction (sum, min, max or merge)");
    }
    Advance();
    if (output.ragged()) {
      return ErrorAt(reduction_column, "expected no reduction on an output of bytes");
    }
    if (output.reduction == Reduction::kSum && output.dtype == DType::kBool) {
      return ErrorAt(reduction_column, "expected min, max or merge: a sum of bool is not a bool");
    }
  }
  result_.outputs_.push_back(std::move(output));
  output_columns_.push_back(column);
  return absl::OkStatus();
}

absl::Status SignatureParser::ParseDims(std::vector<Extent>* dims) {
  Advance();  // The "[".
  do {
    const size_t column = token_.column;
    std::vector<Extent::Term> terms;
    RETURN_IF_ERROR(ParseSum(&terms, 0));
    Extent extent(std::move(terms));
    if (extent.IsConstant()) {
      const absl::StatusOr<int64_t> value = extent.Evaluate({});
      if (!value.ok() || *value < 0) {
        return ErrorAt(column, "expected an extent from 0 to 2^63 - 1");
      }
    }
    dims->push_back(std::move(extent));
  } while (Take(","));
  if (!Take("]")) return Expected("\",\", \"]\" or an operator (+ - * ^)");
  return absl::OkStatus();
}

absl::Status SignatureParser::ParseSum(std::vector<Extent::Term>* out, int depth) {
  RETURN_IF_ERROR(ParseProduct(out, depth));
  while (At("+") || At("-")) {
    const Extent::Op op = At("+") ? Extent::Op::kAdd : Extent::Op::kSub;
    Advance();
    RETURN_IF_ERROR(ParseProduct(out, depth));
    out->push_back({op, 0});
  }
  return absl::OkStatus();
}

absl::Status SignatureParser::ParseProduct(std::vector<Extent::Term>* out, int depth) {
  RETURN_IF_ERROR(ParsePower(out, depth));
  while (Take("*")) {
    RETURN_IF_ERROR(ParsePower(out, depth));
    out->push_back({Extent::Op::kMul, 0});
  }
  return absl::OkStatus();
}

absl::Status SignatureParser::ParsePower(std::vector<Extent::Term>* out, int depth) {
  if (depth > kDepthMax) return Expected("an expression that is less deep");
  RETURN_IF_ERROR(ParseAtom(out, depth));
  if (!Take("^")) return absl::OkStatus();
  RETURN_IF_ERROR(ParsePower(out, depth + 1));
  out->push_back({Extent::Op::kPow, 0});
  return absl::OkStatus();
}

absl::Status SignatureParser::ParseAtom(std::vector<Extent::Term>* out, int depth) {
  if (Take("(")) {
    RETURN_IF_ERROR(ParseSum(out, depth + 1));
    if (!Take(")")) return Expected("\")\" or an operator (+ - * ^)");
    return absl::OkStatus();
  }
  if (token_.kind == TokenKind::kName) {
    // The index of the mention stands in for that of the axis or scalar until names are resolved.
    out->push_back({Extent::Op::kAxis, static_cast<int64_t>(mentions_.size())});
    mentions_.push_back({std::string(token_.text), token_.column});
    Advance();
    return absl::OkStatus();
  }
  if (token_.kind != TokenKind::kNumber) return Expected("an axis, a scalar or a whole number");
  int64_t value = 0;
  const char* end = token_.text.data() + token_.text.size();
  const auto [stop, error] = std::from_chars(token_.text.data(), end, value);
  if (error != std::errc() || stop != end) return Expected("a whole number below 2^63");
  out->push_back({Extent::Op::kLiteral, value});
  Advance();
  return absl::OkStatus();
}

absl::Status SignatureParser::ResolveMention(Mention* mention) {
  const bool declares = mention->declares_before >= 0;
  const int scalar = result_.FindScalar(mention->name);
  if (scalar < 0 && std::find(names_.begin(), names_.end(), mention->name) != names_.end()) {
    return ErrorAt(mention->column, StrCat("expected an axis or a scalar, found the operand or "
                                           "output ",
                                           Quoted(mention->name)));
  }
  mention->index = result_.FindAxis(mention->name);
  const bool declared =
      std::any_of(result_.declarations_.begin(), result_.declarations_.end(),
                  [&](const Signature::Declaration& d) { return d.axis == mention->index; });
  if (declares && (scalar >= 0 || declared)) {
    return ErrorAt(mention->column, StrCat("expected a new axis, found ", Quoted(mention->name),
                                           ", which is declared already"));
  }
  if (scalar >= 0) {
    const ScalarSig& sig = result_.scalars_[scalar];
    if (!IsInteger(sig.dtype)) {
      return ErrorAt(mention->column, StrCat("expected an axis or an integer scalar, found ",
                                             sig.name, ", whose dtype is ", DTypeName(sig.dtype)));
    }
    mention->scalar = true;
    mention->index = scalar;
    return absl::OkStatus();
  }
  if (mention->index < 0) {
    mention->index = static_cast<int>(result_.axes_.size());
    result_.axes_.push_back(mention->name);
  }
  if (declares) {
    result_.declarations_.push_back({mention->index, mention->declares_before});
    result_.task_axes_.push_back(mention->index);
  }
  return absl::OkStatus();
}

absl::Status SignatureParser::ResolveMentions() {
  for (Mention& mention : mentions_) RETURN_IF_ERROR(ResolveMention(&mention));
  if (result_.task_axes_.empty() && !result_.axes_.empty()) result_.task_axes_.push_back(0);
  return absl::OkStatus();
}

absl::Status SignatureParser::ResolveExtents() {
  auto resolve = [this](std::vector<Extent>* dims) {
    for (Extent& extent : *dims) {
      std::vector<Extent::Term> terms = extent.terms();
      for (Extent::Term& term : terms) {
        if (term.op != Extent::Op::kAxis) continue;
        const Mention& mention = mentions_[term.value];
        term = {mention.scalar ? Extent::Op::kScalar : Extent::Op::kAxis, mention.index};
      }
      extent = Extent(std::move(terms));
    }
  };
  for (size_t i = 0; i < result_.operands_.size(); ++i) {
    OperandSig& operand = result_.operands_[i];
    resolve(&operand.dims);
    if (operand.ragged()) {
      RETURN_IF_ERROR(CheckRagged(operand.dims, operand_columns_[i], operand.name));
    }
  }
  for (size_t i = 0; i < result_.outputs_.size(); ++i) {
    OutputSig& output = result_.outputs_[i];
    resolve(&output.dims);
    if (output.ragged()) {
      RETURN_IF_ERROR(CheckRagged(output.dims, output_columns_[i], output.name));
    }
  }
  return absl::OkStatus();
}

absl::Status SignatureParser::CheckRagged(const std::vector<Extent>& dims, size_t column,
                                          std::string_view name) const {
  if (dims.size() == 1 && dims[0].terms().size() == 1 &&
      dims[0].terms()[0].op == Extent::Op::kAxis) {
    return absl::OkStatus();
  }
  return ErrorAt(column, StrCat("expected one plain axis, as in ", name,
                                "[n]:bytes: a list of byte strings has no other shape"));
}

absl::Status SignatureParser::CheckAxesAreBound() const {
  for (const Mention& mention : mentions_) {
    const bool declared =
        std::any_of(result_.declarations_.begin(), result_.declarations_.end(),
                    [&](const Signature::Declaration& d) { return d.axis == mention.index; });
    if (!mention.scalar && !declared && !result_.Bound(mention.index)) {
      return ErrorAt(mention.column,
                     StrCat("expected an axis that an operand binds: the extent of ", mention.name,
                            " follows from no operand's shape, so declare it with \"axis ",
                            mention.name, "\" and let the job give it"));
    }
  }
  return absl::OkStatus();
}

}  // namespace tandem
