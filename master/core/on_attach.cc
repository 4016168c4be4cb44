// A worker attaches: rejoin is reconciliation. It says what it holds; what the master still wants
// of that is leased to it again under new numbers, and every older lease of it is void.
#include <algorithm>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "common/base/error.h"
#include "common/base/strings.h"
#include "master/core/turn.h"

namespace tandem::master {
namespace {

absl::Status CheckAttach(const State& state, const WorkerAttach& event, const Worker* known) {
  if (event.name.empty() || event.name.size() > state.options.limits.name_bytes_max) {
    return InvalidError(reason::kProtocolError,
                        StrCat("a worker's name has 1 to ", state.options.limits.name_bytes_max,
                               " bytes; this one has ", event.name.size()));
  }
  if (event.max_epoch > state.epoch.value()) {
    return Error(absl::StatusCode::kFailedPrecondition, reason::kStaleEpoch,
                 StrCat("worker ", event.name, " has obeyed epoch ", event.max_epoch,
                        ", this master is of epoch ", state.epoch,
                        ": another master has taken over; connect to that one"));
  }
  if (known != nullptr && known->attached() && known->incarnation != event.incarnation) {
    return Error(absl::StatusCode::kAlreadyExists, reason::kWorkerNameInUse,
                 StrCat("a worker named ", event.name,
                        " is attached; give this one another --name, or wait until that one's "
                        "lease is over"));
  }
  if (known == nullptr && state.workers.size() >= state.options.limits.workers_max) {
    return Error(absl::StatusCode::kResourceExhausted, reason::kLimitExceeded,
                 StrCat("the master already knows ", state.workers.size(), " workers, its limit"));
  }
  return absl::OkStatus();
}

Worker& MakeWorker(Turn& turn, const std::string& name) {
  const WorkerId id = turn.state.last_worker.next();
  auto worker = std::make_unique<Worker>();
  worker->id = id;
  worker->name = name;
  worker->draining = turn.state.drained.contains(name);
  Worker& made = *worker;
  turn.state.workers[id] = std::move(worker);
  turn.state.worker_names[name] = id;
  turn.Record(WorkerKnown{id, name});
  return made;
}

void TakeDevices(Worker& worker, const std::vector<DeviceInfo>& devices) {
  worker.parallel = 0;
  worker.has_cpu = devices.empty();
  worker.has_gpu = false;
  worker.gpu_budget_bytes = 0;
  for (const DeviceInfo& device : devices) {
    if (device.kind == DeviceKind::kCpu) {
      worker.has_cpu = true;
      worker.parallel += std::max<uint64_t>(1, device.cores);
    } else {
      worker.has_gpu = true;
      // One that says none has no bound that the worker knows.
      constexpr uint64_t kAny = std::numeric_limits<uint64_t>::max();
      const uint64_t budget = device.budget_bytes == 0 ? kAny : device.budget_bytes;
      worker.gpu_budget_bytes = std::max(worker.gpu_budget_bytes, budget);
      worker.parallel += 2;  // A GPU holds two pieces.
    }
  }
  worker.parallel = std::max<uint64_t>(1, worker.parallel);
}

// Takes every lease off the worker, quietly: what it still holds comes back to it in a moment.
using Aside = std::map<JobId, std::vector<std::pair<LeafRange, uint32_t>>>;
Aside SetAside(Turn& turn, Worker& worker) {
  Aside aside;
  for (const auto& [id, at] : worker.jobs) {
    Job* job = turn.state.FindActive(id);
    if (job == nullptr) continue;
    auto& mine = aside[id];
    VoidMerges(turn, *job, worker.id);
    job->leases.TakeIf(
        job->tree().leaves(), [&](const LeaseRun& run) { return run.worker == worker.id; },
        [&](LeafRange leaves, const LeaseRun& run, int64_t ended) {
          ReleaseLease(turn, *job, worker, leaves.size(), ended, run.suspect);
          mine.emplace_back(leaves, run.attempt);
        });
    for (const auto& [leaves, attempt] : mine) FreeLeaves(turn, *job, leaves);
  }
  ForgetJobs(turn.state, worker);
  return aside;
}

class Adoption {
 public:
  Adoption(Turn& turn, Worker& worker, WelcomeWorker* welcome)
      : turn_(turn), worker_(worker), welcome_(welcome) {}

