// Where the bytes of finished work are: inline, or a region of a segment.
//
// A commit carries one `CommitOutputs`; the cores pass it along without looking inside (they know
// locators, sizes and checksums, never bytes).
//
// Thread-safety: plain data; a shared `OutputsHandle` is immutable.
#ifndef TANDEM_COMMON_MODEL_OUTPUTS_H_
#define TANDEM_COMMON_MODEL_OUTPUTS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "common/model/ids.h"

namespace tandem {

// A piece of a segment: immutable once a record names it.
struct Region {
  SegmentId segment;
  uint64_t offset = 0;
  uint64_t length = 0;
  uint64_t xxh3 = 0;
  friend bool operator==(const Region&, const Region&) = default;
};

// The bytes of one output for one run of tasks (a concatenated output), or one partial (a reduced
// one). A ragged output's bytes are [u64 offsets[tasks + 1]][bytes].
struct OutputPiece {
  uint32_t output = 0;  // index in the signature
  std::variant<std::string, Region> where;
  friend bool operator==(const OutputPiece&, const OutputPiece&) = default;
};

using CommitOutputs = std::vector<OutputPiece>;
using OutputsHandle = std::shared_ptr<const CommitOutputs>;

// A task that failed by itself, or was given up.
struct TaskFailure {
  uint64_t task = 0;  // index in the job
  uint32_t attempt = 0;
  std::string reason;  // the kernel's text, or a token such as CRASH_LIMIT
  friend bool operator==(const TaskFailure&, const TaskFailure&) = default;
};

}  // namespace tandem

#endif  // TANDEM_COMMON_MODEL_OUTPUTS_H_
