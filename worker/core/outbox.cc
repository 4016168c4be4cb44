#include "worker/core/outbox.h"

#include <algorithm>
#include <memory>

#include "absl/container/btree_map.h"
#include "common/base/check.h"

namespace tandem::worker {
namespace {

// How far back a finished piece looks for its neighbour: the groups finish in turns.
constexpr size_t kJoinWindow = 8;
constexpr uint64_t kFailureBytes = 24;  // of a failure besides its reason, on the wire

bool IsStaged(const StagedOutput& output) { return output.length > 0; }

uint64_t InlineBytes(const std::vector<StagedOutput>& outputs) {
  uint64_t bytes = 0;
  for (const StagedOutput& output : outputs) bytes += output.inline_bytes.size();
  return bytes;
}

}  // namespace

void Outbox::Add(OutItem item, ExecutorId executor, std::vector<StagedOutput> outputs,
                 Effects* effects) {
  if (TryJoin(&item, &outputs)) return;
  const ItemId id = ++last_item_;
  Entry& entry = items_[id];
  entry.item = std::move(item);
  entry.inline_bytes = InlineBytes(outputs);
  for (const TaskFailure& failure : entry.item.failures) {
    entry.inline_bytes += failure.reason.size() + kFailureBytes;
  }
  entry.outputs.reserve(outputs.size());
  for (StagedOutput& output : outputs) {
    if (IsStaged(output)) {
      entry.staged.push_back({executor, static_cast<uint32_t>(entry.outputs.size()), output.offset,
                              output.length, 0, false});
      ++staging_[executor].regions;
    }
    entry.outputs.push_back({output.output, std::move(output.inline_bytes)});
  }
  entry.unpushed = static_cast<uint32_t>(entry.staged.size());
  if (entry.unpushed == 0) {
    ready_.push_back(id);
    return;
  }
  for (size_t i = 0; i < entry.staged.size(); ++i) StartPush(id, i, effects);
}

// Joins a commit to the one before it in the same grant, so that thousands of one-task leases cost
// one run, one table entry and one record.
bool Outbox::TryJoin(OutItem* item, std::vector<StagedOutput>* outputs) {
  if (!item->appends || item->kind != OutItem::Kind::kCommit) return false;
  const uint64_t bytes = InlineBytes(*outputs);
  if (std::any_of(outputs->begin(), outputs->end(), IsStaged)) return false;
  const size_t window = std::min(kJoinWindow, ready_.size());
  for (size_t back = 1; back <= window; ++back) {
    Entry& entry = items_.find(ready_[ready_.size() - back])->second;
    OutItem& before = entry.item;
    if (before.job != item->job || !before.appends || before.kind != item->kind ||
        !entry.staged.empty() || entry.outputs.size() != outputs->size() ||
        entry.inline_bytes + bytes > options_.inline_bytes_max ||
        !before.runs.back().Precedes(item->runs.front())) {
      continue;
    }
    before.runs.back().leaves.count += item->runs.front().count();
    before.busy_ns += item->busy_ns;
    before.tasks += item->tasks;
    for (const TaskFailure& failure : item->failures) {
      entry.inline_bytes += failure.reason.size() + kFailureBytes;
    }
    std::move(item->failures.begin(), item->failures.end(), std::back_inserter(before.failures));
    for (size_t i = 0; i < outputs->size(); ++i) {
      std::get<std::string>(entry.outputs[i].where) += (*outputs)[i].inline_bytes;
    }
    entry.inline_bytes += bytes;
    ++joined_;
    return true;
  }
  return false;
}

void Outbox::Discard(ExecutorId executor, const std::vector<StagedOutput>& outputs,
                     Effects* effects) {
  const auto staging = staging_.find(executor);
  if (staging == staging_.end() || staging->second.lost) return;
  for (const StagedOutput& output : outputs) {
    if (!IsStaged(output)) continue;
    effects->to_executors.push_back(ReleaseStaging{executor, output.offset, output.length});
  }
}

void Outbox::ExecutorLost(ExecutorId executor, Effects* effects) {
  staging_[executor].lost = true;
  Forget(executor, effects);
}

void Outbox::Forget(ExecutorId executor, Effects* effects) {
  const auto staging = staging_.find(executor);
  if (staging == staging_.end() || !staging->second.lost || staging->second.regions > 0) return;
  staging_.erase(staging);
  effects->to_executors.push_back(CloseStaging{executor});
}

void Outbox::StartPush(ItemId id, size_t index, Effects* effects) {
  if (away_) return;
  Entry& entry = items_[id];
  Staged& staged = entry.staged[index];
  staged.push = ++last_push_;
  pushes_[staged.push] = {id, index, false, staged};
  effects->pushes.push_back(
      {staged.push, staged.executor, staged.offset, staged.length, entry.item.job});
}

void Outbox::PushDone(PushId push, const Region& region, Effects* effects) {
  const auto found = pushes_.find(push);
  if (found == pushes_.end()) return;
  const Push done = found->second;
  pushes_.erase(found);
  if (done.item == 0) return ReleaseRegion(done.region, effects);
  Entry& entry = items_[done.item];
  Staged& staged = entry.staged[done.staged];
  staged.push = 0;
  if (done.stale) return StartPush(done.item, done.staged, effects);
  staged.pushed = true;
  entry.outputs[staged.index].where = region;
  if (--entry.unpushed == 0) ready_.push_back(done.item);
}

void Outbox::PushFailed(PushId push, MonoTime now, Effects* effects) {
  const auto found = pushes_.find(push);
  if (found == pushes_.end()) return;
  const Push failed = found->second;
  pushes_.erase(found);
  if (failed.item == 0) return ReleaseRegion(failed.region, effects);
  items_[failed.item].staged[failed.staged].push = 0;
  if (away_) return;
  retries_.push_back({now + options_.push_retry, {failed.item, failed.staged}});
}

void Outbox::MasterLost() {
  away_ = true;
  retries_.clear();
}

void Outbox::RetryPushes(MonoTime now, Effects* effects) {
  while (!retries_.empty() && retries_.front().first <= now) {
    const auto [id, index] = retries_.front().second;
    retries_.pop_front();
    const auto found = items_.find(id);
    if (found == items_.end()) continue;
    const Staged& staged = found->second.staged[index];
    if (!staged.pushed && staged.push == 0) StartPush(id, index, effects);
  }
}

MonoTime Outbox::next_retry() const {
  return retries_.empty() ? MonoTime::InfiniteFuture() : retries_.front().first;
}

uint64_t Outbox::Report(uint64_t next_number, std::vector<tandem::Report>* reports) {
  uint64_t bytes = 0, items = 0;
  bool open = false;
  for (const ItemId id : ready_) {
    Entry& entry = items_.find(id)->second;
    if (!open || bytes + entry.inline_bytes > options_.report_bytes_max ||
        items >= options_.report_items_max) {
      reports->emplace_back();
      reports->back().number = next_number++;
      open = true;
      bytes = items = 0;
    }
    bytes += entry.inline_bytes;
    ++items;
    entry.report = reports->back().number;
    reported_.push_back({entry.report, id});
    FillReport(&entry, &reports->back());
  }
  ready_.clear();
  return next_number;
}

void Outbox::FillReport(Entry* entry, tandem::Report* report) {
  OutItem& item = entry->item;
  if (entry->handle == nullptr && !entry->outputs.empty()) {
    entry->handle = entry->staged.empty()
                        ? std::make_shared<const CommitOutputs>(std::move(entry->outputs))
                        : std::make_shared<const CommitOutputs>(entry->outputs);
  }
  switch (item.kind) {
    case OutItem::Kind::kCommit: {
      Commit& commit = report->commits.emplace_back();
      commit.job = item.job;
      for (const LeaseRun& run : item.runs) commit.runs.push_back(run.ToLeafRun());
      commit.outputs = entry->handle;
      commit.failures = item.failures;
      commit.busy_ns = item.busy_ns;
      commit.tasks = item.tasks;
      return;
    }
    case OutItem::Kind::kMerge:
      report->merges.push_back(
          {item.job, item.merge_n, entry->handle, item.tasks, item.merge_failed, item.text});
      return;
    case OutItem::Kind::kCrash:
      for (const LeaseRun& run : item.runs) {  // several, when a Welcome has divided it
        report->crashes.push_back({item.job, run.ToLeafRun(), item.task_known, item.task, item.text,
                                   item.suspected_leaves});
      }
      return;
    case OutItem::Kind::kReturn:
      for (const LeaseRun& run : item.runs) {
        report->returns.push_back(
            {item.job, run.ToLeafRun(), item.gpu_need_bytes, item.gpu_budget_bytes});
      }
      return;
  }
}

void Outbox::Acked(uint64_t number, Effects* effects) {
  while (!reported_.empty() && reported_.front().first <= number) {
    const auto found = items_.find(reported_.front().second);
    reported_.pop_front();
    if (found == items_.end()) continue;
    Release(&found->second, effects);
    items_.erase(found);
  }
}

void Outbox::Release(Entry* entry, Effects* effects) {
  for (const Staged& staged : entry->staged) {
    if (staged.push != 0) {
      pushes_[staged.push].item = 0;  // released when it ends
    } else {
      ReleaseRegion(staged, effects);
    }
  }
}

void Outbox::ReleaseRegion(const Staged& region, Effects* effects) {
  Staging& staging = staging_[region.executor];
  --staging.regions;
  if (!staging.lost) {
    effects->to_executors.push_back(ReleaseStaging{region.executor, region.offset, region.length});
  }
  Forget(region.executor, effects);
}

void Outbox::DropJob(JobId job, Effects* effects) {
  for (auto it = items_.begin(); it != items_.end();) {
    if (it->second.item.job != job) {
      ++it;
      continue;
    }
    Release(&it->second, effects);
    RemoveFromQueues(it->first);
    it = items_.erase(it);
  }
}

void Outbox::DropAll(Effects* effects) {
  for (auto& [id, entry] : items_) Release(&entry, effects);
  items_.clear();
  ready_.clear();
  reported_.clear();
  retries_.clear();
}

// Entries of reported_ and retries_ whose item is gone are skipped when their turn comes.
void Outbox::RemoveFromQueues(ItemId id) { std::erase(ready_, id); }

void Outbox::Rejoin(bool push_again, Renew renew, Effects* effects) {
  away_ = false;
  ready_.clear();
  reported_.clear();
  retries_.clear();
  for (auto it = items_.begin(); it != items_.end();) {
    Entry& entry = it->second;
    const bool lives =
        (entry.item.kind == OutItem::Kind::kCommit || entry.item.kind == OutItem::Kind::kCrash) &&
        renew(entry.item.job, &entry.item.runs);
    if (!lives) {
      Release(&entry, effects);
      it = items_.erase(it);
      continue;
    }
    entry.report = 0;
    entry.unpushed = 0;
    for (size_t i = 0; i < entry.staged.size(); ++i) {
      Staged& staged = entry.staged[i];
      if (staged.pushed && !push_again) continue;
      entry.handle = nullptr;
      ++entry.unpushed;
      staged.pushed = false;
      if (staged.push == 0) {
        StartPush(it->first, i, effects);
      } else if (push_again) {
        pushes_[staged.push].stale = true;
      }
    }
    if (entry.unpushed == 0) ready_.push_back(it->first);
    ++it;
  }
}

void Outbox::ForEach(absl::FunctionRef<void(const OutItem&)> f) const {
  for (const auto& [id, entry] : items_) f(entry.item);
}

void Outbox::CheckInvariants() const {
  absl::btree_map<ItemId, int> places;
  for (const ItemId id : ready_) ++places[id];
  for (const auto& [number, id] : reported_) {
    if (items_.contains(id)) ++places[id];
  }
  absl::btree_map<ExecutorId, uint64_t> regions;
  for (const auto& [id, entry] : items_) {
    uint32_t unpushed = 0;
    for (const Staged& staged : entry.staged) {
      ++regions[staged.executor];
      unpushed += staged.pushed ? 0 : 1;
      if (staged.push != 0) CHECK(pushes_.contains(staged.push));
    }
    CHECK_EQ(unpushed, entry.unpushed);
    const auto place = places.find(id);
    CHECK_EQ(place == places.end() ? 0 : place->second, unpushed > 0 ? 0 : 1);
    CHECK_EQ(entry.item.kind == OutItem::Kind::kMerge, entry.item.runs.empty());
  }
  for (const auto& [push, target] : pushes_) {
    if (target.item == 0) {
      ++regions[target.region.executor];
    } else {
      CHECK_EQ(items_.at(target.item).staged[target.staged].push, push);
    }
  }
  for (const auto& [executor, staging] : staging_) {
    const auto count = regions.find(executor);
    CHECK_EQ(staging.regions, count == regions.end() ? 0 : count->second);
    CHECK(!staging.lost || staging.regions > 0);
    if (count != regions.end()) regions.erase(count);
  }
  CHECK(regions.empty());
}

}  // namespace tandem::worker
