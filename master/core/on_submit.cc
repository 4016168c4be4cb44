// Events of owners: submit, cancel, delete.
#include <algorithm>
#include <utility>

#include "common/base/error.h"
#include "common/base/strings.h"
#include "master/core/turn.h"

namespace tandem::master {
namespace {

absl::Status NoSuchJob(JobId id) {
  return Error(absl::StatusCode::kNotFound, reason::kJobNotFound,
               StrCat("there is no job ", id, " of yours; `tandem job ls` shows what there is"));
}

// The owner's job, or null. Knowing an id grants nothing: another's job is not found.
Job* JobOfOwner(State& state, JobId id, const std::string& owner) {
  Job* job = state.FindJob(id);
  return job == nullptr || job->spec().owner != owner ? nullptr : job;
}

// A job's number is never given twice, not even that of a job whose acceptance a crash has lost:
// workers may have heard of it, and hold leaves of it. So numbers are reserved ahead, and whose
// number is reserved runs while its acceptance is on its way to the disk. After a crash the numbers
// that were reserved are left out.
void ReserveNumbers(Turn& turn, Job& job) {
  constexpr uint64_t kAhead = 32;
  State& state = turn.state;
  if (job.id.value() + kAhead / 2 > state.reserved_jobs.value()) {
    turn.Record(IdsIssued{JobId(job.id.value() + kAhead), state.last_worker});
  }
  job.reserves = state.reserved_jobs;
}

// Workers may hear of it from now on.
void LetRun(Turn& turn, Job& job) {
  if (job.ended() || job.ready) return;
  RefreshReady(turn.state, job);
  turn.MarkDirty(job);
  turn.schedule_all = true;
}

}  // namespace

void OnSubmit(Turn& turn, const SubmitJob& event) {
  State& state = turn.state;
  if (!event.request_id.empty()) {
    const auto it =
        state.requests.find(State::RequestKey(event.bound->spec.owner, event.request_id));
    if (it != state.requests.end()) {
      const Job& job = *state.FindJob(it->second);
      if (job.request_hash == event.request_hash) return turn.Answer(event.token, job.id);
      return turn.Answer(event.token,
                         Error(absl::StatusCode::kAlreadyExists, reason::kRequestIdReused,
                               StrCat("request id ", event.request_id, " already made job ", job.id,
                                      " from another request; use a new id for a new request")));
    }
  }
  if (!event.objection.ok()) return turn.Answer(event.token, event.objection);
  if (state.jobs.size() >= state.options.limits.jobs_max) {
    return turn.Answer(event.token,
                       Error(absl::StatusCode::kResourceExhausted, reason::kQuotaExceeded,
                             StrCat("the master already holds ", state.jobs.size(),
                                    " jobs, its limit; delete ended ones or wait")));
  }
  const JobId id = state.last_job.next();
  turn.Record(JobAccepted{.job = id,
                          .bound = event.bound,
                          .request_id = event.request_id,
                          .request_hash = event.request_hash,
                          .submitted = event.submitted});
  Job& job = *state.FindJob(id);
  ReserveNumbers(turn, job);
  job.free.Add(job.tree().leaves());
  job.accepted_at = turn.now;
  turn.MarkDirty(job);
  if (state.MayRun(job)) LetRun(turn, job);
  turn.Answer(event.token, id);
  if (job.tree().empty()) AfterProgress(turn, job);
}

void OnDurable(Turn& turn, const JobDurable& event) {
  Job* job = turn.state.FindJob(event.job);
  if (job == nullptr) return;
  job->durable = true;
  LetRun(turn, *job);
  // So are the records before it, and what they reserve.
  State& state = turn.state;
  const JobId known_safe =
      std::exchange(state.safe_numbers, std::max(state.safe_numbers, job->reserves));
  for (auto it = state.jobs.upper_bound(known_safe);
       it != state.jobs.end() && it->first <= state.safe_numbers; ++it) {
    LetRun(turn, *it->second);
  }
}

void OnCancel(Turn& turn, const CancelJob& event) {
  Job* job = JobOfOwner(turn.state, event.job, event.owner);
  if (job == nullptr) return turn.Answer(event.token, NoSuchJob(event.job));
  if (!job->ended()) EndJob(turn, *job, JobState::kCancelled, "");
  if (StateOf(job->phase) == JobState::kCancelled) return turn.Answer(event.token, job->id);
  turn.Answer(event.token, Error(absl::StatusCode::kFailedPrecondition, reason::kJobFinished,
                                 StrCat("job ", job->id, " had already ended")));
}

void OnDelete(Turn& turn, const DeleteJob& event) {
  Job* job = JobOfOwner(turn.state, event.job, event.owner);
  if (job == nullptr) return turn.Answer(event.token, NoSuchJob(event.job));
  if (!job->ended()) {
    return turn.Answer(event.token,
                       Error(absl::StatusCode::kFailedPrecondition, reason::kResultNotReady,
                             StrCat("job ", event.job, " has not ended; cancel it first")));
  }
  turn.Record(JobDeleted{event.job});
  turn.Answer(event.token, event.job);
}

}  // namespace tandem::master
