#include "master/server/blob_uses.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <variant>

#include "common/base/error.h"
#include "common/base/reason.h"
#include "common/base/strings.h"
#include "common/model/locator.h"

namespace tandem::master {
namespace {

void AddBlob(const Locator& locator, std::vector<BlobId>* to) {
  if (const auto* blob = std::get_if<BlobLocator>(&locator)) to->push_back(blob->id);
}

}  // namespace

std::vector<BlobId> BlobsOf(const JobSpec& spec) {
  std::vector<BlobId> blobs;
  for (const auto& [name, operand] : spec.operands) {
    if (const auto* locator = std::get_if<Locator>(&operand.source)) {
      AddBlob(*locator, &blobs);
    } else if (const auto* packed = std::get_if<RaggedPacked>(&operand.source)) {
      AddBlob(packed->offsets, &blobs);
      AddBlob(packed->data, &blobs);
    } else {
      for (const Locator& item : std::get<RaggedItems>(operand.source).items) AddBlob(item, &blobs);
    }
  }
  std::ranges::sort(blobs);
  blobs.erase(std::unique(blobs.begin(), blobs.end()), blobs.end());
  return blobs;
}

void BlobUses::Add(JobId job, const JobSpec& spec) {
  std::vector<BlobId> blobs = BlobsOf(spec);
  if (blobs.empty()) return;
  absl::MutexLock lock(&mu_);
  for (const BlobId& blob : blobs) entries_[{spec.owner, blob}].live.insert(job);
  jobs_[job] = {spec.owner, std::move(blobs)};
}

void BlobUses::Ended(JobId job) {
  absl::MutexLock lock(&mu_);
  const auto it = jobs_.find(job);
  if (it == jobs_.end()) return;
  for (const BlobId& blob : it->second.blobs) {
    Entry& entry = entries_[{it->second.owner, blob}];
    entry.live.erase(job);
    entry.ended.insert(job);
  }
}

void BlobUses::EraseIfEmpty(std::map<Key, Entry>::iterator it) {
  if (it->second.empty()) entries_.erase(it);
}

void BlobUses::Remove(JobId job) {
  absl::MutexLock lock(&mu_);
  const auto it = jobs_.find(job);
  if (it == jobs_.end()) return;
  for (const BlobId& blob : it->second.blobs) {
    const auto entry = entries_.find({it->second.owner, blob});
    if (entry == entries_.end()) continue;
    entry->second.live.erase(job);
    entry->second.ended.erase(job);
    EraseIfEmpty(entry);
  }
  jobs_.erase(it);
}

std::shared_ptr<void> BlobUses::Pin(const JobSpec& spec) {
  Job what{spec.owner, BlobsOf(spec)};
  if (what.blobs.empty()) return nullptr;
  {
    absl::MutexLock lock(&mu_);
    for (const BlobId& blob : what.blobs) ++entries_[{what.owner, blob}].pins;
  }
  return std::shared_ptr<void>(new Job(std::move(what)), [this](void* pinned) {
    const std::unique_ptr<Job> job(static_cast<Job*>(pinned));
    Unpin(*job);
  });
}

void BlobUses::Unpin(const Job& what) {
  absl::MutexLock lock(&mu_);
  for (const BlobId& blob : what.blobs) {
    const auto entry = entries_.find({what.owner, blob});
    if (entry == entries_.end()) continue;
    --entry->second.pins;
    EraseIfEmpty(entry);
  }
}

DataBooks::Uses BlobUses::UsesOf(std::string_view owner, const BlobId& blob) const {
  absl::MutexLock lock(&mu_);
  DataBooks::Uses uses;
  const auto it = entries_.find({std::string(owner), blob});
  if (it == entries_.end()) return uses;
  const Entry& entry = it->second;
  uses.count = entry.live.size() + entry.ended.size();
  uses.live = !entry.live.empty();
  for (const std::set<JobId>* jobs : {&entry.live, &entry.ended}) {
    const size_t most = std::min(jobs->size(), DataBooks::kJobsListed);
    uses.jobs.insert(uses.jobs.end(), jobs->rbegin(),
                     std::next(jobs->rbegin(), static_cast<std::ptrdiff_t>(most)));
  }
  std::ranges::sort(uses.jobs, std::greater<>());
  if (uses.jobs.size() > DataBooks::kJobsListed) uses.jobs.resize(DataBooks::kJobsListed);
  return uses;
}

absl::Status BlobUses::RemoveUnused(std::string_view owner, const BlobId& blob,
                                    absl::FunctionRef<absl::Status()> remove) {
  absl::MutexLock lock(&mu_);
  const auto it = entries_.find({std::string(owner), blob});
  const auto refuse = [&blob](std::string_view by) {
    return Error(absl::StatusCode::kFailedPrecondition, reason::kBlobInUse,
                 StrCat("blob ", blob, " is used by ", by,
                        ": it can be deleted once that has ended; `tandem job cancel` ends it"));
  };
  if (it != entries_.end() && !it->second.live.empty()) {
    const size_t others = it->second.live.size() - 1;
    return refuse(StrCat("job ", *it->second.live.begin(),
                         others == 0 ? "" : StrCat(" and ", others, " more")));
  }
  if (it != entries_.end() && it->second.pins > 0) return refuse("a job that is being submitted");
  return remove();
}

}  // namespace tandem::master
