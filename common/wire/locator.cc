// Tensors, numbers, locators and operands: the part of job_spec.h below the job.
#include <cmath>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/reason.h"
#include "common/base/status_macros.h"
#include "common/model/dtype.h"
#include "common/wire/decode_util.h"
#include "common/wire/job_spec.h"
#include "common/wire/lease_messages.h"

namespace tandem::wire {
namespace {

// A bound on what decoding will allocate; ValidateAndBind's is tighter.
constexpr int kRankMax = 32;
constexpr int kItemsMax = 1 << 22;
constexpr size_t kPathBytesMax = 4096;

absl::Status BadLocator(std::string_view field, std::string_view what) {
  return WithField(InvalidError(reason::kBadLocator, StrCat(field, " ", what)), field);
}

absl::Status DecodeOneNumber(bool present, const v1::Number& from, DType dtype,
                             std::string_view field, Scalar* to) {
  if (!present) return BadLocator(field, "is missing");
  absl::StatusOr<Scalar> value = DecodeNumber(from, dtype);
  if (!value.ok()) return WithField(std::move(value).status(), field);
  if (IsFloat(dtype) && !std::isfinite(value->AsDouble())) {
    return BadLocator(field, "is not a finite number");
  }
  *to = *value;
  return absl::OkStatus();
}

struct GeneratorEncoder {
  v1::Generator* to;
  void operator()(const UniformGenerator& from) const {
    to->set_kind(v1::Generator::UNIFORM);
    to->set_seed(from.seed);
    Encode(from.lo, to->mutable_low());
    Encode(from.hi, to->mutable_high());
  }
  void operator()(const IotaGenerator& from) const {
    to->set_kind(v1::Generator::IOTA);
    Encode(from.start, to->mutable_low());
    Encode(from.step, to->mutable_step());
  }
  void operator()(const ConstantGenerator& from) const {
    to->set_kind(v1::Generator::CONSTANT);
    Encode(from.value, to->mutable_low());
  }
};

absl::Status DecodeGenerator(const v1::Generator& from, DType dtype, Generator* to) {
  switch (from.kind()) {
    case v1::Generator::UNIFORM: {
      auto& uniform = to->emplace<UniformGenerator>();
      uniform.seed = from.seed();
      RETURN_IF_ERROR(DecodeOneNumber(from.has_low(), from.low(), dtype, "low", &uniform.lo));
      return DecodeOneNumber(from.has_high(), from.high(), dtype, "high", &uniform.hi);
    }
    case v1::Generator::IOTA: {
      auto& iota = to->emplace<IotaGenerator>();
      RETURN_IF_ERROR(DecodeOneNumber(from.has_low(), from.low(), dtype, "low", &iota.start));
      return DecodeOneNumber(from.has_step(), from.step(), dtype, "step", &iota.step);
    }
    case v1::Generator::CONSTANT:
      return DecodeOneNumber(from.has_low(), from.low(), dtype, "low",
                             &to->emplace<ConstantGenerator>().value);
    default:
      return BadLocator("kind", StrCat("is ", static_cast<int>(from.kind()),
                                       "; it must be UNIFORM, IOTA or CONSTANT"));
  }
}

void EncodePath(const PathLocator& from, v1::PathRef* to) {
  to->set_path(from.path);
  to->set_size(from.size);
  to->set_mtime_ns(from.mtime_ns);
  to->set_slice_bytes(from.slice_bytes);
  to->mutable_slice_xxh3()->Assign(from.slice_checksums.begin(), from.slice_checksums.end());
  to->set_data_offset(from.data_offset);
  to->set_file_size(from.file_size);
}

absl::Status DecodePath(v1::PathRef* from, PathLocator* to) {
  RETURN_IF_ERROR(CheckText(from->path(), kPathBytesMax, "path"));
  if (from->path().empty() || from->path()[0] != '/') {
    return BadLocator("path", "is not absolute: every worker must find the same file");
  }
  uint64_t end = 0;
  if (__builtin_add_overflow(from->data_offset(), from->size(), &end) || end > from->file_size()) {
    return BadLocator(
        "size", StrCat("and data_offset reach beyond the file's ", from->file_size(), " bytes"));
  }
  if (from->slice_xxh3_size() > kItemsMax) return BadLocator("slice_xxh3", "is too long");
  to->path = std::move(*from->mutable_path());
  to->file_size = from->file_size();
  to->mtime_ns = from->mtime_ns();
  to->data_offset = from->data_offset();
  to->size = from->size();
  to->slice_bytes = from->slice_bytes();
  to->slice_checksums.assign(from->slice_xxh3().begin(), from->slice_xxh3().end());
  return absl::OkStatus();
}

struct LocatorEncoder {
  v1::Locator* to;
  void operator()(std::monostate) const { to->clear_where(); }
  void operator()(const InlineLocator& from) const { to->mutable_inline_()->set_data(from.bytes); }
  void operator()(const BlobLocator& from) const { Encode(from, to->mutable_blob()); }
  void operator()(const PathLocator& from) const { EncodePath(from, to->mutable_path()); }
  void operator()(const GeneratorLocator& from) const {
    std::visit(GeneratorEncoder{to->mutable_generator()}, from.generator);
  }
  void operator()(const JobOutputLocator& from) const {
    to->mutable_job_output()->set_job(from.job.value());
    to->mutable_job_output()->set_output(from.output);
  }
  void operator()(const HeldLocator& from) const {
    to->mutable_held()->set_worker(from.worker.value());
    Encode(Region{from.segment, from.offset, from.length, from.checksum},
           to->mutable_held()->mutable_region());
  }
};

absl::Status DecodeJobOutput(v1::JobOutputRef* from, JobOutputLocator* to) {
  if (from->job() == 0) return BadLocator("job", "is missing");
  if (from->output().empty()) return BadLocator("output", "is missing");
  RETURN_IF_ERROR(CheckText(from->output(), WireLimits::kNameBytes, "output"));
  to->job = JobId(from->job());
  to->output = std::move(*from->mutable_output());
  return absl::OkStatus();
}

absl::Status DecodeHeld(const v1::HeldRef& from, HeldLocator* to) {
  Region region;
  RETURN_IF_ERROR(WithField(Decode(from.region(), &region), "region"));
  *to = HeldLocator{WorkerId(from.worker()), region.segment, region.offset, region.length,
                    region.xxh3};
  return absl::OkStatus();
}

absl::Status DecodePacked(v1::PackedItems* from, RaggedPacked* to) {
  if (!from->has_offsets()) return BadLocator("offsets", "is missing");
  if (!from->has_data()) return BadLocator("data", "is missing");
  RETURN_IF_ERROR(WithField(Decode(from->mutable_offsets(), DType::kU64, &to->offsets), "offsets"));
  RETURN_IF_ERROR(WithField(Decode(from->mutable_data(), DType::kU8, &to->data), "data"));
  to->data_bytes = from->data_bytes();
  return absl::OkStatus();
}

absl::Status DecodeParts(v1::PartList* from, RaggedItems* to) {
  if (from->parts_size() > kItemsMax) return BadLocator("parts", "is too long: pack the items");
  to->items.resize(static_cast<size_t>(from->parts_size()));
  for (int i = 0; i < from->parts_size(); ++i) {
    absl::Status status =
        Decode(from->mutable_parts(i), DType::kU8, &to->items[static_cast<size_t>(i)]);
    if (!status.ok()) return WithField(std::move(status), Indexed("parts", i));
  }
  return absl::OkStatus();
}

absl::Status DecodeSource(v1::Locator* from, DType dtype, OperandSpec* to) {
  switch (from->where_case()) {
    case v1::Locator::kParts:
      if (dtype != DType::kBytes) {
        return BadLocator("parts", "is for ragged operands (dtype BYTES) only");
      }
      return WithField(DecodeParts(from->mutable_parts(), &to->source.emplace<RaggedItems>()),
                       "parts");
    case v1::Locator::kPacked:
      if (dtype != DType::kBytes) {
        return BadLocator("packed", "is for ragged operands (dtype BYTES) only");
      }
      return WithField(DecodePacked(from->mutable_packed(), &to->source.emplace<RaggedPacked>()),
                       "packed");
    default:
      return Decode(from, dtype, &to->source.emplace<Locator>());
  }
}

absl::Status DecodeItemNames(v1::Operand* from, OperandSpec* to) {
  if (from->item_names().empty()) return absl::OkStatus();
  if (!to->spec.ragged() || to->spec.shape.size() != 1 ||
      to->spec.shape[0] != from->item_names_size()) {
    return WithField(InvalidError(reason::kBadSpec,
                                  StrCat("there are ", from->item_names_size(),
                                         " item names; a ragged operand has one an item or none")),
                     "item_names");
  }
  to->item_names.reserve(static_cast<size_t>(from->item_names_size()));
  for (int i = 0; i < from->item_names_size(); ++i) {
    RETURN_IF_ERROR(CheckText(from->item_names(i), kPathBytesMax, Indexed("item_names", i)));
    to->item_names.push_back(std::move(*from->mutable_item_names(i)));
  }
  return absl::OkStatus();
}

}  // namespace

v1::DType EncodeDType(DType from) {
  static_assert(static_cast<int>(DType::kBool) == v1::BOOL &&
                static_cast<int>(DType::kU32) == v1::U32 &&
                static_cast<int>(DType::kBytes) == v1::BYTES);
  return static_cast<v1::DType>(from);
}

absl::StatusOr<DType> DecodeDType(v1::DType from) {
  if (from <= v1::DTYPE_UNSPECIFIED || from > v1::BYTES) {
    return WithField(InvalidError(reason::kBadSpec, StrCat("dtype ", static_cast<int>(from),
                                                           " is unknown; it is "
                                                           "one of ",
                                                           DTypeNames())),
                     "dtype");
  }
  return static_cast<DType>(from);
}

void Encode(const TensorSpec& from, v1::Tensor* to) {
  to->set_dtype(EncodeDType(from.dtype));
  for (const int64_t extent : from.shape) to->add_shape(static_cast<uint64_t>(extent));
}

absl::Status Decode(const v1::Tensor& from, TensorSpec* to) {
  ASSIGN_OR_RETURN(to->dtype, DecodeDType(from.dtype()));
  if (from.shape_size() > kRankMax) {
    return WithField(InvalidError(reason::kBadSpec, StrCat("the shape has ", from.shape_size(),
                                                           " dimensions; at most ", kRankMax)),
                     "shape");
  }
  to->shape.clear();
  for (int i = 0; i < from.shape_size(); ++i) {
    if (from.shape(i) > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return WithField(
          InvalidError(reason::kTooLarge, StrCat("dimension ", i, " is beyond 2^63 - 1")),
          Indexed("shape", i));
    }
    to->shape.push_back(static_cast<int64_t>(from.shape(i)));
  }
  return absl::OkStatus();
}

void Encode(const Scalar& from, v1::Number* to) {
  if (from.dtype() == DType::kBool) {
    to->set_b(from.bits() != 0);
  } else if (IsSigned(from.dtype())) {
    to->set_i(from.AsInt64().value_or(0));
  } else if (IsInteger(from.dtype())) {
    to->set_u(from.bits());
  } else if (IsFloat(from.dtype())) {
    to->set_d(from.AsDouble());
  } else {
    to->clear_value();
  }
}

absl::StatusOr<Scalar> DecodeNumber(const v1::Number& from, DType dtype) {
  switch (from.value_case()) {
    case v1::Number::kB:
      return Scalar::Bool(from.b()).ConvertTo(dtype);
    case v1::Number::kI:
      return Scalar::I64(from.i()).ConvertTo(dtype);
    case v1::Number::kU:
      return Scalar::U64(from.u()).ConvertTo(dtype);
    case v1::Number::kD:
      return Scalar::F64(from.d()).ConvertTo(dtype);
    case v1::Number::VALUE_NOT_SET:
      break;
  }
  return InvalidError(reason::kBadSpec, "the number has no value");
}

void EncodeScalar(std::string_view name, const Scalar& from, v1::Scalar* to) {
  to->set_name(std::string(name));
  v1::Number number;
  Encode(from, &number);
  switch (number.value_case()) {
    case v1::Number::kB:
      return to->set_b(number.b());
    case v1::Number::kI:
      return to->set_i(number.i());
    case v1::Number::kU:
      return to->set_u(number.u());
    case v1::Number::kD:
      return to->set_d(number.d());
    case v1::Number::VALUE_NOT_SET:
      return to->clear_value();
  }
}

absl::StatusOr<Scalar> DecodeScalar(const v1::Scalar& from) {
  switch (from.value_case()) {
    case v1::Scalar::kB:
      return Scalar::Bool(from.b());
    case v1::Scalar::kI:
      return Scalar::I64(from.i());
    case v1::Scalar::kU:
      return Scalar::U64(from.u());
    case v1::Scalar::kD:
      return Scalar::F64(from.d());
    case v1::Scalar::VALUE_NOT_SET:
      break;
  }
  return WithField(InvalidError(reason::kBadSpec, "the scalar has no value"), "value");
}

void Encode(const BlobLocator& from, v1::BlobRef* to) {
  to->set_sha256(std::string(from.id.raw()));
  to->set_size(from.size);
}

absl::Status Decode(const v1::BlobRef& from, BlobLocator* to) {
  if (from.sha256().size() != BlobId::kBytes) {
    return BadLocator("sha256",
                      StrCat("has ", from.sha256().size(), " bytes, not ", BlobId::kBytes));
  }
  to->id = BlobId::FromRaw(from.sha256());
  if (!to->id.valid()) return BadLocator("sha256", "is all zero");
  to->size = from.size();
  return absl::OkStatus();
}

void Encode(const Locator& from, v1::Locator* to) { std::visit(LocatorEncoder{to}, from); }

absl::Status Decode(v1::Locator* from, DType dtype, Locator* to) {
  switch (from->where_case()) {
    case v1::Locator::kInline:
      to->emplace<InlineLocator>().bytes = std::move(*from->mutable_inline_()->mutable_data());
      return absl::OkStatus();
    case v1::Locator::kBlob:
      return WithField(Decode(from->blob(), &to->emplace<BlobLocator>()), "blob");
    case v1::Locator::kPath:
      return WithField(DecodePath(from->mutable_path(), &to->emplace<PathLocator>()), "path");
    case v1::Locator::kGenerator:
      return WithField(
          DecodeGenerator(from->generator(), dtype, &to->emplace<GeneratorLocator>().generator),
          "generator");
    case v1::Locator::kJobOutput:
      return WithField(
          DecodeJobOutput(from->mutable_job_output(), &to->emplace<JobOutputLocator>()),
          "job_output");
    case v1::Locator::kHeld:
      return WithField(DecodeHeld(from->held(), &to->emplace<HeldLocator>()), "held");
    case v1::Locator::kParts:
      return BadLocator("parts", "cannot stand inside another list");
    case v1::Locator::kPacked:
      return BadLocator("packed", "cannot stand inside another list");
    case v1::Locator::WHERE_NOT_SET:
      break;
  }
  return BadLocator("where", "is missing: say where the bytes are");
}

void EncodeOperand(std::string_view name, const OperandSpec& from, v1::Operand* to) {
  to->set_name(std::string(name));
  Encode(from.spec, to->mutable_tensor());
  if (const auto* plain = std::get_if<Locator>(&from.source)) {
    Encode(*plain, to->mutable_locator());
  } else if (const auto* packed = std::get_if<RaggedPacked>(&from.source)) {
    v1::PackedItems* items = to->mutable_locator()->mutable_packed();
    Encode(packed->offsets, items->mutable_offsets());
    Encode(packed->data, items->mutable_data());
    items->set_data_bytes(packed->data_bytes);
  } else {
    v1::PartList* parts = to->mutable_locator()->mutable_parts();
    for (const Locator& item : std::get<RaggedItems>(from.source).items) {
      Encode(item, parts->add_parts());
    }
  }
  for (const std::string& item : from.item_names) {
    to->add_item_names(CleanText(item, kPathBytesMax));
  }
}

absl::Status Decode(v1::Operand* from, OperandSpec* to) {
  RETURN_IF_ERROR(WithField(Decode(from->tensor(), &to->spec), "tensor"));
  RETURN_IF_ERROR(WithField(DecodeSource(from->mutable_locator(), to->spec.dtype, to), "locator"));
  return DecodeItemNames(from, to);
}

}  // namespace tandem::wire
