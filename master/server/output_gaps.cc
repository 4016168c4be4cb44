#include "master/server/output_gaps.h"

#include <algorithm>
#include <optional>
#include <string>

#include "common/base/error.h"
#include "common/base/reason.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "master/server/row_cursor.h"
#include "master/server/timestamps.h"
#include "master/store/page_token.h"

namespace tandem::master {
namespace {

// To name tasks that can be read, no more of the index is looked at than this.
constexpr int kRunsLookedAt = 20'000;

struct Span {
  uint64_t first = 0;
  uint64_t count = 0;
  uint64_t end() const { return first + count; }
};

absl::Status JobOver(const JobView& view, std::string_view what) {
  const bool cancelled = view.status.state == JobState::kCancelled;
  return Error(absl::StatusCode::kFailedPrecondition,
               cancelled ? reason::kJobCancelled : reason::kJobFailed,
               StrCat("job ", view.status.job, cancelled ? " was cancelled: " : " failed: ", what));
}

// Is every task of it recorded as failed?
absl::StatusOr<bool> AllFailed(Store* store, JobId job, Span tasks) {
  std::string token = ToPageToken({tasks.first, 0});
  for (uint64_t next = tasks.first;;) {
    ASSIGN_OR_RETURN(const FailurePage page, store->FailuresOf(job, 0, token));
    for (const FailureRow& row : page.rows) {
      if (row.failure.task > next) return false;
      if (row.failure.task == next) ++next;
      if (next == tasks.end()) return true;
    }
    if (page.next_page_token.empty()) return false;
    token = page.next_page_token;
  }
}

// The longest run of tasks with bytes.
absl::StatusOr<Span> LongestDone(Store* store, const JobView& view, uint32_t output) {
  Span longest, run;
  RowCursor cursor(store, view.status.job, output, 0, view.bound().task_count());
  for (int i = 0; i < kRunsLookedAt; ++i) {
    ASSIGN_OR_RETURN(const std::optional<RowRun> next, cursor.Next());
    if (!next) break;
    if (next->row == nullptr) continue;
    if (next->first_task != run.end()) run = {next->first_task, 0};
    run.count += next->task_count;
    if (run.count > longest.count) longest = run;
  }
  return longest;
}

std::string Tasks(Span tasks) {
  return tasks.count == 1 ? StrCat(tasks.first) : StrCat(tasks.first, "-", tasks.end() - 1);
}

absl::Status NeverRan(Store* store, const JobView& view, uint32_t output, Span gap) {
  ASSIGN_OR_RETURN(const Span done, LongestDone(store, view, output));
  const std::string what =
      StrCat(gap.count == 1 ? "task " : "tasks ", Tasks(gap), gap.count == 1 ? " has" : " have",
             " no result, for not all of its tasks ran; ");
  if (done.count == 0) return JobOver(view, StrCat(what, "none is done. Run it again"));
  return JobOver(view, StrCat(what, view.status.tasks_done - view.status.tasks_failed, " of ",
                              view.bound().task_count(), " have: read them with --tasks ",
                              Tasks(done), ", or run it again"));
}

}  // namespace

absl::Status NotReady(JobId job, std::string_view what) {
  return Error(absl::StatusCode::kFailedPrecondition, reason::kResultNotReady,
               StrCat("job ", job, ": ", what));
}

absl::Status CheckReducible(const JobView& view) {
  if (view.status.state == JobState::kSucceeded) return absl::OkStatus();
  if (!HasEnded(view.status.state)) {
    return NotReady(view.status.job, "a reduced output is there when the job has succeeded");
  }
  return JobOver(view, StrCat("a reduced output is made of all tasks, and ",
                              view.status.tasks_done - view.status.tasks_failed, " of ",
                              view.bound().task_count(), " were done; run it again",
                              view.status.tasks_failed == 0
                                  ? ""
                                  : ", with --allow-failed to reduce over those that succeed"));
}

GapPolicy GapsOf(Store* store, const JobView& view, uint32_t output, bool failed_as_zero) {
  return [store, view, output, failed_as_zero](uint64_t first, uint64_t count) -> absl::Status {
    const JobId job = view.status.job;
    const Span gap{first, count};
    if (!HasEnded(view.status.state)) {
      return NotReady(job, StrCat("tasks [", first, ", ", first + count,
                                  ") are not done yet: read what is, or wait for the job"));
    }
    // With every task done, what has no bytes has failed.
    if (view.status.tasks_done < view.bound().task_count()) {
      ASSIGN_OR_RETURN(const bool failed, AllFailed(store, job, gap));
      if (!failed) return NeverRan(store, view, output, gap);
    }
    if (failed_as_zero) return absl::OkStatus();
    return Error(absl::StatusCode::kFailedPrecondition, reason::kTaskFailed,
                 StrCat("job ", job, ": tasks [", first, ", ", first + count,
                        ") have no result; read with failed_as_zero to have zeros in their place"));
  };
}

}  // namespace tandem::master
