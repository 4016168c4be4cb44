// Waiting for a job with progress, and what is said when it has ended.
//
// Thread-safety: one thread at a time.
#ifndef TANDEM_CLIENT_CLI_WAIT_H_
#define TANDEM_CLIENT_CLI_WAIT_H_

#include "absl/status/statusor.h"
#include "client/lib/client.h"

namespace tandem::cli {

// Shows progress on stderr until the job has ended. Ctrl-C detaches: the job goes on, and an error
// of code kCancelled says how to come back (exit code 130).
absl::StatusOr<client::JobInfo> WaitWithProgress(client::Client* client, JobId job, bool quiet);

// The end of a job on stderr: one line, and the first failures with their reasons.
void SayEnd(client::Client* client, const client::JobInfo& job,
            const std::vector<std::string>& item_names);

}  // namespace tandem::cli

#endif  // TANDEM_CLIENT_CLI_WAIT_H_
