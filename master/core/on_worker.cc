// Events of workers other than attaching and reporting: pulses, drains, partings; and time.
#include <algorithm>

#include "common/base/error.h"
#include "common/base/strings.h"
#include "master/core/turn.h"

namespace tandem::master {
namespace {

// Old round trips weigh less: a change is believed after a few pulses.
constexpr double kLatencyWeight = 0.25;

// Lost workers are remembered by name, the most recent ones.
void PruneLost(State& state) {
  uint64_t lost = 0;
  for (const auto& [id, worker] : state.workers) {
    lost += std::holds_alternative<Lost>(worker->phase) ? 1 : 0;
  }
  for (auto it = state.workers.begin();
       it != state.workers.end() && lost > state.options.limits.lost_workers_max;) {
    if (!std::holds_alternative<Lost>(it->second->phase)) {
      ++it;
      continue;
    }
    state.worker_names.erase(it->second->name);
    it = state.workers.erase(it);
    --lost;
  }
}

void LoseWorker(Turn& turn, Worker& worker, bool said_goodbye) {
  State& state = turn.state;
  ClearTimer(state, worker);
  if (std::holds_alternative<Expected>(worker.phase)) {
    Move(&worker.phase, Lost{});
    if (--state.expected == 0) EndRecovery(turn);
  } else {
    if (worker.takes_work()) CountKernels(state, worker, false);
    if (worker.attached() && !said_goodbye) {
      turn.out.ends.push_back(
          {worker.id, worker.stream(),
           Error(absl::StatusCode::kUnavailable, reason::kStaleLease,
                 StrCat("worker ", worker.name, " was not heard of for ",
                        HumanDuration(state.options.lease_ttl), "; attach again"))});
    }
    Move(&worker.phase, Lost{});
    LoseLeases(turn, worker);
  }
  ForgetJobs(state, worker);
  turn.Record(WorkerForgotten{worker.id});
  if (!said_goodbye) ++state.counters.lost_workers;
  turn.workers_changed = true;
  PruneLost(state);
}

}  // namespace

void OnDetached(Turn& turn, const WorkerDetached& event) {
  Worker* worker = turn.state.FindWorker(event.worker);
  if (worker == nullptr || !worker->attached() || worker->stream() != event.stream) return;
  if (worker->takes_work()) CountKernels(turn.state, *worker, false);
  Move(&worker->phase, Detached{turn.now + turn.state.options.reconnect_grace});
  SetTimer(turn.state, *worker);
  turn.workers_changed = true;
}

void OnLeft(Turn& turn, const WorkerLeft& event) {
  State& state = turn.state;
  Worker* worker = state.FindWorker(event.worker);
  if (worker == nullptr || std::holds_alternative<Lost>(worker->phase)) return;
  LoseWorker(turn, *worker, /*said_goodbye=*/true);
  if (worker = state.FindWorker(event.worker); worker == nullptr) return;
  state.worker_names.erase(worker->name);
  state.workers.erase(event.worker);
}

void OnPulsed(Turn& turn, const WorkerPulsed& event) {
  Worker* worker = turn.state.FindWorker(event.worker);
  if (worker == nullptr || !worker->attached()) return;
  worker->deadline = turn.now + turn.state.options.lease_ttl;
  const double seconds = absl::ToDoubleSeconds(event.round_trip);
  if (seconds > 0) {
    worker->latency_seconds += worker->latency_seconds == 0
                                   ? seconds
                                   : kLatencyWeight * (seconds - worker->latency_seconds);
  }
  turn.Touch(*worker);
}

namespace {

absl::Status NoSuchWorker(const DrainWorker& event) {
  return Error(absl::StatusCode::kNotFound, reason::kWorkerNotFound,
               StrCat("there is no worker ", event.name.empty() ? StrCat(event.worker) : event.name,
                      "; `tandem worker ls` shows those there are"));
}

void SetDraining(Turn& turn, Worker& worker, bool drain) {
  State& state = turn.state;
  if (worker.takes_work()) CountKernels(state, worker, false);
  worker.draining = drain;
  if (worker.takes_work()) CountKernels(state, worker, true);
  if (worker.attached()) turn.out.drains.push_back({worker.id, drain});
  turn.schedule_all = true;
  turn.workers_changed = true;
}

}  // namespace

void OnDrain(Turn& turn, const DrainWorker& event) {
  State& state = turn.state;
  Worker* worker = state.FindWorker(event.worker);
  if (!event.worker.valid()) {
    const auto named = state.worker_names.find(event.name);
    if (named != state.worker_names.end()) worker = state.FindWorker(named->second);
  }
  const std::string name = worker == nullptr ? event.name : worker->name;
  const bool drained = state.drained.contains(name);
  // One that has left is known by its drain only.
  if (worker == nullptr && !drained) return turn.Answer(event.token, NoSuchWorker(event));
  if (drained != event.drain) {
    if (event.drain && state.drained.size() >= state.options.limits.drained_max) {
      return turn.Answer(event.token,
                         Error(absl::StatusCode::kResourceExhausted, reason::kLimitExceeded,
                               StrCat(state.drained.size(),
                                      " workers are drained already, the "
                                      "limit; resume those that are no more")));
    }
    turn.Record(WorkerDrained{name, event.drain});
    if (worker != nullptr) SetDraining(turn, *worker, event.drain);
  }
  turn.Answer(event.token, JobId());
}

void OnTick(Turn& turn) {
  State& state = turn.state;
  // A master that was itself away for a while gives its workers another moment: their pulses may
  // still lie in its queues.
  const bool was_away =
      state.promised < turn.now && turn.now - state.promised > state.options.heartbeat;
  while (!state.timers.empty() && state.timers.begin()->first <= turn.now) {
    Worker& worker = *state.FindWorker(state.timers.begin()->second);
    if (was_away) {
      const MonoTime until = turn.now + state.options.heartbeat;
      worker.deadline = std::max(worker.deadline, until);
      if (auto* expected = std::get_if<Expected>(&worker.phase)) expected->until = until;
      if (auto* detached = std::get_if<Detached>(&worker.phase)) detached->until = until;
    }
    SetTimer(state, worker);  // An attached worker's deadline has moved with each pulse.
    if (worker.timer <= turn.now) LoseWorker(turn, worker, /*said_goodbye=*/false);
  }
  if (state.look_at <= turn.now) {
    state.look_at = MonoTime::InfiniteFuture();
    turn.schedule_all = true;
  }
}

void ForgetJobs(State& state, Worker& worker) {
  for (auto& [id, at] : worker.jobs) {
    Park(worker, at, 0);
    Job* job = state.FindJob(id);
    if (job == nullptr) continue;
    job->workers.erase(worker.id);
    SetLeafSeconds(*job, at, 0);
  }
  worker.jobs.clear();
}

void EndRecovery(Turn& turn) {
  for (auto& [id, job] : turn.state.jobs) {
    if (job->recovered) RefreshReady(turn.state, *job);
  }
  turn.schedule_all = true;
}

}  // namespace tandem::master
