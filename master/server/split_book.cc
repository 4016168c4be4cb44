#include "master/server/split_book.h"

#include <utility>

namespace tandem::master {

void SplitBook::Add(Noted noted) {
  const JobId job = noted.split.job;
  OfJob& of = jobs_[job];
  order_.erase(of.last);
  order_[of.last = ++last_] = job;
  if (of.noted.size() >= kOfJobMax) of.noted.erase(of.noted.begin());
  of.noted.push_back(std::move(noted));
  if (jobs_.size() > kJobsMax) Forget(order_.begin()->second);
}

void SplitBook::Forget(JobId job) {
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return;
  order_.erase(found->second.last);
  jobs_.erase(found);
}

std::vector<SplitBook::Noted> SplitBook::Find(JobId job) const {
  const auto found = jobs_.find(job);
  return found == jobs_.end() ? std::vector<Noted>() : found->second.noted;
}

}  // namespace tandem::master