  // Leases to the worker what it holds of a job, unless that is done or belongs to another.
  void Adopt(Job& job, const HeldLeaves& held) {
    const uint64_t leaf_count = job.tree().leaf_count();
    if (held.leaves.first >= leaf_count || held.leaves.count == 0) return;
    const LeafRange leaves{
        held.leaves.first,
        held.leaves.first + std::min(held.leaves.count, leaf_count - held.leaves.first)};
    TakeFromOthers(job, leaves, held.lease);
    LeafSet wanted = job.free.Within(leaves);
    wanted.AddAll(job.free_suspects.Within(leaves));
    for (LeafRange part : wanted) {
      job.retries.ForEachIn(
          part, [&](LeafRange equal, const Retry* retry) { AdoptEqual(job, equal, retry, held); });
    }
    RefreshReady(turn_.state, job);
  }

 private:
  // Two claims for one node: the larger (epoch, n) wins.
  void TakeFromOthers(Job& job, LeafRange leaves, LeaseId claim) {
    std::vector<LeafRange> freed;
    job.leases.TakeIf(
        leaves, [&](const LeaseRun& run) { return run.worker != worker_.id && run.claim < claim; },
        [&](LeafRange taken, const LeaseRun& run, int64_t ended) {
          Worker* other = turn_.state.FindWorker(run.worker);
          ReleaseLease(turn_, job, *other, taken.size(), ended, run.suspect);
          if (other->attached()) {
            turn_.out.to_workers.push_back({other->id, Recall{job.id, IntervalOf(taken)}});
          }
          freed.push_back(taken);
        });
    for (LeafRange taken : freed) FreeLeaves(turn_, job, taken);
  }

  void AdoptEqual(Job& job, LeafRange leaves, const Retry* retry, const HeldLeaves& held) {
    const bool suspect = retry != nullptr && retry->suspect;
    (suspect ? job.free_suspects : job.free).Remove(leaves);
    uint64_t most = job.spec().max_lease_leaves > 0 ? job.spec().max_lease_leaves : leaves.size();
    if (suspect) most = std::min(most, uint64_t{1} << retry->level);
    uint64_t first = leaves.begin;
    while (first < leaves.end) {
      const Node node = job.tree().LargestNodeAt(first, most, leaves);
      LeaseRun run{.begin = first,
                   .end = job.tree().Leaves(node).end,
                   .first_n = turn_.state.next_n,
                   .first_leaf = first,
                   .level = node.level,
                   .suspect = suspect,
                   .attempt = std::max<uint32_t>(1, held.attempt),
                   .worker = worker_.id,
                   .claim = held.lease};
      // Equal nodes that follow are leases of the same run.
      const uint64_t size = uint64_t{1} << node.level;
      if (!suspect) {
        while (run.end + size <= leaves.end && IsNodeAt(job, run.end, node.level, most, leaves)) {
          run.end += size;
        }
      }
      turn_.state.next_n += static_cast<uint64_t>(run.Leases());
      Welcome(job, run, retry);
      first = run.end;
    }
  }
  static bool IsNodeAt(const Job& job, uint64_t leaf, uint8_t level, uint64_t most,
                       LeafRange within) {
    return job.tree().LargestNodeAt(leaf, most, within).level == level;
  }

  void Welcome(Job& job, const LeaseRun& run, const Retry* retry) {
    if (!worker_.jobs[job.id].described) {
      worker_.jobs[job.id].described = true;
      welcome_->jobs.push_back(job.id);
    }
    BookLease(turn_, job, worker_, run);
    turn_.state.counters.adopted_leaves += run.end - run.begin;
    if (std::holds_alternative<Pending>(job.phase)) Move(&job.phase, Running{});
    turn_.MarkDirty(job);
    welcome_->adopted.push_back(
        {.job = job.id,
         .first_n = run.first_n,
         .first_leaf = run.first_leaf,
         .level = run.level,
         .count = static_cast<uint64_t>(run.Leases()),
         .attempt = run.attempt,
         .suspect = run.suspect,
         .skip_tasks = retry == nullptr ? std::vector<uint64_t>() : GivenUpTasks(job, *retry)});
  }

