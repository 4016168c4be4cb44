#include "common/model/locator.h"

#include "common/base/checked_math.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace tandem {
namespace {

absl::Status BadLocator(const Locator& locator, std::string_view what) {
  return InvalidError(reason::kBadLocator, StrCat(LocatorToString(locator), " ", what));
}

absl::Status CheckPath(const Locator& locator, const PathLocator& path) {
  if (path.path.empty() || path.path[0] != '/' || path.path.find('\0') != std::string::npos) {
    return BadLocator(locator, "is not an absolute path: workers have no current directory");
  }
  uint64_t end = 0;
  if (!CheckedAdd(path.data_offset, path.size, &end) || end > path.file_size) {
    return BadLocator(locator, StrCat("has ", path.file_size, " bytes, but ", path.size,
                                      " from offset ", path.data_offset, " are asked for"));
  }
  if (path.slice_bytes == 0 && path.size > 0) {
    return BadLocator(locator, "does not say how many bytes each slice checksum covers");
  }
  const uint64_t slices = path.slice_bytes == 0 ? 0 : CeilDiv(path.size, path.slice_bytes);
  if (slices != path.slice_checksums.size()) {
    return BadLocator(locator, StrCat("carries ", path.slice_checksums.size(),
                                      " slice checksums, expected ", slices));
  }
  return absl::OkStatus();
}

// That a locator can yield exactly `bytes` bytes of dtype `dtype`.
absl::Status CheckLocator(const Locator& locator, DType dtype, uint64_t bytes) {
  if (std::holds_alternative<std::monostate>(locator)) {
    return InvalidError(reason::kBadLocator, "no locator says where the bytes are");
  }
  if (const auto* generator = std::get_if<GeneratorLocator>(&locator)) {
    return ValidateGenerator(generator->generator, dtype);
  }
  if (const auto* output = std::get_if<JobOutputLocator>(&locator)) {
    if (!output->job.valid() || output->output.empty()) {
      return BadLocator(locator, "names no job and output");
    }
    return absl::OkStatus();
  }
  if (const auto* blob = std::get_if<BlobLocator>(&locator); blob != nullptr && !blob->id.valid()) {
    return BadLocator(locator, "names no blob");
  }
  if (const auto* path = std::get_if<PathLocator>(&locator)) {
    RETURN_IF_ERROR(CheckPath(locator, *path));
  }
  if (const auto* held = std::get_if<HeldLocator>(&locator)) {
    uint64_t end = 0;
    if (!held->segment.valid() || !CheckedAdd(held->offset, held->length, &end)) {
      return BadLocator(locator, "names no part of a segment");
    }
  }
  if (const uint64_t has = *LocatorBytes(locator); has != bytes) {
    return InvalidError(reason::kShapeMismatch, StrCat(LocatorToString(locator), " has ", has,
                                                       " bytes, but its shape takes ", bytes));
  }
  return absl::OkStatus();
}

absl::Status CheckRaggedItem(const Locator& item, size_t index) {
  const std::optional<uint64_t> bytes = LocatorBytes(item);
  if (!bytes.has_value()) {
    return BadLocator(item, StrCat("(item ", index,
                                   ") cannot be an item of a ragged operand: "
                                   "give inline bytes, a blob or a path"));
  }
  return WithContext(CheckLocator(item, DType::kU8, *bytes), StrCat("item ", index));
}

absl::Status CheckRagged(const OperandSpec& operand) {
  if (operand.spec.shape.size() != 1 || operand.spec.shape[0] < 0) {
    return InvalidError(reason::kShapeMismatch,
                        StrCat("a ragged operand has one dimension, its number of items, not ",
                               operand.spec.ToString()));
  }
  const auto count = static_cast<uint64_t>(operand.spec.shape[0]);
  if (!operand.item_names.empty() && operand.item_names.size() != count) {
    return InvalidError(reason::kBadSpec, StrCat("a ragged operand of ", count, " items has ",
                                                 operand.item_names.size(), " names"));
  }
  if (const auto* packed = std::get_if<RaggedPacked>(&operand.source)) {
    uint64_t offsets_bytes = 0;
    if (!CheckedAdd<uint64_t>(count, 1, &offsets_bytes) ||
        !CheckedMul<uint64_t>(offsets_bytes, 8, &offsets_bytes)) {
      return InvalidError(reason::kTooLarge, StrCat(count, " items are too many"));
    }
    for (const Locator* locator : {&packed->offsets, &packed->data}) {
      if (std::holds_alternative<GeneratorLocator>(*locator) ||
          std::holds_alternative<JobOutputLocator>(*locator)) {
        return BadLocator(*locator, "cannot be half of a ragged operand");
      }
    }
    RETURN_IF_ERROR(
        WithContext(CheckLocator(packed->offsets, DType::kU64, offsets_bytes), "offsets"));
    return WithContext(CheckLocator(packed->data, DType::kU8, packed->data_bytes), "data");
  }
  if (const auto* list = std::get_if<RaggedItems>(&operand.source)) {
    if (list->items.size() != count) {
      return InvalidError(
          reason::kShapeMismatch,
          StrCat("a ragged operand of ", count, " items has ", list->items.size(), " locators"));
    }
    for (size_t i = 0; i < list->items.size(); ++i) {
      RETURN_IF_ERROR(CheckRaggedItem(list->items[i], i));
    }
    return absl::OkStatus();
  }
  const Locator& locator = std::get<Locator>(operand.source);
  if (!std::holds_alternative<JobOutputLocator>(locator)) {
    return BadLocator(locator, "cannot hold a ragged operand: give items, or offsets and data");
  }
  return CheckLocator(locator, DType::kBytes, 0);
}

}  // namespace

