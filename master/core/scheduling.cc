// Who is given what next. The policy says how much; this decides of which job, and books it.
#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/check.h"
#include "master/core/large_leaves.h"
#include "master/core/merging.h"
#include "master/core/recall.h"
#include "master/core/suspects.h"
#include "master/core/turn.h"

namespace tandem::master {
namespace {

// The worker cannot run the job, or has given it back just now.
bool Unfit(const Turn& turn, const Worker& worker, const Job& job) {
  const auto it = worker.jobs.find(job.id);
  if (it == worker.jobs.end()) return false;
  const JobAtWorker& at = it->second;
  const MonoTime until = at.unfit ? std::max(at.spurned_until, at.unfit_until) : at.spurned_until;
  if (until <= turn.now) return false;
  turn.state.look_at = std::min(turn.state.look_at, until);
  return true;
}

// Has the job something free that this worker may have now? Suspects that may not run together run
// one after the other.
bool HasFor(const Turn& turn, const Job& job, const Worker& worker) {
  if (!HasMemory(worker, job) || Unfit(turn, worker, job)) return false;
  return !job.free.empty() || (!job.free_suspects.empty() && worker.suspects == 0) ||
         HasLarge(job, worker);
}

// The best job of one class for this worker. Ranks are brought up to date as they come to the top.
Job* BestOfClass(const Turn& turn, const JobClass& job_class, const Worker& worker) {
  for (auto it = job_class.ready.begin(); it != job_class.ready.end();) {
    Job* job = it->second;
    const JobRank before = job->rank;
    RefreshReady(turn.state, *job);
    if (!(job->rank == before)) {
      it = job_class.ready.begin();
      continue;
    }
    if (HasFor(turn, *job, worker)) return job;
    ++it;
  }
  return nullptr;
}

Job* BestJob(const Turn& turn, const Worker& worker) {
  Job* best = nullptr;
  for (const JobClass& job_class : turn.state.classes) {
    if (job_class.ready.empty() || !Fits(worker, job_class)) continue;
    Job* job = BestOfClass(turn, job_class, worker);
    if (job != nullptr && (best == nullptr || job->rank < best->rank)) best = job;
  }
  return best;
}

void SendGrant(Turn& turn, Job& job, Worker& worker, const LeaseRun& run, const Retry* retry,
               uint64_t suspect_set = 0) {
  State& state = turn.state;
  Describe(turn, job, worker);
  BookLease(turn, job, worker, run);
  const auto count = static_cast<uint64_t>(run.Leases());
  ++state.counters.grants;
  state.counters.leases += count;
  job.leases_granted += count;
  if (std::holds_alternative<Pending>(job.phase)) {
    Move(&job.phase, Running{});
    turn.MarkDirty(job);
  }
  if (!job.started_after.has_value()) {
    job.started_after = turn.now - job.accepted_at;
    turn.MarkDirty(job);
  }
  turn.out.to_workers.push_back(
      {worker.id,
       Grant{.job = job.id,
             .first_n = run.first_n,
             .first_leaf = run.first_leaf,
             .level = run.level,
             .count = count,
             .attempt = run.attempt,
             .suspect = run.suspect,
             .skip_tasks = retry == nullptr ? std::vector<uint64_t>() : GivenUpTasks(job, *retry),
             .suspect_set = suspect_set}});
}

LeaseRun NewRun(State& state, const Worker& worker, LeafRange leaves, uint8_t level,
                const Retry* retry) {
  LeaseRun run{.begin = leaves.begin,
               .end = leaves.end,
               .first_n = state.next_n,
               .first_leaf = leaves.begin,
               .level = level,
               .suspect = retry != nullptr && retry->suspect,
               .attempt = retry == nullptr ? 1 : retry->attempt,
               .worker = worker.id,
               .claim = {state.epoch, state.next_n}};
  state.next_n += static_cast<uint64_t>(run.Leases());
  return run;
}

// Those that run together are one set, by the number of its first lease.
void GrantSuspects(Turn& turn, Job& first, Worker& worker) {
  State& state = turn.state;
  const auto room = static_cast<int64_t>(worker.max_leases) - worker.busy_leases();
  const std::vector<SuspectNode> nodes = NextSuspects(
      state, first, static_cast<size_t>(std::max<int64_t>(room, 1)), [&](const Job& job) {
        return job.ready && Fits(worker, state.classes[job.job_class]) && HasMemory(worker, job) &&
               !Unfit(turn, worker, job);
      });
  const uint64_t set = nodes.size() > 1 ? state.next_n : 0;
  for (const SuspectNode& suspect : nodes) {
    Job& job = *suspect.job;
    const LeafRange leaves = job.tree().Leaves(suspect.node);
    job.free_suspects.Remove(leaves);
    const Retry* retry = job.retries.Find(leaves.begin, leaves).retry;
    SendGrant(turn, job, worker, NewRun(state, worker, leaves, suspect.node.level, retry), retry,
              set);
    RefreshReady(state, job);
  }
}

void GrantLarge(Turn& turn, Job& job, Worker& worker) {
  const uint64_t leaf = job.free_large.begin()->second;
  const LeafRange leaves{leaf, leaf + 1};
  job.free_large.erase(job.free_large.begin());
  const Retry* retry = job.retries.Find(leaf, leaves).retry;
  SendGrant(turn, job, worker, NewRun(turn.state, worker, leaves, 0, retry), retry);
}

// Grants at most `leases` equal nodes from the left end of what is free; returns how many.
uint64_t GrantRun(Turn& turn, Job& job, Worker& worker, uint64_t lease_leaves, uint64_t leases) {
  const LeafRange free = job.free.first();
  const RetryTable::Found equal = job.retries.Find(free.begin, free);
  const Node node = job.tree().LargestNodeAt(free.begin, lease_leaves, equal.leaves);
  const uint64_t size = uint64_t{1} << node.level;
  LeafRange leaves = job.tree().Leaves(node);
  uint64_t count = 1;
  // A node that is smaller than wanted stands alone, so that the next one can be larger.
  if (2 * size > lease_leaves || 2 * size > equal.leaves.size()) {
    const uint64_t fit = (equal.leaves.end - leaves.begin) / size;
    if (fit > 1) {  // Else one node, which the job's end may clip.
      count = std::min(leases, fit);
      leaves.end = leaves.begin + count * size;
    }
  }
  job.free.Remove(leaves);
  SendGrant(turn, job, worker, NewRun(turn.state, worker, leaves, node.level, equal.retry),
            equal.retry);
  return count;
}

// True if something was granted.
bool GrantSome(Turn& turn, Job& job, Worker& worker) {
  if (!job.free_suspects.empty() && worker.suspects == 0) {
    GrantSuspects(turn, job, worker);
    return true;
  }
  if (HasLarge(job, worker)) {
    GrantLarge(turn, job, worker);
    RefreshReady(turn.state, job);
    return true;
  }
  if (job.free.empty()) return false;
  const GrantPlan plan = PlanGrant(turn.state.options.policy, ViewOf(turn.state, job, worker));
  uint64_t left = plan.leases;
  while (left > 0 && !job.free.empty()) {
    left -= GrantRun(turn, job, worker, plan.lease_leaves, left);
  }
  if (plan.leases == 0) return false;
  double& served = turn.state.served[job.spec().priority];
  served = std::max(served, job.rank.served_seconds);
  RefreshReady(turn.state, job);
  return true;
}

void SendOutlook(Turn& turn, const Job& job, Worker& worker, double share_leaves) {
  JobAtWorker& at = worker.jobs[job.id];
  constexpr double kWorthTelling = 0.1;
  const double change = share_leaves - at.told_share;
  if (at.told_share >= 0 && share_leaves > 0 && std::abs(change) < kWorthTelling * at.told_share) {
    return;
  }
  if (share_leaves == at.told_share) return;
  at.told_share = share_leaves;
  turn.out.to_workers.push_back({worker.id, Outlook{job.id, share_leaves}});
}

// What is still to come, so that the worker's pulls get smaller towards the end.
void TellOutlook(Turn& turn, Job& job, Worker& worker) {
  const double free = static_cast<double>(job.free.count());
  if (free > 0) {
    return SendOutlook(turn, job, worker, free * ViewOf(turn.state, job, worker).share);
  }
  for (WorkerId id : job.workers) {
    Worker* other = turn.state.FindWorker(id);
    if (other == nullptr || !other->attached()) continue;
    if (other->jobs[job.id].described) SendOutlook(turn, job, *other, 0);
  }
}

void GrantMerges(Turn& turn, Worker& worker) {
  if (turn.state.merge_ready.empty() || worker.merges > 0) return;
  const std::vector<JobId> waiting(turn.state.merge_ready.begin(), turn.state.merge_ready.end());
  for (JobId id : waiting) {
    Job* job = turn.state.FindActive(id);
    if (job == nullptr || !turn.state.MayRun(*job) || Unfit(turn, worker, *job)) continue;
    if (!Fits(worker, turn.state.classes[job->job_class])) continue;
    if (GrantMerge(turn, *job, worker)) return;
  }
}

void ServeWorker(Turn& turn, Worker& worker) {
  if (!worker.takes_work()) return;
  GrantMerges(turn, worker);
  absl::InlinedVector<JobId, 4> granted;
  const auto held_max = static_cast<int64_t>(turn.state.options.limits.held_leases_max);
  while (worker.busy_leases() < static_cast<int64_t>(worker.max_leases) &&
         worker.load.leases() < held_max) {
    Job* job = BestJob(turn, worker);
    if (job == nullptr) break;
    if (worker.load.Below(job->spec().priority).leases > 0) {
      RecallBelow(turn, worker, job->spec().priority);
    }
    // The best job's share of the queue is full: those behind it wait, too.
    if (!GrantSome(turn, *job, worker)) break;
    if (granted.empty() || granted.back() != job->id) granted.push_back(job->id);
  }
  for (JobId id : granted) TellOutlook(turn, *turn.state.FindJob(id), worker);
  StealFor(turn, worker);
}

uint64_t Positive(int64_t count) { return count > 0 ? static_cast<uint64_t>(count) : 0; }

}  // namespace

void SetLeafSeconds(Job& job, JobAtWorker& at, double busy_leaf_seconds) {
  if (at.busy_leaf_seconds > 0) {
    --job.measured;
    job.leaves_per_second -= 1 / at.busy_leaf_seconds;
  }
  at.busy_leaf_seconds = busy_leaf_seconds;
  if (busy_leaf_seconds > 0) {
    ++job.measured;
    job.leaves_per_second += 1 / busy_leaf_seconds;
  }
  // What rounding left, or took: the speeds of one job may differ by orders of magnitude.
  constexpr double kSpeedMin = 1e-9;
  job.leaves_per_second = job.measured == 0 ? 0 : std::max(job.leaves_per_second, kSpeedMin);
}

double LeafSeconds(const State& state, const Job& job, const Worker& worker) {
  const auto here = worker.jobs.find(job.id);
  if (here != worker.jobs.end() && here->second.busy_leaf_seconds > 0) {
    return here->second.busy_leaf_seconds;
  }
  if (job.measured > 0) return static_cast<double>(job.measured) / job.leaves_per_second;
  const size_t index = state.classes[job.job_class].kernel;
  const KernelEntry& kernel = state.kernels[index];
  const auto grain = static_cast<double>(job.tree().grain());
  // Other jobs of the kernel may have been cheaper by far: the hint is believed as well.
  const double hinted =
      grain * job.bound->ns_per_task * 1e-9 / static_cast<double>(worker.parallel);
  const auto at = worker.kernels.find(index);
  if (at != worker.kernels.end() && at->second.tasks_per_second > 0) {
    return std::max(hinted, grain / at->second.tasks_per_second);
  }
  if (kernel.measured > 0) {
    return std::max(hinted, grain * static_cast<double>(kernel.measured) / kernel.tasks_per_second);
  }
  return kLeafNanos * 1e-9;
}

GrantView ViewOf(const State& state, const Job& job, const Worker& worker) {
  const size_t index = state.classes[job.job_class].kernel;
  const KernelEntry& kernel = state.kernels[index];
  const auto at = worker.kernels.find(index);
  const QueueLoad::Sum queue = worker.load.AtLeast(job.spec().priority);
  GrantView view;
  view.free_leaves = job.free.count();
  view.max_lease_leaves = job.spec().max_lease_leaves;
  view.measured = at != worker.kernels.end() && at->second.tasks_per_second > 0;
  view.probe_leaves = at == worker.kernels.end() ? 1 : at->second.probe_leaves;
  view.leaf_seconds = LeafSeconds(state, job, worker);
  view.proven = job.measured > 0;
  // The worker's part of the cluster's speed for the job. Workers that have not measured it yet
  // count as the average of those that have; where none has, the kernel's speeds are compared.
  double speed = view.proven     ? 1 / view.leaf_seconds
                 : view.measured ? at->second.tasks_per_second
                                 : 0;
  double average = 1;
  if (view.proven) {
    average = job.leaves_per_second / static_cast<double>(job.measured);
  } else if (kernel.measured > 0) {
    average = kernel.tasks_per_second / static_cast<double>(kernel.measured);
  }
  if (speed == 0) speed = average;
  const double all = average * static_cast<double>(std::max<uint64_t>(1, kernel.workers));
  view.share = std::min(1.0, speed / all);
  view.parallel = worker.parallel;
  view.latency_seconds = worker.latency_seconds + absl::ToDoubleSeconds(state.options.commit_time);
  view.queued_seconds = std::max(0.0, queue.seconds - 1e-9 * static_cast<double>(worker.parked_ns));
  view.queued_leases = Positive(queue.leases - worker.parked_leases);
  view.held_leases = Positive(worker.busy_leases());
  view.max_leases = worker.max_leases;
  return view;
}

void Schedule(Turn& turn) {
  State& state = turn.state;
  if (!turn.schedule_all) {
    for (WorkerId id : turn.touched) {
      if (Worker* worker = state.FindWorker(id); worker != nullptr) ServeWorker(turn, *worker);
    }
    return;
  }
  // Workers take turns in being first, so that none lives on the others' leavings.
  std::vector<WorkerId> order;
  for (auto it = state.workers.upper_bound(state.last_lucky); it != state.workers.end(); ++it) {
    order.push_back(it->first);
  }
  for (auto it = state.workers.begin(); it != state.workers.upper_bound(state.last_lucky); ++it) {
    order.push_back(it->first);
  }
  for (WorkerId id : order) {
    Worker* worker = state.FindWorker(id);
    if (!worker->takes_work()) continue;
    if (state.last_lucky == id || order.front() == id) state.last_lucky = id;
    ServeWorker(turn, *worker);
  }
}

}  // namespace tandem::master
