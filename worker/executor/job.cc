#include "worker/executor/job.h"

#include <algorithm>
#include <utility>

#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/model/all_capabilities.h"
#include "common/model/job_order.h"
#include "common/wire/session.h"
#include "worker/executor/blob_source.h"
#include "worker/executor/path_source.h"

namespace tandem::worker {
namespace {

// Makes the source behind one locator; every kind that CheckLocator lets through.
std::shared_ptr<ByteSource> MakeSource(const Locator& locator, DType dtype, uint64_t bytes,
                                       const BlobAccess& access) {
  if (const auto* in = std::get_if<InlineLocator>(&locator)) {
    return std::make_shared<InlineSource>(in->bytes);
  }
  if (const auto* blob = std::get_if<BlobLocator>(&locator)) {
    return std::make_shared<BlobSource>(*blob, access);
  }
  const auto counted = [&access](std::shared_ptr<ByteSource> source,
                                 std::atomic<uint64_t>* counter) {
    return std::make_shared<CountedSource>(std::move(source), access.usage, counter);
  };
  if (const auto* path = std::get_if<PathLocator>(&locator)) {
    return counted(std::make_shared<PathSource>(*path), &access.usage->path_bytes);
  }
  if (const auto* generator = std::get_if<GeneratorLocator>(&locator)) {
    return counted(std::make_shared<GeneratedSource>(generator->generator, dtype, bytes),
                   &access.usage->generated_bytes);
  }
  const auto& held = std::get<HeldLocator>(locator);
  access.usage->fetched_bytes.fetch_add(held.length, std::memory_order_relaxed);
  return std::make_shared<RegionSource>(
      Region{held.segment, held.offset, held.length, held.checksum}, access.remote,
      access.abandoned);
}

absl::Status CheckLocator(const Locator& locator) {
  const auto* held = std::get_if<HeldLocator>(&locator);
  const bool elsewhere = held != nullptr && held->worker.valid();
  if (!elsewhere && !std::holds_alternative<std::monostate>(locator) &&
      !std::holds_alternative<JobOutputLocator>(locator)) {
    return absl::OkStatus();
  }
  return Error(absl::StatusCode::kUnimplemented, reason::kNotYetHonoured,
               StrCat("an executor of this version cannot read an operand from ",
                      LocatorKind(locator), elsewhere ? " by another worker" : ""));
}

absl::Status CheckLocators(const OperandSpec& operand) {
  if (const auto* packed = std::get_if<RaggedPacked>(&operand.source)) {
    RETURN_IF_ERROR(CheckLocator(packed->offsets));
    return CheckLocator(packed->data);
  }
  if (const auto* items = std::get_if<RaggedItems>(&operand.source)) {
    for (const Locator& item : items->items) RETURN_IF_ERROR(CheckLocator(item));
    return absl::OkStatus();
  }
  const auto& locator = std::get<Locator>(operand.source);
  if (operand.spec.ragged()) {
    return InvalidError(reason::kBadLocator, "a ragged operand needs packed items or a list");
  }
  return CheckLocator(locator);
}

std::string IdentityOf(uint64_t job, const BoundOperand& operand, const OperandSpec& spec) {
  if (const auto* locator = std::get_if<Locator>(&spec.source)) {
    if (const auto* blob = std::get_if<BlobLocator>(locator)) {
      return StrCat("blob:", blob->id.ToString());
    }
  }
  return operand.sliced ? "" : StrCat("job:", job, ":", operand.name);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Job>> Job::Make(executor::v1::JobSetup* setup,
                                               const KernelTable& kernels,
                                               const JobResources& resources, bool* fatal) {
  *fatal = true;
  wire::JobDescription description;
  RETURN_IF_ERROR(wire::Decode(setup->mutable_description(), &description));
  std::unique_ptr<Job> job(new Job);
  job->id_ = description.job.value();
  ASSIGN_OR_RETURN(job->bound_, ValidateAndBind(std::move(description.spec), description.kernel,
                                                kAllCapabilities));  // The master has judged it.
  const BoundJob& bound = job->bound_;
  job->reduces_ = bound.has_reduction();
  job->ordered_ = job->reduces_ && (bound.kernel.whole_leaf || OwnMerge(bound) || Pinned(bound));
  job->accumulates_ =
      !job->ordered_ && std::all_of(bound.outputs.begin(), bound.outputs.end(),
                                    [](const BoundOutput& output) { return output.accumulates(); });
  job->args_ = ArgsTemplate(bound);
  job->cost = TaskCost(bound.ns_per_task);

  *fatal = false;  // From here on it may be this worker's fault.
  ASSIGN_OR_RETURN(job->kernel_,
                   Pinned(bound)
                       ? kernels.FindBaseline(bound.kernel.name, bound.kernel.content_hash)
                       : kernels.Find(bound.kernel.name, bound.kernel.content_hash));
  const bool whole_leaf = (job->kernel_->flags & TANDEM_WHOLE_LEAF) != 0;
  if (job->args_.bytes() < job->kernel_->args_bytes || whole_leaf != bound.kernel.whole_leaf) {
    return Error(absl::StatusCode::kFailedPrecondition, reason::kKernelChanged,
                 StrCat("kernel ", bound.kernel_identity,
                        " is described otherwise by the master than by this worker's library"));
  }
  if (job->reduces_) {
    const int64_t bytes = job->kernel_->partial_bytes(job->args_.bare(), 0);
    job->partial_bytes_ = static_cast<uint64_t>(std::max<int64_t>(bytes, 0));
  }
  job->remote_ = resources.sources(setup->master_data_address());
  RETURN_IF_ERROR(job->MakeReaders(resources));
  return job;
}

absl::Status Job::MakeReaders(const JobResources& resources) {
  const std::shared_ptr<std::atomic<bool>> stopping = resources.stopping;
  const BlobAccess access = {remote_,
                             resources.cache,
                             resources.local_data,
                             [stopping] { return stopping->load(); },
                             resources.bytes_fetched,
                             operand_usage};
  const SourceFactory factory = [access](const Locator& locator, DType dtype, uint64_t bytes) {
    return MakeSource(locator, dtype, bytes, access);
  };
  for (const BoundOperand& operand : bound_.operands) {
    const auto spec = bound_.spec.operands.find(operand.name);
    if (spec == bound_.spec.operands.end()) {
      return InvalidError(reason::kMissingOperand, StrCat("operand ", operand.name, " is missing"));
    }
    RETURN_IF_ERROR(WithContext(CheckLocators(spec->second), StrCat("operand ", operand.name)));
    identities_.push_back(IdentityOf(id_, operand, spec->second));
    readers_.push_back(MakeReader(operand, spec->second, factory, resources.pool));
  }
  return absl::OkStatus();
}

}  // namespace tandem::worker
