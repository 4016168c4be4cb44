// The text of signatures: what parses has one canonical form, what does not names a column; and the
// algebra over what parsed survives any extents.
#include <algorithm>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "common/base/error.h"
#include "common/model/signature.h"
#include "tests/fuzz/fuzz_target.h"

namespace tandem {
namespace {

// "…column 12: …": its number is within the text, or one behind it.
void CheckNamesColumn(const absl::Status& status, size_t size) {
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  CHECK(ReasonOf(status) == reason::kBadSignature);
  const std::string message(status.message());
  const size_t at = message.find("column ");
  CHECK_MSG(at != std::string::npos, message);
  const size_t column = std::stoul(message.substr(at + 7));
  CHECK_MSG(column >= 1 && column <= size + 1, message);
}

// Extents of any size: an answer or an error, and an answer agrees with what was given.
void UseExtents(const Signature& signature, fuzz::Tail* numbers) {
  std::vector<int64_t> scalars(signature.scalars().size());
  for (int64_t& value : scalars) value = numbers->Take<int8_t>();
  std::vector<Shape> shapes;
  for (const OperandSig& operand : signature.operands()) {
    Shape& shape = shapes.emplace_back();
    for (size_t d = 0; d < operand.dims.size(); ++d) shape.push_back(numbers->Take<uint16_t>());
  }
  std::vector<int64_t> axes(signature.axes().size());
  for (int64_t& extent : axes) extent = numbers->Take<int64_t>();
  for (size_t i = 0; i < signature.outputs().size(); ++i) {
    const auto spec = signature.OutputSpec(static_cast<int>(i), ExtentValues{axes, scalars});
    if (!spec.ok()) continue;
    for (const int64_t extent : spec->shape) CHECK(extent >= 0);
  }
  std::fill(axes.begin(), axes.end(), kUnknownExtent);
  const auto inferred = signature.InferAxes(shapes, scalars, axes);
  if (!inferred.ok()) return;
  CHECK(inferred->size() == signature.axes().size());
  const ExtentValues values{*inferred, scalars};
  for (size_t o = 0; o < shapes.size(); ++o) {
    const OperandSig& operand = signature.operands()[o];
    for (size_t d = 0; d < operand.dims.size(); ++d) {
      const auto extent = operand.dims[d].Evaluate(values);
      // An operand shorter than one window leaves its axis no tasks.
      if (extent.ok() && *extent > 0) CHECK(*extent == shapes[o][d] || shapes[o][d] < *extent);
    }
  }
}

FUZZ_SEEDS(signature) {
  return {"x[n]:f32 -> y[n]:f32",
          "spot[n]:f32, strike[n]:f32, rate:f32 = 0.05 -> call[n]:f32, put[n]:f32",
          "base[n + k - 1]:u8, k:i32 = 11 in [1, 15] -> count[4^k]:u32 : sum",
          "image[n]:bytes -> edges[n]:bytes",
          "key[n]:u32 -> sorted[n]:u32 : merge",
          "axis n, seed:u64 = 0 -> hits:u64 : sum",
          "axis n, axis m, x[n,k]:f32, w[m,k]:f32 -> y[n,m]:f32",
          "x[2*(n+1),m^2]:f64, b:bool = true in [false, true] -> y[n]:bf16 : max, z:i8 : min",
          "->",
          "x[n",
          "x[n]:f99 -> ",
          "x[n]:f32 -> y[m]:f32",
          "x[((((n))))]:u8 -> y[n]:u8"};
}

FUZZ_TARGET(signature) {
  const size_t zero = input.find('\0');  // text, and numbers behind it
  const std::string_view text = input.substr(0, zero);
  fuzz::Tail numbers(zero == std::string_view::npos ? std::string_view() : input.substr(zero + 1));
  const auto parsed = Signature::Parse(text);
  if (!parsed.ok()) return CheckNamesColumn(parsed.status(), text.size());
  const std::string canonical = parsed->ToString();
  const auto again = Signature::Parse(canonical);
  CHECK_OK(again);
  CHECK_MSG(*again == *parsed, canonical);
  CHECK_EQ(again->ToString(), canonical);
  for (size_t axis = 0; axis < parsed->axes().size(); ++axis) {
    (void)parsed->CheckSplittable(static_cast<int>(axis));
  }
  UseExtents(*parsed, &numbers);
}

}  // namespace
}  // namespace tandem
