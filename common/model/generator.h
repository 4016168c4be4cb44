// Generator: an operand that is computed where it is used, so that none of its bytes travel.
//
// Element i of a generated tensor (row-major index) depends on i alone, so any slice can be had
// without what comes before it, and the same bytes come out everywhere:
//
//   uniform(seed, lo, hi)  floats: lo + (hi - lo) × u, u = 53 (f64) or 24 (other) bits of
//                          SplitMix64At(seed, i); integers and bool: lo ≤ value ≤ hi,
//                          lo + the high half of (that word × the number of values)
//   iota(start, step)      start + i × step; integers wrap
//   constant(value)        value
//
// Thread-safety: pure functions.
#ifndef TANDEM_COMMON_MODEL_GENERATOR_H_
#define TANDEM_COMMON_MODEL_GENERATOR_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "absl/status/statusor.h"
#include "common/model/scalar.h"

namespace tandem {

struct UniformGenerator {
  uint64_t seed = 0;
  Scalar lo;  // Included.
  Scalar hi;  // Included for integers; for floats reached by rounding only.
  friend bool operator==(const UniformGenerator&, const UniformGenerator&) = default;
};
struct IotaGenerator {
  Scalar start;
  Scalar step;
  friend bool operator==(const IotaGenerator&, const IotaGenerator&) = default;
};
struct ConstantGenerator {
  Scalar value;
  friend bool operator==(const ConstantGenerator&, const ConstantGenerator&) = default;
};
using Generator = std::variant<UniformGenerator, IotaGenerator, ConstantGenerator>;

// "uniform(seed=7)", "uniform(seed=7, lo=10, hi=20)", "iota", "iota(start=5, step=2)",
// "constant(3.5)", for elements of `dtype` (its scalars have that dtype). uniform's lo and hi
// default to 0 and 1 for floats and bool, to 0 and the largest value for integers; iota's start and
// step to 0 and 1. Errors: INVALID_ARGUMENT with what was expected.
absl::StatusOr<Generator> ParseGenerator(std::string_view text, DType dtype);
std::string GeneratorToString(const Generator& generator);

// That its scalars are of `dtype`, lo ≤ hi, and hi - lo is finite. Errors: INVALID_ARGUMENT
// BAD_LOCATOR.
absl::Status ValidateGenerator(const Generator& generator, DType dtype);

// Writes elements [first, first + count) of dtype `dtype` to `out`.
// REQUIRES: ValidateGenerator(generator, dtype) is OK; room for count elements.
void Generate(const Generator& generator, DType dtype, uint64_t first, uint64_t count, void* out);

}  // namespace tandem

#endif  // TANDEM_COMMON_MODEL_GENERATOR_H_
