#include "master/server/job_checker.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <variant>

#include "common/base/error.h"
#include "common/base/reason.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/wire/decode_util.h"
#include "common/wire/job_spec.h"

namespace tandem::master {
namespace {

class BlobChecker {
 public:
  BlobChecker(BlobStore* blobs, const std::string& owner) : blobs_(blobs), owner_(owner) {}

  absl::Status Check(const Locator& locator, const std::string& field) const {
    if (const auto* blob = std::get_if<BlobLocator>(&locator)) {
      return WithField(CheckBlob(*blob), field);
    }
    if (std::holds_alternative<HeldLocator>(locator)) {
      return WithField(InvalidError(reason::kBadLocator,
                                    "a held region is the cluster's own: name a blob, a path or "
                                    "the output of a job"),
                       field);
    }
    return absl::OkStatus();
  }

 private:
  absl::Status CheckBlob(const BlobLocator& blob) const {
    const absl::StatusOr<BlobInfo> info = blobs_->Stat(owner_, blob.id);
    if (absl::IsNotFound(info.status())) {
      return Error(absl::StatusCode::kNotFound, reason::kBlobNotFound,
                   StrCat("blob ", blob.id, " is not here: upload it first"));
    }
    RETURN_IF_ERROR(info.status());
    if (info->size == blob.size) return absl::OkStatus();
    return InvalidError(reason::kBadLocator,
                        StrCat("blob ", blob.id, " has ", info->size, " bytes, not ", blob.size));
  }

  BlobStore* const blobs_;
  const std::string& owner_;
};

absl::Status CheckOperands(const BlobChecker& checker, const JobSpec& spec) {
  for (const auto& [name, operand] : spec.operands) {
    const std::string field = StrCat("operands.", name, ".locator");
    if (const auto* locator = std::get_if<Locator>(&operand.source)) {
      RETURN_IF_ERROR(checker.Check(*locator, field));
    } else if (const auto* packed = std::get_if<RaggedPacked>(&operand.source)) {
      RETURN_IF_ERROR(checker.Check(packed->offsets, StrCat(field, ".packed.offsets")));
      RETURN_IF_ERROR(checker.Check(packed->data, StrCat(field, ".packed.data")));
    } else {
      const auto& items = std::get<RaggedItems>(operand.source).items;
      for (size_t i = 0; i < items.size(); ++i) {
        RETURN_IF_ERROR(checker.Check(
            items[i], wire::Indexed(StrCat(field, ".parts"), static_cast<int64_t>(i))));
      }
    }
  }
  return absl::OkStatus();
}

// Of the outputs whose size is known before they are there; all there can be, where it is more.
uint64_t DenseBytes(const BoundJob& job) {
  uint64_t total = 0;
  for (const BoundOutput& output : job.outputs) {
    if (output.kind != BoundOutput::Kind::kConcat) continue;
    const uint64_t bytes = output.PieceBytes(job.task_count());
    total += std::min(bytes, std::numeric_limits<uint64_t>::max() - total);
  }
  return total;
}

}  // namespace

absl::Status JobChecker::CheckBlobs(const JobSpec& spec) const {
  return WithField(CheckOperands(BlobChecker(blobs_, spec.owner), spec), "spec");
}

absl::Status JobChecker::CheckRoom(const BoundJob& job) const {
  const uint64_t bytes = DenseBytes(job);
  if (bytes == 0) return absl::OkStatus();
  const uint64_t room = room_bytes_();
  if (room == 0 || bytes <= room) return absl::OkStatus();
  return Error(absl::StatusCode::kResourceExhausted, reason::kDiskFull,
               StrCat("the results of this job would take ", HumanSize(bytes),
                      ", and the master's disk has room for ", HumanSize(room),
                      ": submit fewer tasks at once, or make room there (`tandem job rm`; `tandem "
                      "data du` says what takes it)"));
}

absl::StatusOr<std::shared_ptr<const BoundJob>> JobChecker::Bind(const std::string& owner,
                                                                 v1::JobSpec* from) const {
  if (const size_t bytes = from->ByteSizeLong(); bytes > kSpecBytesMax) {
    return WithField(
        InvalidError(reason::kTooLarge, StrCat("the spec has ", HumanSize(bytes), "; at most ",
                                               HumanSize(kSpecBytesMax),
                                               ": upload operands as blobs, pack ragged items")),
        "spec");
  }
  JobSpec spec;
  RETURN_IF_ERROR(WithField(wire::Decode(from, &spec), "spec"));
  spec.owner = owner;
  if (spec.command) {
    return WithField(Error(absl::StatusCode::kUnimplemented, reason::kNotYetHonoured,
                           "commands are not run yet: name a kernel"),
                     "spec.command");
  }
  absl::StatusOr<std::shared_ptr<const KernelInfo>> kernel = kernels_->Find(spec.kernel);
  if (!kernel.ok()) return WithField(kernel.status(), "spec.kernel");
  absl::StatusOr<BoundJob> bound = ValidateAndBind(std::move(spec), **kernel, capabilities_);
  if (!bound.ok()) return WithField(bound.status(), "spec");
  return std::make_shared<const BoundJob>(*std::move(bound));
}

}  // namespace tandem::master
