#include "master/server/job_watch.h"

#include <string>
#include <utility>

#include "common/base/error.h"
#include "common/base/reason.h"
#include "common/base/strings.h"
#include "common/rpc/status.h"
#include "master/server/timestamps.h"

namespace tandem::master {
namespace {

absl::Status SlowConsumer(uint64_t sequence) {
  return Error(absl::StatusCode::kAborted, reason::kSlowConsumer,
               StrCat("the watcher does not keep up; watch again from sequence ", sequence));
}

}  // namespace

std::shared_ptr<JobWatch> JobWatch::Start(JobBoard* board, const Clock* clock, WatchLimits limits,
                                          uint64_t after_sequence) {
  std::shared_ptr<JobWatch> watch(new JobWatch(board, clock, limits, after_sequence));
  watch->self_ = watch;
  return watch;
}

void JobWatch::Watch(JobId job, const std::string& owner) {
  const std::optional<JobView> view = board_->Find(job);
  if (!view || view->bound().spec.owner != owner) return Close(NoSuchJob(job));
  job_ = job;
  const std::optional<JobView> present = board_->Watch(job, shared_from_this());
  if (!present) return Close(NoSuchJob(job));
  Offer(*present);
}

void JobWatch::ShowEnded(const JobView& view) {
  {
    absl::MutexLock lock(&mu_);
    waiting_.push_back(view);
    ended_ = true;
  }
  Drive();
}

void JobWatch::Offer(const JobView& view) {
  {
    absl::MutexLock lock(&mu_);
    const bool ends = HasEnded(view.status.state);
    if (end_ || ended_) return;
    ended_ = ends;
    // An end is said even to those who have seen its sequence.
    if (view.status.sequence <= last_sequence_ && !ends) return;
    last_sequence_ = view.status.sequence;
    if (!waiting_.empty() && waiting_.back().status.state == view.status.state) {
      waiting_.back() = view;
    } else {
      waiting_.push_back(view);
    }
    const bool stalled = writing_ && clock_->Now() - writing_since_ > limits_.stall_max;
    if (stalled || waiting_.size() > limits_.waiting_max) {
      end_ = SlowConsumer(outgoing_.sequence());
      waiting_.clear();
    }
  }
  Drive();
}

void JobWatch::OnWriteDone(bool ok) {
  {
    absl::MutexLock lock(&mu_);
    writing_ = false;
    if (!ok && !end_) end_ = absl::CancelledError("the watcher is gone");
  }
  Drive();
}

void JobWatch::Close(const absl::Status& status) {
  {
    absl::MutexLock lock(&mu_);
    if (end_) return;
    end_ = status;
    waiting_.clear();
  }
  Drive();
}

JobWatch::Action JobWatch::NextAction() {
  if (driving_ || finished_) return Action::kNone;
  // Finishing with a write outstanding is allowed: it is given up.
  if (end_ || (ended_ && waiting_.empty() && !writing_)) {
    finished_ = true;
    return Action::kFinish;
  }
  if (writing_ || waiting_.empty()) return Action::kNone;
  outgoing_.Clear();
  EncodeJob(waiting_.front(), std::exchange(first_, false) ? JobDetail::kWhole : JobDetail::kBrief,
            &outgoing_);
  waiting_.pop_front();
  writing_ = true;
  writing_since_ = clock_->Now();
  return Action::kWrite;
}

void JobWatch::Drive() {
  const std::shared_ptr<JobWatch> keep = shared_from_this();
  while (true) {
    Action action;
    absl::Status end;
    {
      absl::MutexLock lock(&mu_);
      action = NextAction();
      if (action == Action::kNone) return;
      end = end_.value_or(absl::OkStatus());
      driving_ = true;
    }
    if (action == Action::kWrite) StartWrite(&outgoing_);
    if (action == Action::kFinish) Finish(rpc::ToGrpc(end));
    absl::MutexLock lock(&mu_);
    driving_ = false;
  }
}

void JobWatch::OnDone() {
  if (job_.valid()) board_->Unwatch(job_, this);
  self_.reset();
}

}  // namespace tandem::master
