#include "client/cli/wait.h"

#include <algorithm>
#include <iostream>
#include <thread>

#include "client/cli/interrupt.h"
#include "client/cli/job_text.h"
#include "client/cli/progress.h"
#include "common/base/strings.h"

namespace tandem::cli {
namespace {
constexpr uint64_t kFailuresShown = 5;
}  // namespace

absl::StatusOr<client::JobInfo> WaitWithProgress(client::Client* client, JobId job, bool quiet) {
  Progress progress(stderr, quiet ? Progress::Style::kNone : Progress::StyleFor(stderr),
                    StrCat("job ", job.value()), "tasks", Clock::Real());
  // A signal must not wait for the job's next change.
  const OnInterrupt on_interrupt([client] { client->StopWaiting(); });
  return client->Wait(job, [&](const client::JobInfo& info) {
    const std::string note = info.wait_reason.empty() ? "" : "waits: " + info.wait_reason;
    progress.Update(info.tasks_done, info.task_count, note);
    return !Interrupted();
  });
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
