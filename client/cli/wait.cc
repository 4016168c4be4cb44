#include "client/cli/wait.h"

#include <algorithm>
#include <iostream>

#include "client/cli/interrupt.h"
#include "client/cli/job_text.h"
#include "common/base/error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace tandem::cli {
namespace {

constexpr uint64_t kFailuresShown = 5;
constexpr absl::Duration kSecondCtrlC = absl::Seconds(3);

std::string HowToComeBack(JobId job) {
  return StrCat("come back with `tandem job wait ", job, "`, end it with `tandem job cancel ", job,
                "`");
}

absl::StatusOr<client::JobInfo> Detach(client::Client* client, JobId job, OnCtrlC on_ctrl_c) {
  if (on_ctrl_c == OnCtrlC::kAskToCancel) {
    std::cerr << "Ctrl-C again within " << HumanDuration(kSecondCtrlC) << " cancels job " << job
              << std::endl;
    if (AwaitInterrupts(2, kSecondCtrlC)) return client->Cancel(job);
  }
  return Error(absl::StatusCode::kCancelled, reason::kInterrupted,
               StrCat("left job ", job, ", which goes on; ", HowToComeBack(job)));
}

}  // namespace

absl::StatusOr<client::JobInfo> WaitWithProgress(
    client::Client* client, JobId job, const WaitOptions& options,
    absl::FunctionRef<absl::Status(const client::JobInfo&)> on_change) {
  Progress progress(stderr, options.style, StrCat("job ", job), "tasks", Clock::Real());
  // A signal must not wait for the job's next change.
  const OnInterrupt on_interrupt([client] { client->StopWaiting(); });
  absl::Status changed = absl::OkStatus();
  absl::StatusOr<client::JobInfo> info = client->Wait(job, [&](const client::JobInfo& now) {
    const std::string note = now.wait_reason.empty() ? "" : "waits: " + now.wait_reason;
    progress.Update(now.tasks_done, now.task_count, note);
    changed = on_change(now);
    return changed.ok() && !Interrupted();
  });
  progress.Finish();
  RETURN_IF_ERROR(changed);
  if (absl::IsUnavailable(info.status())) {
    return Error(absl::StatusCode::kUnavailable, ReasonOf(info.status()),
                 StrCat(ToStd(info.status().message()), "; job ", job,
                        " is safe with its master: when that is back, ", HowToComeBack(job)));
  }
  if (!info.ok() || client::HasEnded(info->state)) return info;
  return Detach(client, job, options.on_ctrl_c);
}

absl::StatusOr<client::JobInfo> WaitWithProgress(client::Client* client, JobId job,
                                                 const WaitOptions& options) {
  return WaitWithProgress(client, job, options,
                          [](const client::JobInfo&) { return absl::OkStatus(); });
}

void CatchForWait(OnCtrlC on_ctrl_c) {
  CatchInterrupts(on_ctrl_c == OnCtrlC::kAskToCancel ? 2 : 1);
}

void SayEnd(client::Client* client, const client::JobInfo& job,
            const std::vector<std::string>& item_names) {
  std::cerr << EndLine(job) << '\n';
  if (job.tasks_failed == 0) return;
  const auto failures = client->Failures(job.id, kFailuresShown);
  if (!failures.ok()) return;
  for (const TaskFailure& failure : *failures) {
    std::cerr << "  task " << failure.task;
    if (failure.task < item_names.size()) std::cerr << " (" << item_names[failure.task] << ")";
    std::cerr << ": " << failure.reason << '\n';
  }
  if (job.tasks_failed > failures->size()) {
    std::cerr << "  and " << job.tasks_failed - failures->size() << " more: tandem job failures "
              << job.id.value() << '\n';
  }
}

}  // namespace tandem::cli