std::string_view LocatorKind(const Locator& locator) {
  static constexpr std::string_view kKinds[] = {"nowhere",   "inline",     "blob", "path",
                                                "generator", "job output", "held"};
  return kKinds[locator.index()];
}

std::string LocatorToString(const Locator& locator) {
  std::string text(LocatorKind(locator));
  if (const auto* bytes = std::get_if<InlineLocator>(&locator)) {
    StrAppend(&text, " (", HumanSize(bytes->bytes.size()), ")");
  } else if (const auto* blob = std::get_if<BlobLocator>(&locator)) {
    StrAppend(&text, " ", blob->id.ToHex().substr(0, 12));
  } else if (const auto* path = std::get_if<PathLocator>(&locator)) {
    StrAppend(&text, " ", path->path);
  } else if (const auto* generator = std::get_if<GeneratorLocator>(&locator)) {
    StrAppend(&text, " ", GeneratorToString(generator->generator));
  } else if (const auto* output = std::get_if<JobOutputLocator>(&locator)) {
    StrAppend(&text, " jobs/", output->job, "/", output->output);
  } else if (const auto* held = std::get_if<HeldLocator>(&locator)) {
    StrAppend(&text, " by worker ", held->worker, ", segment ", held->segment, " [", held->offset,
              ", +", held->length, ")");
  }
  return text;
}

std::optional<uint64_t> LocatorBytes(const Locator& locator) {
  if (const auto* bytes = std::get_if<InlineLocator>(&locator)) return bytes->bytes.size();
  if (const auto* blob = std::get_if<BlobLocator>(&locator)) return blob->size;
  if (const auto* path = std::get_if<PathLocator>(&locator)) return path->size;
  if (const auto* held = std::get_if<HeldLocator>(&locator)) return held->length;
  return std::nullopt;
}

absl::Status ValidateOperandSpec(const OperandSpec& operand) {
  if (operand.spec.dtype == DType::kUnspecified) {
    return InvalidError(reason::kDtypeMismatch, "the operand names no dtype");
  }
  if (operand.spec.ragged()) return CheckRagged(operand);
  const Locator* locator = std::get_if<Locator>(&operand.source);
  if (locator == nullptr) {
    return InvalidError(reason::kBadLocator, StrCat("a dense operand ", operand.spec.ToString(),
                                                    " has the locators of a ragged one"));
  }
  ASSIGN_OR_RETURN(const uint64_t bytes, operand.spec.Bytes());
  return CheckLocator(*locator, operand.spec.dtype, bytes);
}

}  // namespace tandem
