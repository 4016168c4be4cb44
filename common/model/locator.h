// Locator: where an operand's bytes are to be had. OperandSpec: shape and locator together.
//
// The core of the master knows locators, sizes and checksums, never bytes. Executors resolve them
// (common/data): inline from the lease, blobs and held segments from the master, paths from the
// shared file system, generators by computing.
//
// Thread-safety: value types. Checksums of slices and segments are XXH3-64.
#ifndef TANDEM_COMMON_MODEL_LOCATOR_H_
#define TANDEM_COMMON_MODEL_LOCATOR_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "common/model/generator.h"
#include "common/model/ids.h"
#include "common/model/tensor.h"

namespace tandem {

// The bytes themselves; small ones only (JobLimits::inline_bytes_max).
struct InlineLocator {
  std::string bytes;
  friend bool operator==(const InlineLocator&, const InlineLocator&) = default;
};
struct BlobLocator {
  BlobId id;
  uint64_t size = 0;
  friend bool operator==(const BlobLocator&, const BlobLocator&) = default;
};
// A file that workers read themselves. Its identity was fixed at submit; a change fails the task.
struct PathLocator {
  std::string path;          // Absolute.
  uint64_t file_size = 0;    // Of the whole file, headers included.
  int64_t mtime_ns = 0;      // Since the Unix epoch.
  uint64_t data_offset = 0;  // Where the operand's bytes begin (after a .npy header).
  uint64_t size = 0;         // The operand's bytes, from data_offset.
  // slice_checksums[i] is of bytes [i, i + 1) × slice_bytes of the operand, the last clipped.
  uint64_t slice_bytes = 0;
  std::vector<uint64_t> slice_checksums;
  friend bool operator==(const PathLocator&, const PathLocator&) = default;
};
struct GeneratorLocator {
  Generator generator;
  friend bool operator==(const GeneratorLocator&, const GeneratorLocator&) = default;
};
// The output of another job of the same owner.
struct JobOutputLocator {
  JobId job;
  std::string output;
  friend bool operator==(const JobOutputLocator&, const JobOutputLocator&) = default;
};
// Part of a segment of the master's: `worker` is 0, since workers serve nothing (decision 0008).
struct HeldLocator {
  WorkerId worker;
  SegmentId segment;
  uint64_t offset = 0;
  uint64_t length = 0;
  uint64_t checksum = 0;
  friend bool operator==(const HeldLocator&, const HeldLocator&) = default;
};

using Locator = std::variant<std::monostate, InlineLocator, BlobLocator, PathLocator,
                             GeneratorLocator, JobOutputLocator, HeldLocator>;

// "inline", "blob", "path", "generator", "job output", "held", "nowhere".
std::string_view LocatorKind(const Locator& locator);
// What one finds there, in one line for people: "path /data/x.npy", "blob 3f2a…".
std::string LocatorToString(const Locator& locator);
// The bytes it yields, where it knows (not a generator, a job's output or nowhere).
std::optional<uint64_t> LocatorBytes(const Locator& locator);

// A ragged operand as two dense ones: count + 1 offsets (u64, from 0, ascending) and all bytes.
struct RaggedPacked {
  Locator offsets;
  Locator data;
  uint64_t data_bytes = 0;
  friend bool operator==(const RaggedPacked&, const RaggedPacked&) = default;
};
// A ragged operand as one locator an item (a directory of files).
struct RaggedItems {
  std::vector<Locator> items;
  friend bool operator==(const RaggedItems&, const RaggedItems&) = default;
};

struct OperandSpec {
  TensorSpec spec;
  // Locator for a dense tensor; one of the others, or a Locator of a job's output, for a ragged.
  std::variant<Locator, RaggedPacked, RaggedItems> source;
  std::vector<std::string> item_names;  // Ragged, for people: a name an item, or none at all.
  friend bool operator==(const OperandSpec&, const OperandSpec&) = default;
};

// That shape and locators agree: sizes, kinds, checksum counts, absolute paths, known ids.
// Errors: INVALID_ARGUMENT BAD_LOCATOR, SHAPE_MISMATCH or TOO_LARGE with the field.
absl::Status ValidateOperandSpec(const OperandSpec& operand);

}  // namespace tandem

#endif  // TANDEM_COMMON_MODEL_LOCATOR_H_
