// Signature: a kernel's operands, scalar parameters and outputs over named axes, from which
// everything about splitting follows (docs/ARCHITECTURE.md).
//
//   spot[n]:f32, strike[n]:f32, rate:f32 = 0.05 -> call[n]:f32, put[n]:f32
//   base[n + k - 1]:u8, k:i32 = 11 in [1, 15] -> count[4^k]:u32 : sum
//   image[n]:bytes -> edges[n]:bytes
//   key[n]:u32 -> sorted[n]:u32 : merge
//   axis n, seed:u64 = 0 -> hits:u64 : sum
//   axis n, axis m, x[n,k]:f32, w[m,k]:f32 -> y[n,m]:f32
//
// Grammar (blanks are free between tokens; names are [A-Za-z_][A-Za-z0-9_]*):
//
//   signature := [input {"," input}] "->" [output {"," output}]
//   input     := "axis" name                                        declares a task axis
//              | name "[" extent {"," extent} "]" ":" dtype         an operand
//              | name ":" dtype ["=" value] ["in" "[" value "," value "]"]   a scalar parameter
//   output    := name ["[" extent {"," extent} "]"] ":" dtype [":" reduction]
//   reduction := "sum" | "min" | "max" | "merge"                    merge: the kernel's own
//   dtype     := bool u8 i8 i16 i32 i64 u32 u64 f16 bf16 f32 f64 bytes
//   value     := a number, with a sign if need be, "inf", "-inf", true or false; bounds are
//   included extent    := integer expression over axes and integer scalars (extent.h); a name that
//   is no
//                scalar parameter is an axis. A scalar may be used before it is declared.
//
// Task axes. The axes that a job may split are those declared with `axis`; when none is declared,
// it is the first axis that occurs (n in every example above). The form must allow it as well: the
// axis occurs at most once in each operand, as constant + coefficient × axis, and in each output
// either once, without a constant, or not at all beside a reduction. Declaring is a promise of the
// kernel's author: the algebra cannot know that the columns of a softmax depend on each other.
// An axis that no operand binds must be declared and is given by the job.
//
// Thread-safety: immutable once parsed.
#ifndef TANDEM_COMMON_MODEL_SIGNATURE_H_
#define TANDEM_COMMON_MODEL_SIGNATURE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/model/dtype.h"
#include "common/model/extent.h"
#include "common/model/reduction.h"
#include "common/model/scalar.h"
#include "common/model/tensor.h"

namespace tandem {

struct ScalarSig {
  std::string name;
  DType dtype = DType::kUnspecified;
  std::optional<Scalar> default_value;
  std::optional<Scalar> lo;  // Both included; both or neither.
  std::optional<Scalar> hi;
  friend bool operator==(const ScalarSig&, const ScalarSig&) = default;
};

struct OperandSig {
  std::string name;
  DType dtype = DType::kUnspecified;
  std::vector<Extent> dims;  // At least one.
  bool ragged() const { return dtype == DType::kBytes; }
  friend bool operator==(const OperandSig&, const OperandSig&) = default;
};

struct OutputSig {
  std::string name;
  DType dtype = DType::kUnspecified;
  std::vector<Extent> dims;  // Empty: one value.
  Reduction reduction = Reduction::kNone;
  bool ragged() const { return dtype == DType::kBytes; }
  friend bool operator==(const OutputSig&, const OutputSig&) = default;
};

class Signature {
 public:
  static constexpr size_t kTextBytesMax = 4096;

  enum class InputKind : uint8_t { kOperand, kScalar };
  struct Input {
    InputKind kind;
    int index;  // Into operands() or scalars().
    friend bool operator==(const Input&, const Input&) = default;
  };

  // Errors: INVALID_ARGUMENT BAD_SIGNATURE; the message names the column (from 1) and what was
  // expected there.
  static absl::StatusOr<Signature> Parse(std::string_view text);

  // Operands and scalars in the order written, which is the order of a body's Args.
  const std::vector<Input>& inputs() const { return inputs_; }
  const std::vector<OperandSig>& operands() const { return operands_; }
  const std::vector<ScalarSig>& scalars() const { return scalars_; }
  const std::vector<OutputSig>& outputs() const { return outputs_; }
  // Axis names by index, in order of first occurrence in the text, declarations included.
  const std::vector<std::string>& axes() const { return axes_; }

  // Indices by name; -1 when there is none.
  int FindOperand(std::string_view name) const;
  int FindScalar(std::string_view name) const;
  int FindOutput(std::string_view name) const;
  int FindAxis(std::string_view name) const;

  // Axes that a job may split, by the author's word: see "Task axes". May be empty.
  const std::vector<int>& task_axes() const { return task_axes_; }
  // Is the axis bound by an operand's shape (else the job gives its extent)?
  bool Bound(int axis) const;
  // OK, or why the axis cannot be split: INVALID_ARGUMENT AXIS_NOT_SPLITTABLE. The second form is
  // for a kernel that names its task axes apart from the signature.
  absl::Status CheckSplittable(int axis) const { return CheckSplittable(axis, task_axes_); }
  absl::Status CheckSplittable(int axis, absl::Span<const int> task_axes) const;

  // The extent of every axis, by index: solved from the operands' shapes, with what the job gives
  // (kUnknownExtent where nothing). Every dimension of every operand is checked against the
  // result. An operand shorter than one window leaves its axis 0 tasks.
  // Errors: INVALID_ARGUMENT SHAPE_MISMATCH, MISSING_AXIS_EXTENT or TOO_LARGE, naming operand,
  // dimension and both extents.
  absl::StatusOr<std::vector<int64_t>> InferAxes(absl::Span<const Shape> operand_shapes,
                                                 absl::Span<const int64_t> scalar_values,
                                                 absl::Span<const int64_t> given_axes) const;
  // The whole output's dtype and shape. Errors: INVALID_ARGUMENT TOO_LARGE, or a negative extent.
  absl::StatusOr<TensorSpec> OutputSpec(int output, ExtentValues values) const;

  // In canonical form: parses to an equal signature, and equal signatures give equal texts.
  std::string ToString() const;
  std::string ExtentToString(const Extent& extent) const;
  friend bool operator==(const Signature&, const Signature&) = default;

 private:
  friend class SignatureParser;
  // An `axis` item stands before the input of this index.
  struct Declaration {
    int axis;
    int before_input;
    friend bool operator==(const Declaration&, const Declaration&) = default;
  };

  std::vector<Input> inputs_;
  std::vector<OperandSig> operands_;
  std::vector<ScalarSig> scalars_;
  std::vector<OutputSig> outputs_;
  std::vector<std::string> axes_;
  std::vector<Declaration> declarations_;
  std::vector<int> task_axes_;
};

}  // namespace tandem

#endif  // TANDEM_COMMON_MODEL_SIGNATURE_H_
