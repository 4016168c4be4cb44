#include "master/server/job_board.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/base/error.h"
#include "common/base/reason.h"
#include "common/base/strings.h"
#include "master/server/timestamps.h"

namespace tandem::master {

void JobBoard::Accept(std::shared_ptr<const JobAccepted> accepted) {
  uses_.Add(accepted->job, accepted->bound->spec);
  absl::MutexLock lock(&mu_);
  const JobId job = accepted->job;
  jobs_[job].accepted = std::move(accepted);
}

void JobBoard::Publish(JobStatus status, absl::Time ended) {
  std::vector<std::shared_ptr<JobWatcher>> watchers;
  JobView view;
  if (HasEnded(status.state)) uses_.Ended(status.job);
  {
    absl::MutexLock lock(&mu_);
    const auto it = jobs_.find(status.job);
    if (it == jobs_.end()) return;
    Entry& entry = it->second;
    const bool ends = HasEnded(status.state);
    if (!entry.visible) {
      entry.visible.emplace();
      entry.visible->accepted = entry.accepted;
      ++visible_;
      if (ends) ++ended_;
    } else if (ends && !HasEnded(entry.visible->status.state)) {
      ++ended_;
    }
    entry.visible->status = std::move(status);
    if (ends) entry.visible->ended = ended;
    if (entry.watchers.empty()) return;
    view = *entry.visible;
    watchers = ends ? std::move(entry.watchers) : entry.watchers;
    if (ends) entry.watchers.clear();
  }
  for (const auto& watcher : watchers) watcher->Offer(view);
}

void JobBoard::Remove(JobId job) {
  uses_.Remove(job);
  absl::MutexLock lock(&mu_);
  const auto it = jobs_.find(job);
  if (it == jobs_.end()) return;
  if (it->second.visible) {
    --visible_;
    if (HasEnded(it->second.visible->status.state)) --ended_;
  }
  jobs_.erase(it);
}

std::shared_ptr<const JobAccepted> JobBoard::FindAccepted(JobId job) const {
  absl::MutexLock lock(&mu_);
  const auto it = jobs_.find(job);
  return it == jobs_.end() ? nullptr : it->second.accepted;
}

std::optional<JobView> JobBoard::Find(JobId job) const {
  absl::MutexLock lock(&mu_);
  const auto it = jobs_.find(job);
  return it == jobs_.end() ? std::nullopt : it->second.visible;
}

std::optional<JobView> JobBoard::Watch(JobId job, const std::shared_ptr<JobWatcher>& watcher) {
  absl::MutexLock lock(&mu_);
  const auto it = jobs_.find(job);
  if (it == jobs_.end() || !it->second.visible) return std::nullopt;
  if (!HasEnded(it->second.visible->status.state)) it->second.watchers.push_back(watcher);
  return it->second.visible;
}

void JobBoard::Unwatch(JobId job, const JobWatcher* watcher) {
  absl::MutexLock lock(&mu_);
  const auto it = jobs_.find(job);
  if (it == jobs_.end()) return;
  std::erase_if(it->second.watchers,
                [watcher](const auto& entry) { return entry.get() == watcher; });
}

std::vector<JobView> JobBoard::List(const JobFilter& filter, JobId before, size_t count) const {
  absl::MutexLock lock(&mu_);
  std::vector<JobView> views;
  for (auto it = std::make_reverse_iterator(jobs_.lower_bound(before));
       it != jobs_.rend() && views.size() < count; ++it) {
    if (it->second.visible && Matches(*it->second.visible, filter)) {
      views.push_back(*it->second.visible);
    }
  }
  return views;
}

bool JobBoard::Has(JobId job) const {
  absl::MutexLock lock(&mu_);
  return jobs_.contains(job);
}

std::vector<JobView> JobBoard::Ended(size_t count, size_t* total) const {
  absl::MutexLock lock(&mu_);
  *total = ended_;
  std::vector<JobView> views;
  for (auto it = jobs_.begin(); it != jobs_.end() && views.size() < count; ++it) {
    if (it->second.visible && HasEnded(it->second.visible->status.state)) {
      views.push_back(*it->second.visible);
    }
  }
  return views;
}

std::vector<JobBoard::Old> JobBoard::EndedBefore(absl::Time time, size_t count) const {
  absl::MutexLock lock(&mu_);
  std::vector<Old> old;
  if (ended_ == 0) return old;
  for (auto it = jobs_.begin(); it != jobs_.end() && old.size() < count; ++it) {
    const std::optional<JobView>& view = it->second.visible;
    if (view && HasEnded(view->status.state) && view->ended <= time) {
      old.push_back({it->first, view->bound().spec.owner});
    }
  }
  return old;
}

size_t JobBoard::running() const {
  absl::MutexLock lock(&mu_);
  return visible_ - ended_;
}

absl::Status NoSuchJob(JobId job) {
  return Error(absl::StatusCode::kNotFound, reason::kJobNotFound,
               StrCat("there is no job ", job, " of yours; `tandem job ls` shows what there is"));
}

absl::Status HasNotEnded(JobId job) {
  return Error(absl::StatusCode::kFailedPrecondition, reason::kResultNotReady,
               StrCat("job ", job, " has not ended: wait for it (`tandem job wait ", job,
                      "`), or cancel it first (`tandem job cancel ", job, "`)"));
}

}  // namespace tandem::master
