#include "client/lib/dense_operand.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "client/lib/fasta.h"
#include "client/lib/npy.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/data/sha256.h"
#include "common/data/xxh3.h"

namespace tandem::client {
namespace {

constexpr uint64_t kPathSliceBytesMin = 1 << 20;
constexpr uint64_t kPathSlicesMax = 1 << 16;

bool EndsWith(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

// "FILE:[100,3]" taken apart.
struct FileArgument {
  std::string path;
  bool has_shape = false;
  Shape shape;
};
absl::StatusOr<FileArgument> ParseFileArgument(std::string_view value) {
  FileArgument file;
  const size_t colon = value.rfind(":[");
  if (colon == std::string_view::npos || value.back() != ']') {
    file.path = std::string(value);
    return file;
  }
  file.path = std::string(value.substr(0, colon));
  file.has_shape = true;
  for (const std::string_view part :
       Split(value.substr(colon + 2, value.size() - colon - 3), ',')) {
    ASSIGN_OR_RETURN(const Scalar extent, Scalar::Parse(Trim(part), DType::kI64));
    file.shape.push_back(*extent.AsInt64());
  }
  return file;
}

// The shape of raw bytes: as given, or solved with one unknown axis.
absl::StatusOr<Shape> RawShape(const Signature& signature, const OperandSig& operand,
                               const FileArgument& file, uint64_t bytes, ExtentValues known) {
  const uint64_t size = DTypeSize(operand.dtype);
  if (bytes % size != 0) {
    return InvalidError(reason::kShapeMismatch,
                        StrCat(Quoted(file.path), " has ", bytes, " bytes, not a multiple of ",
                               size, " (", DTypeName(operand.dtype), ")"));
  }
  if (file.has_shape) return file.shape;
  if (operand.dims.size() == 1) return Shape{static_cast<int64_t>(bytes / size)};
  Shape shape;
  uint64_t rest = bytes / size;
  int unknown = -1;
  for (size_t d = 0; d < operand.dims.size(); ++d) {
    shape.push_back(0);
    if (!operand.dims[d].Known(known)) {
      if (unknown >= 0) {
        return InvalidError(reason::kShapeMismatch,
                            StrCat("the shape of the raw file ", Quoted(file.path),
                                   " is not known; give it as @", file.path, ":[rows,columns]"));
      }
      unknown = static_cast<int>(d);
      continue;
    }
    ASSIGN_OR_RETURN(shape[d], operand.dims[d].Evaluate(known));
    if (shape[d] <= 0) return shape;
    rest /= static_cast<uint64_t>(shape[d]);
  }
  if (unknown >= 0) shape[static_cast<size_t>(unknown)] = static_cast<int64_t>(rest);
  return shape;
}

// Bytes of a Fortran-ordered array in C order.
std::string ToCOrder(const TensorSpec& spec, std::string_view fortran) {
  const uint64_t size = DTypeSize(spec.dtype);
  const size_t rank = spec.shape.size();
  std::vector<uint64_t> stride(rank, size);
  for (size_t d = 1; d < rank; ++d)
    stride[d] = stride[d - 1] * static_cast<uint64_t>(spec.shape[d - 1]);
  std::string out(fortran.size(), '\0');
  std::vector<int64_t> index(rank, 0);
  for (uint64_t to = 0; to < out.size(); to += size) {
    uint64_t from = 0;
    for (size_t d = 0; d < rank; ++d) from += static_cast<uint64_t>(index[d]) * stride[d];
    std::memcpy(out.data() + to, fortran.data() + from, size);
    for (size_t d = rank; d-- > 0;) {
      if (++index[d] < spec.shape[d]) break;
      index[d] = 0;
    }
  }
  return out;
}

absl::Status CheckDType(const OperandSig& operand, DType given, std::string_view path) {
  // numpy has no bf16: its bits come as u2, which has no name of ours.
  if (given == operand.dtype) return absl::OkStatus();
  return InvalidError(
      reason::kDtypeMismatch,
      StrCat("operand ", operand.name, " takes ", DTypeName(operand.dtype), "; ", Quoted(path),
             " holds ", DTypeName(given), ": convert it with a.astype('",
             NpyDescr(operand.dtype).empty() ? "<f4" : NpyDescr(operand.dtype), "')"));
}

absl::StatusOr<NpyHeader> NpyHeaderOf(const std::string& path) {
  ASSIGN_OR_RETURN(const FileIdentity identity, IdentityOf(path));
  ASSIGN_OR_RETURN(const std::string prefix, ReadPrefix(path, NpyHeader::kHeaderBytesMax + 12));
  auto header = ParseNpyHeader(prefix, identity.size);
  if (!header.ok()) return WithContext(header.status(), path);
  return header;
}

absl::StatusOr<OperandSpec> FromNpy(const OperandSig& operand, const FileArgument& file,
                                    std::vector<Upload>* uploads) {
  ASSIGN_OR_RETURN(const NpyHeader header, NpyHeaderOf(file.path));
  RETURN_IF_ERROR(CheckDType(operand, header.spec.dtype, file.path));
  ASSIGN_OR_RETURN(ByteSource source, ByteSource::OfFile(file.path, header.data_offset));
  if (header.fortran_order && header.spec.shape.size() > 1) {
    ASSIGN_OR_RETURN(const std::string bytes, source.ReadAll());
    source = ByteSource::OfMemory(ToCOrder(header.spec, bytes));
  }
  OperandSpec spec;
  spec.spec = header.spec;
  ASSIGN_OR_RETURN(spec.source,
                   LocateBytes(source, StrCat(operand.name, " from ", file.path), uploads));
  return spec;
}

absl::StatusOr<OperandSpec> FromFile(const Signature& signature, const OperandSig& operand,
                                     std::string_view value, ExtentValues known,
                                     std::vector<Upload>* uploads) {
  ASSIGN_OR_RETURN(const FileArgument file, ParseFileArgument(value));
  if (EndsWith(file.path, ".npy")) return FromNpy(operand, file, uploads);
  ByteSource source;
  if (operand.dtype == DType::kU8 && operand.dims.size() == 1 && IsFastaName(file.path)) {
    ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(file.path));
    auto fasta = ParseFasta(text);
    if (!fasta.ok()) return WithContext(fasta.status(), file.path);
    source = ByteSource::OfMemory(std::move(fasta->letters));
  } else {
    ASSIGN_OR_RETURN(source, ByteSource::OfFile(file.path));
  }
  OperandSpec spec;
  spec.spec.dtype = operand.dtype;
  ASSIGN_OR_RETURN(spec.spec.shape, RawShape(signature, operand, file, source.size(), known));
  ASSIGN_OR_RETURN(const uint64_t bytes, spec.spec.Bytes());
  if (bytes != source.size()) {
    return InvalidError(reason::kShapeMismatch,
                        StrCat(Quoted(file.path), " has ", source.size(), " bytes; ",
                               spec.spec.ToString(), " takes ", bytes));
  }
  ASSIGN_OR_RETURN(spec.source,
                   LocateBytes(source, StrCat(operand.name, " from ", file.path), uploads));
  return spec;
}

// Checksums of a file's slices: its identity for as long as the job lives.
absl::StatusOr<OperandSpec> FromPath(const Signature& signature, const OperandSig& operand,
                                     std::string_view value, ExtentValues known) {
  ASSIGN_OR_RETURN(FileArgument file, ParseFileArgument(value));
  if (operand.dtype == DType::kU8 && IsFastaName(file.path)) {
    return InvalidError(reason::kBadFile, StrCat("path: reads .npy and raw files; give FASTA as ",
                                                 operand.name, "=@", file.path));
  }
  std::error_code failed;
  file.path = std::filesystem::absolute(file.path, failed).lexically_normal().string();
  PathLocator path;
  path.path = file.path;
  ASSIGN_OR_RETURN(const FileIdentity identity, IdentityOf(file.path));
  OperandSpec spec;
  spec.spec.dtype = operand.dtype;
  if (EndsWith(file.path, ".npy")) {
    ASSIGN_OR_RETURN(const NpyHeader header, NpyHeaderOf(file.path));
    RETURN_IF_ERROR(CheckDType(operand, header.spec.dtype, file.path));
    if (header.fortran_order && header.spec.shape.size() > 1) {
      return InvalidError(reason::kBadFile,
                          StrCat(Quoted(file.path),
                                 " is in Fortran order, which workers do not "
                                 "read; save it with numpy.ascontiguousarray, or use @",
                                 file.path));
    }
    spec.spec = header.spec;
    path.data_offset = header.data_offset;
  } else {
    ASSIGN_OR_RETURN(spec.spec.shape, RawShape(signature, operand, file, identity.size, known));
  }
  path.file_size = identity.size;
  path.mtime_ns = identity.mtime_ns;
  path.size = identity.size - path.data_offset;
  path.slice_bytes = kPathSliceBytesMin;
  while (path.size / path.slice_bytes >= kPathSlicesMax) path.slice_bytes *= 2;
  ASSIGN_OR_RETURN(const ByteSource source, ByteSource::OfFile(file.path, path.data_offset));
  Xxh3Stream hash;
  uint64_t in_slice = 0;
  RETURN_IF_ERROR(source.Read(0, [&](std::string_view chunk) {
    while (!chunk.empty()) {
      const size_t take = std::min<uint64_t>(chunk.size(), path.slice_bytes - in_slice);
      hash.Update(chunk.substr(0, take));
      in_slice += take;
      chunk.remove_prefix(take);
      if (in_slice == path.slice_bytes) {
        path.slice_checksums.push_back(hash.Digest());
        hash.Reset();
        in_slice = 0;
      }
    }
    return absl::OkStatus();
  }));
  if (in_slice > 0) path.slice_checksums.push_back(hash.Digest());
  spec.source = Locator(std::move(path));
  return spec;
}

absl::StatusOr<OperandSpec> FromList(const OperandSig& operand, std::string_view value,
                                     std::vector<Upload>* uploads) {
  if (value.back() != ']') return InvalidError(reason::kBadArgument, "a list ends with ']'");
  std::string bytes;
  int64_t count = 0;
  const std::string_view inside = Trim(value.substr(1, value.size() - 2));
  if (!inside.empty()) {
    for (const std::string_view part : Split(inside, ',')) {
      ASSIGN_OR_RETURN(const Scalar element, Scalar::Parse(Trim(part), operand.dtype));
      bytes.append(static_cast<const char*>(element.data()), element.size());
      ++count;
    }
  }
  OperandSpec spec;
  spec.spec = TensorSpec{operand.dtype, Shape{count}};
  ASSIGN_OR_RETURN(spec.source,
                   LocateBytes(ByteSource::OfMemory(std::move(bytes)), operand.name, uploads));
  return spec;
}

}  // namespace

absl::StatusOr<Locator> LocateBytes(const ByteSource& source, std::string_view what,
                                    std::vector<Upload>* uploads) {
  if (source.size() <= kInlineBytesMax) {
    ASSIGN_OR_RETURN(std::string bytes, source.ReadAll());
    return Locator(InlineLocator{std::move(bytes)});
  }
  Sha256 hash;
  RETURN_IF_ERROR(source.Read(0, [&](std::string_view chunk) {
    hash.Update(chunk);
    return absl::OkStatus();
  }));
  const BlobId id = hash.Finish();
  uploads->push_back(Upload{id, source, std::string(what)});
  return Locator(BlobLocator{id, source.size()});
}

absl::StatusOr<OperandSpec> DenseOperand(const Signature& signature, const OperandSig& operand,
                                         std::string_view value, ExtentValues known,
                                         std::vector<Upload>* uploads) {
  if (value.starts_with('@')) return FromFile(signature, operand, value.substr(1), known, uploads);
  if (value.starts_with("path:")) return FromPath(signature, operand, value.substr(5), known);
  if (value.starts_with('[')) return FromList(operand, value, uploads);
  return InvalidError(
      reason::kBadArgument,
      StrCat(Quoted(value),
             " is no operand; give @file, path:file, [1,2,3], uniform(seed=1), iota "
             "or constant(",
             value.empty() ? "0" : value, ")"));
}

absl::StatusOr<OperandSpec> GeneratedOperand(const Signature& signature, const OperandSig& operand,
                                             std::string_view value, ExtentValues known) {
  OperandSpec spec;
  spec.spec.dtype = operand.dtype;
  for (const Extent& extent : operand.dims) {
    if (!extent.Known(known)) {
      return InvalidError(reason::kMissingAxisExtent,
                          StrCat("how long ", operand.name, "[", signature.ExtentToString(extent),
                                 "] is cannot be told; give the axis, as in n=1000000"));
    }
    ASSIGN_OR_RETURN(const int64_t length, extent.Evaluate(known));
    if (length < 0)
      return InvalidError(reason::kShapeMismatch, StrCat(operand.name, " has a negative length"));
    spec.spec.shape.push_back(length);
  }
  ASSIGN_OR_RETURN(Generator generator, ParseGenerator(value, operand.dtype));
  spec.source = Locator(GeneratorLocator{std::move(generator)});
  return spec;
}

}  // namespace tandem::client
