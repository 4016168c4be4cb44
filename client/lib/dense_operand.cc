#include "client/lib/dense_operand.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "client/lib/fasta.h"
#include "client/lib/hash_cache.h"
#include "client/lib/npy_source.h"
#include "client/lib/path_operand.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/model/generator.h"

namespace tandem::client {
namespace {

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
  const std::string_view inside = Trim(value.substr(colon + 2, value.size() - colon - 3));
  if (inside.empty()) return file;
  for (const std::string_view part : Split(inside, ',')) {
    ASSIGN_OR_RETURN(const Scalar extent, Scalar::Parse(Trim(part), DType::kI64));
    file.shape.push_back(*extent.AsInt64());
  }
  return file;
}

// What the bytes of one file are for the job, before anything but its head was read.
struct FileBytes {
  TensorSpec spec;
  ByteSource source;
  // Where workers can read the file themselves:
  FileIdentity identity;
  uint64_t offset = 0;
  std::string cannot_be_path;  // Else why, and what to do.
};

// One operand from a file.
class FileReader {
 public:
  FileReader(const Signature& signature, const OperandSig& operand, ExtentValues known)
      : signature_(signature), operand_(operand), known_(known) {}

  absl::StatusOr<FileBytes> Read(const FileArgument& file) const {
    ASSIGN_OR_RETURN(const InputFile opened, InputFile::Open(file.path));
    ASSIGN_OR_RETURN(const std::string head, opened.ReadPrefix(8));
    if (HasEnding(file.path, {".npy"}) || IsNpy(head)) return Npy(file);
    if (TakesFasta() && IsFastaName(file.path)) return Fasta(file);
    RETURN_IF_ERROR(RefuseOthers(file.path));
    return Raw(file, opened.identity());
  }

 private:
  static bool HasEnding(std::string_view path, std::initializer_list<std::string_view> endings) {
    const size_t dot = path.rfind('.');
    if (dot == std::string_view::npos) return false;
    std::string end(path.substr(dot));
    std::transform(end.begin(), end.end(), end.begin(),
                   [](unsigned char c) { return std::tolower(c); });
    return std::find(endings.begin(), endings.end(), end) != endings.end();
  }
  bool TakesFasta() const { return operand_.dtype == DType::kU8 && operand_.dims.size() == 1; }

  std::string Expected() const {
    std::string text = StrCat("operand ", operand_.name, " takes ", DTypeName(operand_.dtype), "[");
    for (size_t d = 0; d < operand_.dims.size(); ++d) {
      StrAppend(&text, d == 0 ? "" : ", ", signature_.ExtentToString(operand_.dims[d]));
    }
    return text + "]";
  }

