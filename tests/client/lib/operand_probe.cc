// Prepares jobs as the command does and says what would be sent, for numpy_test.py to compare.
//
// Each line of stdin: a signature and arguments, NUL-ended each, then a newline:
//   "x[n]:f32 -> y[n]:f32\0x=@/tmp/a.npy\0\n"
// Each line of stdout: "ok", then for each operand its name, dtype, shape, and the SHA-256 of its
// bytes; or "error", the reason and the message; tab-separated.
#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

#include "client/lib/arguments.h"
#include "client/lib/npy.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/data/sha256.h"

namespace tandem::client {
namespace {

absl::StatusOr<std::string> BytesAt(const Locator& locator, const std::vector<Upload>& uploads) {
  if (const auto* bytes = std::get_if<InlineLocator>(&locator)) return bytes->bytes;
  const auto& blob = std::get<BlobLocator>(locator);
  for (const Upload& upload : uploads) {
    if (upload.id != blob.id) continue;
    ASSIGN_OR_RETURN(std::string all, upload.source.ReadAll());
    if (Sha256Of(all) != blob.id) return absl::InternalError("the bytes have another hash");
    // An upload that was cut off goes on anywhere.
    for (const uint64_t from : {uint64_t{1}, all.size() / 3, all.size() - 1}) {
      std::string rest;
      RETURN_IF_ERROR(upload.source.Read(from, [&](std::string_view chunk) {
        rest += chunk;
        return absl::OkStatus();
      }));
      if (rest != all.substr(from)) return absl::InternalError("a part read alone is another");
    }
    return all;
  }
  return absl::InternalError("the blob is not uploaded");
}

absl::StatusOr<std::string> Describe(const OperandSpec& operand,
                                     const std::vector<Upload>& uploads) {
  std::string bytes;
  if (const auto* packed = std::get_if<RaggedPacked>(&operand.source)) {
    ASSIGN_OR_RETURN(bytes, BytesAt(packed->offsets, uploads));
    ASSIGN_OR_RETURN(const std::string data, BytesAt(packed->data, uploads));
    bytes += data;
  } else {
    ASSIGN_OR_RETURN(bytes, BytesAt(std::get<Locator>(operand.source), uploads));
  }
  return StrCat(DTypeName(operand.spec.dtype), "\t", ShapeToString(operand.spec.shape), "\t",
                Sha256Of(bytes).ToHex());
}

absl::StatusOr<std::string> Prepare(const std::vector<std::string_view>& words) {
  KernelInfo kernel;
  kernel.name = "probe";
  ASSIGN_OR_RETURN(kernel.signature, Signature::Parse(words[0]));
  std::vector<Argument> arguments;
  for (size_t i = 1; i < words.size(); ++i) {
    ASSIGN_OR_RETURN(arguments.emplace_back(), ParseArgument(words[i]));
  }
  ASSIGN_OR_RETURN(const PreparedJob job, PrepareJob(kernel, {}, arguments));
  std::string line = "ok";
  for (const auto& [name, operand] : job.spec.operands) {
    ASSIGN_OR_RETURN(const std::string what, Describe(operand, job.uploads));
    StrAppend(&line, "\t", name, "\t", what);
  }
  return line;
}

std::string Answer(std::string_view line) {
  std::vector<std::string_view> words = Split(line, '\0');
  words.pop_back();  // what follows the last NUL
  const auto done = Prepare(words);
  if (done.ok()) return *done;
  return StrCat("error\t", ReasonOf(done.status()), "\t", ToStd(done.status().message()));
}

}  // namespace
}  // namespace tandem::client

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << tandem::client::Answer(line) << std::endl;
  }
}
