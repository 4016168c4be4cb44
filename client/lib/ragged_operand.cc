#include "client/lib/ragged_operand.h"

#include <glob.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <system_error>
#include <utility>

#include "client/lib/dense_operand.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/wire/decode_util.h"

namespace tandem::client {
namespace {

namespace fs = std::filesystem;

// The regular files of a directory, hidden ones left out, in order of names.
absl::StatusOr<std::vector<std::string>> FilesOf(const std::string& directory) {
  std::error_code failed;
  std::vector<std::string> files;
  for (fs::directory_iterator it(directory, failed), end; !failed && it != end;
       it.increment(failed)) {
    std::error_code unreadable;
    if (it->is_regular_file(unreadable) && it->path().filename().native()[0] != '.') {
      files.push_back(it->path().string());
    }
  }
  if (failed) {
    return InvalidError(reason::kPathUnreadable,
                        StrCat("cannot list ", Quoted(directory), ": ", failed.message()));
  }
  std::sort(files.begin(), files.end());
  if (files.empty()) {
    return InvalidError(reason::kBadArgument,
                        StrCat("directory ", Quoted(directory), " holds no files"));
  }
  return files;
}

absl::StatusOr<std::vector<std::string>> FilesMatching(const std::string& pattern) {
  glob_t found{};
  const int result = glob(pattern.c_str(), 0, nullptr, &found);
  std::vector<std::string> files;
  std::error_code failed;
  for (size_t i = 0; result == 0 && i < found.gl_pathc; ++i) {
    if (fs::is_regular_file(found.gl_pathv[i], failed)) files.push_back(found.gl_pathv[i]);
  }
  globfree(&found);
  if (files.empty()) {
    return InvalidError(reason::kBadArgument, StrCat("no file matches ", Quoted(pattern)));
  }
  return files;
}

absl::StatusOr<std::vector<std::string>> FilesListedIn(const std::string& list) {
  std::string text;
  if (list == "-") {
    text.assign(std::istreambuf_iterator<char>(std::cin), {});
  } else {
    ASSIGN_OR_RETURN(text, ReadWholeFile(list));
  }
  std::vector<std::string> files;
  for (std::string_view line : Split(text, '\n')) {
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (!line.empty()) files.emplace_back(line);
  }
  if (files.empty())
    return InvalidError(reason::kBadArgument, StrCat(Quoted(list), " names no files"));
  return files;
}

absl::StatusOr<std::vector<std::string>> FilesNamed(std::string_view value) {
  if (value.starts_with("list:")) return FilesListedIn(std::string(value.substr(5)));
  if (!value.starts_with('@')) {
    return InvalidError(
        reason::kBadArgument,
        StrCat(Quoted(value), " names no files; give @directory/, @'*.png', @file or list:file"));
  }
  const std::string path(value.substr(1));
  std::error_code failed;
  if (fs::is_directory(path, failed)) return FilesOf(path);
  if (!fs::exists(path, failed) && path.find_first_of("*?[") != std::string::npos) {
    return FilesMatching(path);
  }
  return std::vector<std::string>{path};
}

}  // namespace

absl::StatusOr<OperandSpec> RaggedOperand(const OperandSig& operand, std::string_view value,
                                          std::vector<Upload>* uploads,
                                          std::vector<std::string>* item_names) {
  ASSIGN_OR_RETURN(std::vector<std::string> files, FilesNamed(value));
  std::string offsets(sizeof(uint64_t), '\0');
  ByteSource data;
  for (const std::string& file : files) {
    if (!wire::IsUtf8(file)) {
      return InvalidError(reason::kBadArgument,
                          StrCat("the file name ", Quoted(file), " is not UTF-8; rename the file"));
    }
    ASSIGN_OR_RETURN(const ByteSource bytes, ByteSource::OfFile(file));
    data.Append(bytes);
    const uint64_t end = data.size();
    offsets.append(reinterpret_cast<const char*>(&end), sizeof end);
  }
  OperandSpec spec;
  spec.spec = TensorSpec{DType::kBytes, Shape{static_cast<int64_t>(files.size())}};
  RaggedPacked packed;
  packed.data_bytes = data.size();
  const std::string what = StrCat(operand.name, ", ", files.size(), " files");
  ASSIGN_OR_RETURN(packed.offsets, LocateBytes(ByteSource::OfMemory(std::move(offsets)),
                                               StrCat("the sizes of ", what), uploads));
  ASSIGN_OR_RETURN(packed.data, LocateBytes(data, what, uploads));
  spec.source = std::move(packed);
  *item_names = std::move(files);
  return spec;
}

}  // namespace tandem::client
