#include "master/server/kernel_book.h"

#include <tuple>
#include <utility>

#include "common/base/check.h"
#include "common/base/error.h"
#include "common/base/reason.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace tandem::master {

absl::StatusOr<KernelInfo> KernelOfEntry(const kernels::CatalogEntry& entry) {
  KernelInfo kernel;
  kernel.name = entry.name;
  ASSIGN_OR_RETURN(kernel.signature, Signature::Parse(entry.signature));
  kernel.content_hash = entry.content_hash;
  kernel.output_class = static_cast<OutputClass>(entry.output_class);
  kernel.tolerance = entry.tolerance;
  kernel.split_axes = entry.split_axes;
  kernel.cost.ns_per_unit = entry.cost_ns;
  kernel.cost.units = entry.cost_units;
  kernel.cost.grain = entry.grain > 0 ? static_cast<uint64_t>(entry.grain) : 0;
  kernel.whole_leaf = entry.whole_leaf;
  kernel.host_stages = entry.host_stages;
  kernel.summary = entry.summary;
  kernel.fault_reasons = entry.faults;
  return kernel;
}

KernelBook::KernelBook() {
  absl::MutexLock lock(&mu_);
  for (const kernels::CatalogEntry& entry : kernels::Catalog()) {
    absl::StatusOr<KernelInfo> kernel = KernelOfEntry(entry);
    CHECK_OK(kernel);
    Add(std::make_shared<const KernelInfo>(*std::move(kernel)), true);
  }
}

bool KernelBook::GoesBefore(const KnownKernel& a, const KnownKernel& b) {
  return std::tuple(a.workers > 0, a.builtin, a.came) >
         std::tuple(b.workers > 0, b.builtin, b.came);
}

void KernelBook::Choose(const std::string& name) {
  Builds& builds = by_name_[name];
  builds.current = nullptr;
  for (KnownKernel* build : builds.all) {
    if (builds.current == nullptr || GoesBefore(*build, *builds.current)) builds.current = build;
  }
  for (KnownKernel* build : builds.all) build->current = build == builds.current;
}

void KernelBook::Add(std::shared_ptr<const KernelInfo> kernel, bool builtin) {
  const std::string& name = kernel->name;
  const auto [it, fresh] = by_identity_.try_emplace(kernel->identity());
  KnownKernel& known = it->second;
  if (fresh) by_name_[name].all.push_back(&known);
  known.came = ++last_came_;
  if (!known.builtin) known.info = std::move(kernel);
  known.builtin |= builtin;
  Choose(known.info->name);
}

void KernelBook::Announce(std::shared_ptr<const KernelInfo> kernel) {
  absl::MutexLock lock(&mu_);
  Add(std::move(kernel), false);
}

void KernelBook::Prefer(const std::vector<KernelInfo>& kernels) {
  absl::MutexLock lock(&mu_);
  for (const KernelInfo& kernel : kernels) {
    const auto known = by_identity_.find(kernel.identity());
    if (known == by_identity_.end()) continue;
    known->second.came = ++last_came_;
    Choose(kernel.name);
  }
}

void KernelBook::Count(const std::vector<KernelView>& kernels) {
  absl::MutexLock lock(&mu_);
  for (const KernelView& kernel : kernels) {
    const auto known = by_identity_.find(kernel.identity);
    if (known == by_identity_.end() || known->second.workers == kernel.workers) continue;
    known->second.workers = kernel.workers;
    Choose(kernel.name);
  }
}

absl::StatusOr<std::shared_ptr<const KernelInfo>> KernelBook::Find(
    std::string_view reference) const {
  ASSIGN_OR_RETURN(const KernelRef ref, ParseKernelRef(reference));
  absl::MutexLock lock(&mu_);
  const auto named = by_name_.find(ref.name);
  if (named == by_name_.end()) {
    std::vector<std::string_view> names;
    for (const auto& [name, builds] : by_name_) names.push_back(name);
    const std::string_view nearest = Nearest(ref.name, names);
    return Error(absl::StatusCode::kNotFound, reason::kUnknownKernel,
                 StrCat("no kernel is named ", Quoted(ref.name),
                        nearest.empty() ? "." : StrCat("; did you mean ", nearest, "?"),
                        " `tandem kernel ls` shows those there are; one of your own is known once "
                        "a worker has loaded it"));
  }
  if (ref.content_hash == 0) return named->second.current->info;
  const auto it = by_identity_.find(reference);
  if (it != by_identity_.end()) return it->second.info;
  return Error(
      absl::StatusCode::kFailedPrecondition, reason::kKernelChanged,
      StrCat("the kernel ", ref.name, " is known as ", named->second.current->info->identity(),
             ", not as ", reference, ": leave out the hash, or load that content"));
}

std::vector<KnownKernel> KernelBook::List(std::string_view after, size_t count) const {
  absl::MutexLock lock(&mu_);
  std::vector<KnownKernel> kernels;
  for (auto it = by_identity_.upper_bound(after);
       it != by_identity_.end() && kernels.size() < count; ++it) {
    kernels.push_back(it->second);
  }
  return kernels;
}

}  // namespace tandem::master
