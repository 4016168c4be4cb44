#include "master/server/commit_check.h"

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <variant>

#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/wire/decode_util.h"

namespace tandem::master {
namespace {

using wire::Indexed;
using wire::Malformed;

uint64_t SizeOf(const OutputPiece& piece) {
  if (const auto* bytes = std::get_if<std::string>(&piece.where)) return bytes->size();
  return std::get<Region>(piece.where).length;
}

uint64_t OffsetAt(std::string_view table, uint64_t index) {
  uint64_t offset = 0;
  std::memcpy(&offset, table.data() + index * sizeof(offset), sizeof(offset));
  return offset;
}

// [u64 offsets[tasks + 1]][bytes]
absl::Status CheckRagged(const OutputPiece& piece, uint64_t tasks) {
  const uint64_t table_bytes = (tasks + 1) * sizeof(uint64_t);
  if (SizeOf(piece) < table_bytes) return Malformed("where", "is shorter than its offsets");
  const auto* bytes = std::get_if<std::string>(&piece.where);
  if (bytes == nullptr) return absl::OkStatus();  // Readers check what lies in segments.
  uint64_t before = 0;
  for (uint64_t i = 0; i <= tasks; ++i) {
    const uint64_t offset = OffsetAt(*bytes, i);
    if (offset < before || (i == 0 && offset != 0)) {
      return Malformed("where", "has offsets that do not ascend from 0");
    }
    before = offset;
  }
  if (before != bytes->size() - table_bytes) {
    return Malformed("where", "has offsets that do not end at its bytes' end");
  }
  return absl::OkStatus();
}

absl::Status CheckPiece(const BoundOutput& output, const OutputPiece& piece, uint64_t tasks) {
  if (output.kind == BoundOutput::Kind::kRaggedConcat) return CheckRagged(piece, tasks);
  const uint64_t expected = output.PieceBytes(tasks);
  if (SizeOf(piece) == expected) return absl::OkStatus();
  return Malformed("where", StrCat("of output ", output.name, " has ", SizeOf(piece), " bytes; ",
                                   tasks, " tasks make ", expected));
}

absl::Status CheckOutputs(const BoundJob& job, const CommitOutputs& pieces, uint64_t tasks,
                          bool merged) {
  uint64_t seen = 0;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const std::string field = Indexed("outputs", static_cast<int64_t>(i));
    const uint32_t index = pieces[i].output;
    if (index >= job.outputs.size()) return Malformed(field, "names no output of the kernel");
    if ((seen >> index & 1) != 0) return Malformed(field, "names an output for the second time");
    seen |= uint64_t{1} << index;
    RETURN_IF_ERROR(WithField(CheckPiece(job.outputs[index], pieces[i], tasks), field));
  }
  for (size_t i = 0; i < job.outputs.size(); ++i) {
    const bool wanted = job.outputs[i].reduced() || !merged;
    if (wanted && (seen >> i & 1) == 0) {
      return Malformed("outputs", StrCat("lacks ", job.outputs[i].name));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckCommit(const BoundJob& job, const Commit& commit) {
  uint64_t tasks = 0;
  for (size_t i = 0; i < commit.runs.size(); ++i) {
    const LeafInterval& leaves = commit.runs[i].leaves;
    if (leaves.first >= job.tree.leaf_count() ||
        leaves.count > job.tree.leaf_count() - leaves.first) {
      return Malformed(Indexed("runs", static_cast<int64_t>(i)),
                       StrCat("lies outside of the job's ", job.tree.leaf_count(), " leaves"));
    }
    if (!job.has_reduction() && i > 0 &&
        commit.runs[i - 1].leaves.first + commit.runs[i - 1].leaves.count != leaves.first) {
      return Malformed(Indexed("runs", static_cast<int64_t>(i)),
                       "does not adjoin the run before: concatenated outputs are one piece");
    }
    tasks += job.tree.Tasks(LeafRange{leaves.first, leaves.first + leaves.count}).size();
  }
  for (const TaskFailure& failure : commit.failures) {
    if (failure.task >= job.task_count()) {
      return Malformed("failures", StrCat("name task ", failure.task, " of ", job.task_count()));
    }
  }
  if (commit.outputs == nullptr) {
    if (job.outputs.empty() || commit.failures.size() >= tasks) return absl::OkStatus();
    return Malformed("outputs", "are missing");
  }
  return CheckOutputs(job, *commit.outputs, tasks, false);
}

absl::Status CheckMerge(const BoundJob& job, const MergeCommit& merge) {
  if (!merge.error.empty()) return absl::OkStatus();
  if (merge.outputs == nullptr) return Malformed("outputs", "are missing");
  return CheckOutputs(job, *merge.outputs, merge.tasks + merge.failed, true);
}

}  // namespace tandem::master
