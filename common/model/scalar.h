// Scalar: one value of a numeric dtype, as it is written into a kernel's arguments.
//
//   ASSIGN_OR_RETURN(Scalar rate, Scalar::Parse("0.05", DType::kF32));
//   memcpy(argument, rate.data(), rate.size());
//
// Thread-safety: a value type.
#ifndef TANDEM_COMMON_MODEL_SCALAR_H_
#define TANDEM_COMMON_MODEL_SCALAR_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/model/dtype.h"

namespace tandem {

class Scalar {
 public:
  // An unspecified value: what a default-constructed field holds.
  Scalar() = default;
  static Scalar Bool(bool value);
  static Scalar I64(int64_t value);
  static Scalar U64(uint64_t value);
  static Scalar F64(double value);
  // `text` as a value of `dtype`: integers in decimal or 0x…, floats also "inf", "nan", bools
  // "true", "false", "0", "1". Errors: INVALID_ARGUMENT, with what was expected.
  static absl::StatusOr<Scalar> Parse(std::string_view text, DType dtype);
  // The value's bytes (little-endian, low bytes first) as carried on a wire.
  static Scalar FromBits(DType dtype, uint64_t bits) { return Scalar(dtype, bits); }

  DType dtype() const { return dtype_; }
  uint64_t bits() const { return bits_; }
  // The bytes of the value, DTypeSize(dtype()) of them. (Hosts are little-endian.)
  const void* data() const { return &bits_; }
  uint64_t size() const { return DTypeSize(dtype_); }

  // The same value in another dtype. Between integers it must fit; an integer becomes a float and
  // a float another float by rounding, and must stay finite; a float with a whole value becomes
  // an integer. Errors: INVALID_ARGUMENT with both.
  absl::StatusOr<Scalar> ConvertTo(DType dtype) const;

  // The value as a double (nearest), for comparisons and for people.
  double AsDouble() const;
  // The value when it is an integer or a bool that fits, else nothing.
  std::optional<int64_t> AsInt64() const;
  // Shortest decimal that reads back as the same value: "11", "0.05", "true".
  std::string ToString() const;

  // Numerical order: <0, 0, >0. Exact between integers of any two dtypes. NaN compares above all.
  static int Compare(const Scalar& a, const Scalar& b);

  // Same dtype and same bits.
  friend bool operator==(const Scalar&, const Scalar&) = default;

 private:
  Scalar(DType dtype, uint64_t bits) : dtype_(dtype), bits_(bits) {}

  DType dtype_ = DType::kUnspecified;
  uint64_t bits_ = 0;
};

// Conversions of the storage types, round to nearest even; NaN becomes the canonical quiet NaN.
uint16_t F32ToF16(float value);
float F16ToF32(uint16_t bits);
uint16_t F32ToBf16(float value);
float Bf16ToF32(uint16_t bits);

}  // namespace tandem

#endif  // TANDEM_COMMON_MODEL_SCALAR_H_