  Turn& turn_;
  Worker& worker_;
  WelcomeWorker* welcome_;
};

// What was set aside and not adopted again has ended without a result.
void RequeueRest(Turn& turn, const Aside& aside) {
  for (const auto& [id, runs] : aside) {
    Job& job = *turn.state.FindJob(id);
    for (const auto& [leaves, attempt] : runs) {
      LeafSet rest = job.free.Within(leaves);
      rest.AddAll(job.free_suspects.Within(leaves));
      for (LeafRange part : rest) RequeueAfterLoss(turn, job, part, attempt);
    }
  }
}

}  // namespace

void OnAttach(Turn& turn, const WorkerAttach& event) {
  State& state = turn.state;
  const auto named = state.worker_names.find(event.name);
  Worker* worker = named == state.worker_names.end() ? nullptr : state.FindWorker(named->second);
  if (absl::Status status = CheckAttach(state, event, worker); !status.ok()) {
    return turn.Answer(event.token, std::move(status));
  }
  // What earlier Steps said to it in the same Effects was for its old stream.
  if (worker != nullptr) {
    const auto to_it = [&](const auto& message) { return message.worker == worker->id; };
    std::erase_if(turn.out.to_workers, to_it);
    std::erase_if(turn.out.describes, to_it);
    std::erase_if(turn.out.drains, to_it);
  }
  const bool was_expected = worker != nullptr && std::holds_alternative<Expected>(worker->phase);
  Aside aside;
  if (worker == nullptr) {
    worker = &MakeWorker(turn, event.name);
  } else {
    if (std::holds_alternative<Lost>(worker->phase)) {
      turn.Record(WorkerKnown{worker->id, worker->name});
    }
    if (worker->takes_work()) CountKernels(state, *worker, false);
    aside = SetAside(turn, *worker);
  }
  Move(&worker->phase, Attached{event.token});
  worker->incarnation = event.incarnation;
  worker->deadline = turn.now + state.options.lease_ttl;
  worker->max_leases =
      std::min(state.options.limits.leases_per_worker_max, std::max<uint64_t>(1, event.max_leases));
  worker->kernels.clear();
  TakeDevices(*worker, event.devices);
  SetTimer(state, *worker);

  WelcomeWorker welcome{.stream = event.token,
                        .worker = worker->id,
                        .epoch = state.epoch,
                        .lease_ttl = state.options.lease_ttl,
                        .heartbeat = state.options.heartbeat,
                        .adopted = {},
                        .jobs = {}};
  Adoption adoption(turn, *worker, &welcome);
  std::vector<JobId> strangers;
  for (const HeldLeaves& held : event.held) {
    if (Job* job = state.FindActive(held.job); job != nullptr) {
      adoption.Adopt(*job, held);
    } else if (std::find(strangers.begin(), strangers.end(), held.job) == strangers.end()) {
      strangers.push_back(held.job);
    }
  }
  RequeueRest(turn, aside);
  turn.out.to_workers.push_back({worker->id, std::move(welcome)});
  for (JobId id : strangers) turn.out.drops.push_back({worker->id, id});
  if (worker->draining) turn.out.drains.push_back({worker->id, true});
  if (was_expected && --state.expected == 0) EndRecovery(turn);
  turn.schedule_all = true;
  turn.workers_changed = true;
  OnAnnounced(turn, {worker->id, event.kernels});
}

void OnAnnounced(Turn& turn, const WorkerAnnounced& event) {
  State& state = turn.state;
  Worker* worker = state.FindWorker(event.worker);
  if (worker == nullptr || !worker->attached()) return;
  if (worker->takes_work()) CountKernels(state, *worker, false);
  for (const KernelInfo& kernel : event.kernels) {
    const std::string identity = kernel.identity();
    const auto known = state.kernel_index.find(identity);
    if (known == state.kernel_index.end() || state.kernels[known->second].announced == nullptr) {
      if (state.kernels.size() >= state.options.limits.kernels_max) continue;
      turn.Record(KernelAnnounced{std::make_shared<const KernelInfo>(kernel)});
    }
    worker->kernels.try_emplace(state.KernelOf(identity, kernel.name));
  }
  if (worker->takes_work()) CountKernels(state, *worker, true);
  turn.schedule_all = true;
  turn.workers_changed = true;
}

}  // namespace tandem::master
