#include "master/server/job_ledger.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "common/wire/lease_messages.h"
#include "common/wire/usage.h"
#include "master/server/timestamps.h"

namespace tandem::master {
namespace {

uint64_t Nanos(absl::Duration duration) {
  return static_cast<uint64_t>(std::max<int64_t>(absl::ToInt64Nanoseconds(duration), 0));
}

}  // namespace

JobLedger::Entry* JobLedger::Live(JobId job) {
  const auto it = live_.find(job);
  return it == live_.end() ? nullptr : &it->second;
}

void JobLedger::Accepted(JobId job, MonoTime now, absl::Duration age) {
  Entry& entry = live_[job];
  entry.accepted = now - std::max(age, absl::ZeroDuration());
  entry.since = now;
  entry.partial = age > absl::ZeroDuration();
}

JobLedger::AtWorker* JobLedger::FirstAt(Entry& entry, WorkerId worker) {
  const auto it = std::ranges::find(entry.workers, worker, &AtWorker::worker);
  return it == entry.workers.end() ? nullptr : &*it;
}

JobLedger::AtWorker& JobLedger::At(Entry& entry, WorkerId worker, v1::DeviceKind device,
                                   MonoTime now) {
  MonoTime first = now;
  for (AtWorker& at : entry.workers) {
    if (at.worker != worker) continue;
    // A worker that comes back is granted leases before its devices are known.
    if (at.device == v1::DEVICE_KIND_UNSPECIFIED) at.device = device;
    if (at.device == device) return at;
    first = std::min(first, at.first);
  }
  AtWorker& at = entry.workers.emplace_back();
  at.worker = worker;
  at.device = device;
  at.first = first;
  at.last = now;
  at.total_at_first = busy_[worker];
  return at;
}

void JobLedger::Granted(JobId job, WorkerId worker, uint64_t leases, MonoTime now) {
  Entry* entry = Live(job);
  if (entry == nullptr) return;
  // A lease is the worker's, whichever of its devices will pull it: the first one's line has them.
  AtWorker* at = FirstAt(*entry, worker);
  if (at == nullptr) {
    const v1::DeviceKind device = looks_->LookAt(worker, v1::DEVICE_KIND_UNSPECIFIED).device;
    at = &At(*entry, worker, device, now);
  }
  at->leases += leases;
}

void JobLedger::MergeGranted(JobId job) {
  if (Entry* entry = Live(job)) ++entry->merge_grants;
}

void JobLedger::Used(WorkerId worker, const v1::JobUsage& usage, MonoTime now) {
  uint64_t& total = busy_[worker];
  Entry* entry = Live(JobId(usage.job()));
  if (entry == nullptr) {
    total += wire::BusyNanos(usage.usage());
    return;
  }
  AtWorker& at = At(*entry, worker, usage.device(), now);
  total += wire::BusyNanos(usage.usage());
  wire::AddUsage(usage.usage(), &at.usage);
  at.last = now;
  // What the job itself had on the worker's other devices is not another job's.
  uint64_t own = 0;
  for (const AtWorker& any : entry->workers) {
    if (any.worker == worker) own += wire::BusyNanos(any.usage);
  }
  const uint64_t all = total - at.total_at_first;
  at.other_ns = all - std::min(all, own);
}

void JobLedger::Reported(WorkerId worker, const Report& report, MonoTime now) {
  Entry* entry = nullptr;
  AtWorker* at = nullptr;
  JobId job;
  const auto find = [&](JobId wanted) {
    if (at != nullptr && job == wanted) return at;
    job = wanted;
    at = nullptr;
    entry = Live(wanted);
    if (entry == nullptr) return at;
    at = FirstAt(*entry, worker);  // where its leases stand
    if (at != nullptr) at->last = now;
    return at;
  };
  for (const Commit& commit : report.commits) {
    if (find(commit.job) == nullptr) continue;
    for (const LeafRun& run : commit.runs) at->leaves += run.leaves.count;
  }
  for (const Return& returned : report.returns) {
    if (find(returned.job) != nullptr) at->returned_leaves += returned.run.leaves.count;
  }
  for (const Crash& crash : report.crashes) {
    if (find(crash.job) != nullptr) ++entry->crashes;
  }
  for (const LeaseSplit& split : report.splits) {
    if (find(split.job) == nullptr) continue;
    splits_.Add({.worker = worker, .ended = now - entry->accepted, .split = split});
  }
}

void JobLedger::Advance(Entry& entry, MonoTime now) {
  const uint64_t ns = Nanos(now - entry.since);
  entry.since = std::max(entry.since, now);
  if (!HasEnded(entry.state)) entry.in_state[static_cast<size_t>(entry.state)] += ns;
  if (entry.wait != WaitReason::kNone) entry.waited[static_cast<size_t>(entry.wait)] += ns;
}

void JobLedger::Became(const JobStatus& status, MonoTime now) {
  Entry* entry = Live(status.job);
  if (entry == nullptr) return;
  Advance(*entry, now);
  entry->state = status.state;
  entry->wait = status.wait_reason;
}

void JobLedger::CommitWaited(JobId job, absl::Duration wait) {
  Entry* entry = Live(job);
  if (entry == nullptr) return;
  ++entry->commits;
  entry->commit_wait_ns += Nanos(wait);
  entry->commit_wait_max_ns = std::max(entry->commit_wait_max_ns, Nanos(wait));
}

const std::string& JobLedger::Close(JobId job, MonoTime now) {
  const auto it = live_.find(job);
  if (it == live_.end()) return Ended(job);
  Advance(it->second, now);
  v1::JobAccount account;
  Write(it->second, &account);
  live_.erase(it);
  std::string& kept = ended_[job];
  kept = account.SerializeAsString();
  return kept;
}

void JobLedger::Restore(JobId job, std::string account) { ended_[job] = std::move(account); }

void JobLedger::Forget(JobId job) {
  live_.erase(job);
  ended_.erase(job);
  splits_.Forget(job);
}

std::optional<v1::JobAccount> JobLedger::Find(JobId job, MonoTime now) const {
  v1::JobAccount account;
  if (const auto it = live_.find(job); it != live_.end()) {
    Entry entry = it->second;
    Advance(entry, now);
    Write(entry, &account);
    return account;
  }
  const std::string& kept = Ended(job);
  if (kept.empty() || !account.ParseFromString(kept)) return std::nullopt;
  return account;
}

std::vector<v1::LeaseSplit> JobLedger::Leases(JobId job) const {
  std::vector<v1::LeaseSplit> leases;
  for (const SplitBook::Noted& noted : splits_.Find(job)) {
    v1::LeaseSplit& lease = leases.emplace_back();
    wire::Encode(noted.split, &lease);
    lease.set_worker(noted.worker.value());
    lease.set_worker_name(looks_->LookAt(noted.worker, v1::DEVICE_KIND_UNSPECIFIED).name);
    lease.set_ended_ns(Nanos(noted.ended));
  }
  return leases;
}

const std::string& JobLedger::Ended(JobId job) const {
  static const std::string none;
  const auto it = ended_.find(job);
  return it == ended_.end() ? none : it->second;
}

void JobLedger::Write(const Entry& entry, v1::JobAccount* to) const {
  to->set_pending_ns(entry.in_state[0]);
  to->set_running_ns(entry.in_state[1]);
  to->set_merging_ns(entry.in_state[2]);
  std::vector<std::pair<uint64_t, size_t>> waits;
  for (size_t reason = 1; reason < kReasons; ++reason) {
    if (entry.waited[reason] > 0) waits.emplace_back(entry.waited[reason], reason);
  }
  std::ranges::sort(waits, std::greater<>());
  for (const auto& [ns, reason] : waits) {
    v1::WaitTime* wait = to->add_waits();
    wait->set_reason(EncodeWaitReason(static_cast<WaitReason>(reason)));
    wait->set_ns(ns);
  }
  WriteWorkers(entry, to);
  to->set_commits(entry.commits);
  to->set_commit_wait_ns(entry.commit_wait_ns);
  to->set_commit_wait_max_ns(entry.commit_wait_max_ns);
  to->set_merge_grants(entry.merge_grants);
  to->set_crashes(entry.crashes);
  to->set_partial(entry.partial);
}

// Those that did the most, and all the others in one line.
void JobLedger::WriteWorkers(const Entry& entry, v1::JobAccount* to) const {
  absl::flat_hash_map<WorkerId, uint64_t> busy;
  std::vector<const AtWorker*> order;
  for (const AtWorker& at : entry.workers) {
    order.push_back(&at);
    busy[at.worker] += wire::BusyNanos(at.usage);
  }
  // The busiest first; a worker's devices stay together.
  std::ranges::stable_sort(order, [&busy](const AtWorker* a, const AtWorker* b) {
    const uint64_t a_busy = busy[a->worker], b_busy = busy[b->worker];
    return a_busy != b_busy ? a_busy > b_busy : a->worker < b->worker;
  });
  for (size_t i = 0; i < order.size(); ++i) {
    const AtWorker& at = *order[i];
    const bool others = i >= kWorkersListed;
    v1::WorkerUsage* line = others && i > kWorkersListed
                                ? to->mutable_workers(static_cast<int>(kWorkersListed))
                                : to->add_workers();
    const WorkerLook look = looks_->LookAt(at.worker, at.device);
    line->set_groups(line->groups() + look.groups);
    if (!others) {
      line->set_worker(at.worker.value());
      line->set_name(look.name);
      line->set_device(at.device);
    }
    wire::AddUsage(at.usage, line->mutable_usage());
    line->set_leases(line->leases() + at.leases);
    line->set_leaves(line->leaves() + at.leaves);
    line->set_returned_leaves(line->returned_leaves() + at.returned_leaves);
    const uint64_t first = Nanos(at.first - entry.accepted);
    line->set_first_ns(i == kWorkersListed || !others ? first : std::min(line->first_ns(), first));
    line->set_last_ns(std::max(line->last_ns(), Nanos(at.last - entry.accepted)));
    line->set_other_ns(line->other_ns() + at.other_ns);
  }
}

}  // namespace tandem::master
