// Job specifications between model (common/model/job_spec.h) and proto (tandem/v1/jobs.proto).
//
//   JobSpec spec;  RETURN_IF_ERROR(wire::Decode(request.mutable_spec(), &spec));
//   spec.owner = …;  ValidateAndBind(std::move(spec), kernel);
//
// Decoding refuses what has no meaning: unknown enum values, ids of a wrong size, negative or
// overflowing shapes, names that occur twice, lists in lists, numbers that do not fit their dtype.
// The error is INVALID_ARGUMENT with BAD_SPEC or BAD_LOCATOR and the field's path
// ("operands.spot.locator.blob.sha256"). What needs the kernel or the limits is ValidateAndBind's.
// `owner` is taken as it stands: a server replaces it.
//
// Decoding takes the proto's strings. After an error both sides are valid and unspecified.
// Thread-safety: pure functions.
#ifndef TANDEM_COMMON_WIRE_JOB_SPEC_H_
#define TANDEM_COMMON_WIRE_JOB_SPEC_H_

#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/model/job_spec.h"
#include "common/model/locator.h"
#include "common/model/tensor.h"
#include "tandem/v1/jobs.pb.h"
#include "tandem/v1/types.pb.h"

namespace tandem::wire {

v1::DType EncodeDType(DType from);
// Errors: INVALID_ARGUMENT for DTYPE_UNSPECIFIED and unknown values.
absl::StatusOr<DType> DecodeDType(v1::DType from);

void Encode(const TensorSpec& from, v1::Tensor* to);
absl::Status Decode(const v1::Tensor& from, TensorSpec* to);

void Encode(const Scalar& from, v1::Number* to);
// The number as a value of `dtype`; it must fit.
absl::StatusOr<Scalar> DecodeNumber(const v1::Number& from, DType dtype);

void EncodeScalar(std::string_view name, const Scalar& from, v1::Scalar* to);
// Its dtype is the field's: bool, i64, u64 or f64; binding converts it to the signature's.
absl::StatusOr<Scalar> DecodeScalar(const v1::Scalar& from);

void Encode(const BlobLocator& from, v1::BlobRef* to);
absl::Status Decode(const v1::BlobRef& from, BlobLocator* to);

// `dtype`: the operand's, which generators have.
void Encode(const Locator& from, v1::Locator* to);
absl::Status Decode(v1::Locator* from, DType dtype, Locator* to);

void EncodeOperand(std::string_view name, const OperandSpec& from, v1::Operand* to);
absl::Status Decode(v1::Operand* from, OperandSpec* to);

void Encode(const Resources& from, v1::Resources* to);
absl::Status Decode(const v1::Resources& from, Resources* to);

// request_id is no part of the proto's spec: see SubmitJobRequest.
void Encode(const JobSpec& from, v1::JobSpec* to);
absl::Status Decode(v1::JobSpec* from, JobSpec* to);

}  // namespace tandem::wire

#endif  // TANDEM_COMMON_WIRE_JOB_SPEC_H_
