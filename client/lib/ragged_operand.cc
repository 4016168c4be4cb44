#include "client/lib/ragged_operand.h"

#include <utility>

#include "client/lib/dense_operand.h"
#include "client/lib/file_list.h"
#include "client/lib/path_operand.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace tandem::client {
namespace {

// Names that a job keeps, so that its results can bear them later.
constexpr uint64_t kKeptNameBytesMax = 256 << 10;
// More files than this would make a job of which the master says that it is too large.
constexpr uint64_t kPathItemsMax = 20'000;

std::string_view FileNameOf(std::string_view path) {
  return path.substr(path.rfind('/') == std::string_view::npos ? 0 : path.rfind('/') + 1);
}

absl::StatusOr<OperandSpec> Packed(const OperandSig& operand, const std::vector<std::string>& files,
                                   std::vector<Upload>* uploads) {
  std::string offsets(sizeof(uint64_t), '\0');
  ByteSource data;
  for (const std::string& file : files) {
    ASSIGN_OR_RETURN(const ByteSource bytes, ByteSource::OfFile(file));
    data.Append(bytes);
    const uint64_t end = data.size();
    offsets.append(reinterpret_cast<const char*>(&end), sizeof end);
  }
  OperandSpec spec;
  RaggedPacked packed;
  packed.data_bytes = data.size();
  const std::string what = StrCat(operand.name, ", ", files.size(), " files");
  ASSIGN_OR_RETURN(packed.offsets, LocateBytes(ByteSource::OfMemory(std::move(offsets)),
                                               StrCat("the sizes of ", what), uploads));
  ASSIGN_OR_RETURN(packed.data, LocateBytes(data, what, uploads));
  spec.source = std::move(packed);
  return spec;
}

absl::StatusOr<OperandSpec> OfPaths(const OperandSig& operand,
                                    const std::vector<std::string>& files) {
  if (files.size() > kPathItemsMax) {
    return Error(absl::StatusCode::kResourceExhausted, reason::kLimitExceeded,
                 StrCat(files.size(), " files are more than path: takes (", kPathItemsMax,
                        "); upload them: ", operand.name, "=@…"));
  }
  RaggedItems items;
  for (const std::string& file : files) {
    ASSIGN_OR_RETURN(const InputFile opened, InputFile::Open(file));
    ASSIGN_OR_RETURN(PathLocator path, LocatePath(file, opened.identity(), 0));
    items.items.emplace_back(std::move(path));
  }
  OperandSpec spec;
  spec.source = std::move(items);
  return spec;
}

void KeepNames(const std::vector<std::string>& files, OperandSpec* spec) {
  uint64_t bytes = 0;
  for (const std::string& file : files) bytes += FileNameOf(file).size();
  if (bytes > kKeptNameBytesMax) return;
  for (const std::string& file : files) spec->item_names.emplace_back(FileNameOf(file));
}

}  // namespace

absl::StatusOr<OperandSpec> RaggedOperand(const OperandSig& operand, std::string_view value,
                                          PreparedJob* job) {
  const bool by_path = value.starts_with("path:");
  if (!by_path && !value.starts_with('@') && !value.starts_with("list:")) {
    if (IsThere(value)) {
      return InvalidError(reason::kBadArgument, StrCat("to upload what is in ", Quoted(value),
                                                       " write ", operand.name, "=@", value));
    }
    return InvalidError(reason::kBadArgument,
                        StrCat(Quoted(value),
                               " names no files; give @directory/, @'*.png', @file, "
                               "@list:file or the same behind path:"));
  }
  if (by_path) value.remove_prefix(5);
  if (value.starts_with('@')) value.remove_prefix(1);
  ASSIGN_OR_RETURN(FileList list, FilesNamed(value));
  OperandSpec spec;
  if (by_path) {
    ASSIGN_OR_RETURN(spec, OfPaths(operand, list.files));
  } else {
    ASSIGN_OR_RETURN(spec, Packed(operand, list.files, &job->uploads));
  }
  spec.spec = TensorSpec{DType::kBytes, Shape{static_cast<int64_t>(list.files.size())}};
  KeepNames(list.files, &spec);
  if (!list.left_out.empty()) {
    job->notes.push_back(StrCat(operand.name, ": ", list.left_out, " left out"));
  }
  job->item_names[operand.name] = std::move(list.files);
  return spec;
}

}  // namespace tandem::client