  // Of a file that says its own dtype and shape.
  absl::Status CheckNpy(const FileArgument& file, const NpyHeader& header) const {
    const TensorSpec& spec = header.spec;
    if (spec.dtype != operand_.dtype) {
      const std::string_view descr = NpyDescr(operand_.dtype);
      return InvalidError(
          reason::kDtypeMismatch,
          StrCat(Expected(), "; ", Quoted(file.path), " holds ", spec.ToString(), " (",
                 header.descr, "): ",
                 descr.empty() ? "save its bits with a.view('<u2')"
                               : StrCat("convert it with a.astype('", descr, "')")));
    }
    if (spec.shape.size() != operand_.dims.size()) {
      return InvalidError(
          reason::kShapeMismatch,
          StrCat(Expected(), ", of ", operand_.dims.size(), " dimensions; ", Quoted(file.path),
                 " holds ", spec.ToString(), ", of ", spec.shape.size(), ": reshape it"));
    }
    if (file.has_shape && file.shape != spec.shape) {
      return InvalidError(
          reason::kShapeMismatch,
          StrCat(Quoted(file.path), " holds ", spec.ToString(), ", not ", ShapeToString(file.shape),
                 "; a .npy file says its own shape, leave it out"));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<FileBytes> Npy(const FileArgument& file) const {
    ASSIGN_OR_RETURN(const NpyFile npy, OpenNpy(file.path));
    RETURN_IF_ERROR(CheckNpy(file, npy.header));
    FileBytes bytes{npy.header.spec, {}, npy.identity, npy.header.data_offset, ""};
    ASSIGN_OR_RETURN(bytes.source, NpyElements(file.path, npy));
    if (!npy.plain()) {
      bytes.cannot_be_path = StrCat(
          Quoted(file.path), npy.header.big_endian ? " is big-endian" : " is in Fortran order",
          ", which workers do not read; save it with numpy.ascontiguousarray(a, '",
          NpyDescr(operand_.dtype), "')");
    }
    return bytes;
  }

  absl::StatusOr<FileBytes> Fasta(const FileArgument& file) const {
    ASSIGN_OR_RETURN(FastaFile fasta, OpenFasta(file.path));
    FileBytes bytes;
    bytes.spec = {operand_.dtype, Shape{static_cast<int64_t>(fasta.letters.size())}};
    bytes.source = std::move(fasta.letters);
    bytes.cannot_be_path = "path: reads .npy and raw files, no FASTA";
    RETURN_IF_ERROR(CheckGivenShape(file, bytes));
    return bytes;
  }

  absl::StatusOr<FileBytes> Raw(const FileArgument& file, const FileIdentity& identity) const {
    FileBytes bytes;
    bytes.identity = identity;
    bytes.source = ByteSource::OfFile(file.path, identity, 0);
    bytes.spec.dtype = operand_.dtype;
    ASSIGN_OR_RETURN(bytes.spec.shape, RawShape(file, identity.size));
    RETURN_IF_ERROR(CheckGivenShape(file, bytes));
    return bytes;
  }

  static absl::Status CheckGivenShape(const FileArgument& file, const FileBytes& bytes) {
    TensorSpec given = bytes.spec;
    if (file.has_shape) given.shape = file.shape;
    ASSIGN_OR_RETURN(const uint64_t size, given.Bytes());
    if (size == bytes.source.size()) return absl::OkStatus();
    return InvalidError(reason::kShapeMismatch,
                        StrCat(Quoted(file.path), " has ", bytes.source.size(), " bytes; ",
                               given.ToString(), " takes ", size));
  }

  // What a name says that raw numbers are not.
  absl::Status RefuseOthers(const std::string& path) const {
    if (HasEnding(path, {".npz"})) {
      return InvalidError(reason::kBadFile, StrCat(Quoted(path),
                                                   " is an archive of arrays; save the one that "
                                                   "is meant with numpy.save"));
    }
    const bool packed = HasEnding(path, {".gz", ".bz2", ".xz", ".zst", ".zip"});
    if (packed && TakesFasta() && IsFastaName(path.substr(0, path.rfind('.')))) {
      return InvalidError(reason::kBadFile,
                          StrCat(Quoted(path), " is compressed; unpack it first"));
    }
    const bool text = HasEnding(path, {".csv", ".tsv", ".txt", ".json", ".parquet", ".h5"});
    if ((packed || text) && DTypeSize(operand_.dtype) > 1) {
      return InvalidError(reason::kBadFile,
                          StrCat(Quoted(path), " holds no raw numbers, by its name; ", Expected(),
                                 ": save it with numpy.save"));
    }
    return absl::OkStatus();
  }

  // The shape of raw bytes: as given, or solved with one unknown dimension.
  absl::StatusOr<Shape> RawShape(const FileArgument& file, uint64_t bytes) const {
    const uint64_t size = DTypeSize(operand_.dtype);
    if (bytes % size != 0) {
      return InvalidError(reason::kShapeMismatch,
                          StrCat(Quoted(file.path), " has ", bytes, " bytes, not a multiple of ",
                                 size, "; ", Expected(),
                                 ", and what is no .npy file is taken as its numbers alone, row by "
                                 "row, little-endian"));
    }
    if (file.has_shape) return file.shape;
    if (operand_.dims.size() == 1) return Shape{static_cast<int64_t>(bytes / size)};
    Shape shape(operand_.dims.size(), 0);
    int64_t* unknown = nullptr;
    uint64_t columns = 1;
    for (size_t d = 0; d < operand_.dims.size(); ++d) {
      if (operand_.dims[d].Known(known_)) {
        ASSIGN_OR_RETURN(shape[d], operand_.dims[d].Evaluate(known_));
        columns *= static_cast<uint64_t>(std::max<int64_t>(shape[d], 0));
      } else if (unknown != nullptr) {
        return InvalidError(
            reason::kShapeMismatch,
            StrCat("the shape of the raw file ", Quoted(file.path), " is not known; ", Expected(),
                   ": give it as @", file.path, ":[rows,columns], or save it as .npy"));
      } else {
        unknown = &shape[d];
      }
    }
    if (unknown != nullptr && columns > 0) *unknown = static_cast<int64_t>(bytes / size / columns);
    return shape;
  }

  const Signature& signature_;
  const OperandSig& operand_;
  const ExtentValues known_;
};

absl::StatusOr<OperandSpec> FromFile(const FileReader& reader, const OperandSig& operand,
                                     std::string_view value, std::vector<Upload>* uploads) {
  ASSIGN_OR_RETURN(const FileArgument file, ParseFileArgument(value));
  ASSIGN_OR_RETURN(const FileBytes bytes, reader.Read(file));
  OperandSpec spec;
  spec.spec = bytes.spec;
  ASSIGN_OR_RETURN(spec.source,
                   LocateBytes(bytes.source, StrCat(operand.name, " from ", file.path), uploads));
  return spec;
}

absl::StatusOr<OperandSpec> FromPath(const FileReader& reader, const OperandSig& operand,
                                     std::string_view value) {
  ASSIGN_OR_RETURN(const FileArgument file, ParseFileArgument(value));
  ASSIGN_OR_RETURN(const FileBytes bytes, reader.Read(file));
  if (!bytes.cannot_be_path.empty()) {
    return InvalidError(
        reason::kBadFile,
        StrCat(bytes.cannot_be_path, ", or upload it: ", operand.name, "=@", file.path));
  }
  OperandSpec spec;
  spec.spec = bytes.spec;
  ASSIGN_OR_RETURN(PathLocator path, LocatePath(file.path, bytes.identity, bytes.offset));
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

// Several files, which only an operand of many items takes.
absl::Status RefuseMany(const OperandSig& operand, std::string_view value) {
  const std::string_view path = value.starts_with('@')       ? value.substr(1)
                                : value.starts_with("path:") ? value.substr(5)
                                                             : std::string_view();
  const bool many = path.starts_with("list:") || path.find_first_of("*?") != std::string_view::npos;
  if (!many || IsThere(path)) return absl::OkStatus();
  return InvalidError(
      reason::kBadArgument,
      StrCat(Quoted(value), " names many files, but operand ", operand.name,
             " is one array: join them into one file (numpy.save('all.npy', numpy.concatenate([…]))"
             ") and give ",
             operand.name, "=@all.npy, or run a job for each"));
}

}  // namespace

absl::StatusOr<Locator> LocateBytes(const ByteSource& source, std::string_view what,
                                    std::vector<Upload>* uploads) {
  if (source.size() <= kInlineBytesMax) {
    ASSIGN_OR_RETURN(std::string bytes, source.ReadAll());
    return Locator(InlineLocator{std::move(bytes)});
  }
  ASSIGN_OR_RETURN(const BlobId id, HashCache::OfUser()->IdOf(source));
  uploads->push_back(Upload{id, source, std::string(what)});
  return Locator(BlobLocator{id, source.size()});
}

absl::StatusOr<OperandSpec> DenseOperand(const Signature& signature, const OperandSig& operand,
                                         std::string_view value, ExtentValues known,
                                         std::vector<Upload>* uploads) {
  const FileReader reader(signature, operand, known);
  RETURN_IF_ERROR(RefuseMany(operand, value));
  if (value.starts_with('@')) return FromFile(reader, operand, value.substr(1), uploads);
  if (value.starts_with("path:")) return FromPath(reader, operand, value.substr(5));
  if (value.starts_with('[')) return FromList(operand, value, uploads);
  if (IsThere(value)) {
    return InvalidError(
        reason::kBadArgument,
        StrCat(Quoted(value), " is a file: upload it as ", operand.name, "=@", value,
               ", or have workers read it as ", operand.name, "=path:", value));
  }
  // Not a generator by its name, but written as one: its own error names the nearest.
  const std::string_view name = value.substr(0, value.find('('));
  const std::string_view near = Nearest(name, {"uniform", "iota", "constant"});
  if (!near.empty() || name.size() < value.size()) {
    RETURN_IF_ERROR(ParseGenerator(value, operand.dtype).status());
  }
  return InvalidError(
      reason::kBadArgument,
      StrCat(Quoted(value),
             " is no operand; give @file, path:file, [1,2,3], uniform(seed=1), iota "
             "or constant(",
             value.empty() ? "0" : value, ")"));
}

bool NeedsMoreAxes(const OperandSig& operand, std::string_view value, ExtentValues known) {
  if (!value.starts_with('@') && !value.starts_with("path:")) return false;
  const auto unknown = std::count_if(operand.dims.begin(), operand.dims.end(),
                                     [&](const Extent& extent) { return !extent.Known(known); });
  if (operand.dims.size() < 2 || unknown < 2) return false;
  const auto file = ParseFileArgument(value.substr(value[0] == '@' ? 1 : 5));
  if (!file.ok() || file->has_shape) return false;
  const auto opened = InputFile::Open(file->path);
  if (!opened.ok()) return false;
  const auto head = opened->ReadPrefix(8);
  return head.ok() && !IsNpy(*head);
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
