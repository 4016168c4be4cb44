// Waiting for a job with progress, leaving it alone, and what is said when it has ended.
//
// Thread-safety: one thread at a time.
#ifndef TANDEM_CLIENT_CLI_WAIT_H_
#define TANDEM_CLIENT_CLI_WAIT_H_

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "client/cli/progress.h"
#include "client/lib/client.h"

namespace tandem::cli {

// What Ctrl-C does to a wait. kAskToCancel: the first one asks for a second, which cancels the job.
enum class OnCtrlC { kDetach, kAskToCancel };

struct WaitOptions {
  Progress::Style style = Progress::Style::kNone;
  OnCtrlC on_ctrl_c = OnCtrlC::kDetach;
};

// Shows progress on stderr until the job has ended; calls `on_change` with each state.
// Needs CatchForWait(). Errors: CANCELLED INTERRUPTED after Ctrl-C: the job goes on, and the
// message says how to come back, as it does when the master stays away (MASTER_UNAVAILABLE).
absl::StatusOr<client::JobInfo> WaitWithProgress(
    client::Client* client, JobId job, const WaitOptions& options,
    absl::FunctionRef<absl::Status(const client::JobInfo&)> on_change);
absl::StatusOr<client::JobInfo> WaitWithProgress(client::Client* client, JobId job,
                                                 const WaitOptions& options);
// Before the job is submitted.
void CatchForWait(OnCtrlC on_ctrl_c);

// The end of a job on stderr: one line, and the first failures with their reasons.
void SayEnd(client::Client* client, const client::JobInfo& job,
            const std::vector<std::string>& item_names);

}  // namespace tandem::cli

#endif  // TANDEM_CLIENT_CLI_WAIT_H_
