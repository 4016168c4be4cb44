// SignatureParser: the text of a signature into a Signature. Private to signature.cc.
//
// One pass over tokens with one token of look-ahead; names in extents are resolved afterwards,
// because a scalar may be used before it is declared.
// Thread-safety: one parser, one thread.
#ifndef TANDEM_COMMON_MODEL_SIGNATURE_PARSER_H_
#define TANDEM_COMMON_MODEL_SIGNATURE_PARSER_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/model/signature.h"

namespace tandem {

class SignatureParser {
 public:
  explicit SignatureParser(std::string_view text) : text_(text) {}
  absl::StatusOr<Signature> Parse();

 private:
  enum class TokenKind { kName, kNumber, kSymbol, kArrow, kEnd, kBad };
  struct Token {
    TokenKind kind = TokenKind::kEnd;
    std::string_view text;
    size_t column = 1;
  };
  // A name in an extent or an `axis` declaration, in the order of the text.
  struct Mention {
    std::string name;
    size_t column;
    int declares_before = -1;  // The index of the input that an `axis` item precedes.
    bool scalar = false;
    int index = -1;
  };

  void Advance();
  bool At(std::string_view symbol) const;
  bool AtName(std::string_view name) const;
  bool Take(std::string_view symbol);
  absl::Status Expected(std::string_view what) const;
  absl::Status ErrorAt(size_t column, std::string_view message) const;

  absl::Status ParseInput();
  absl::Status ParseScalarTail(ScalarSig scalar, size_t column);
  absl::Status ParseOutput();
  absl::StatusOr<std::string> ParseNewName(std::string_view what);
  absl::StatusOr<DType> ParseDType();
  absl::StatusOr<Scalar> ParseValue(DType dtype, std::string_view what);
  absl::Status ParseDims(std::vector<Extent>* dims);
  absl::Status ParseSum(std::vector<Extent::Term>* out, int depth);
  absl::Status ParseProduct(std::vector<Extent::Term>* out, int depth);
  absl::Status ParsePower(std::vector<Extent::Term>* out, int depth);
  absl::Status ParseAtom(std::vector<Extent::Term>* out, int depth);

  absl::Status ResolveMentions();
  absl::Status ResolveMention(Mention* mention);
  absl::Status ResolveExtents();
  absl::Status CheckRagged(const std::vector<Extent>& dims, size_t column,
                           std::string_view name) const;
  absl::Status CheckAxesAreBound() const;

  std::string_view text_;
  size_t position_ = 0;
  Token token_;
  Signature result_;
  std::vector<Mention> mentions_;
  std::vector<std::string> names_;  // Of operands, scalars and outputs.
  std::vector<size_t> operand_columns_;
  std::vector<size_t> output_columns_;
};

}  // namespace tandem

#endif  // TANDEM_COMMON_MODEL_SIGNATURE_PARSER_H_
