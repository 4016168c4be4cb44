// Prints the results of a job's tasks in order, while it runs: `tandem run --follow`.
//
//   Follower follower(client, context->format());
//   on each change of the job:  RETURN_IF_ERROR(follower.Update(job));
//
// A line a task: its number, then each output that is no reduction as name=value or name=[values]
// (an item's size, for a ragged one); jsonl: {"task":…,"outputs":{…}}. Failed tasks say why.
// Thread-safety: one thread.
#ifndef TANDEM_CLIENT_CLI_FOLLOW_H_
#define TANDEM_CLIENT_CLI_FOLLOW_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/cli/table.h"
#include "client/lib/client.h"

namespace tandem::cli {

class Follower {
 public:
  Follower(client::Client* client, Format format) : client_(client), format_(format) {}

  // Prints what is done and was not printed yet. Errors: those of reading.
  absl::Status Update(const client::JobInfo& job);
  // How many tasks were printed.
  uint64_t printed() const { return next_; }

 private:
  absl::StatusOr<uint64_t> DoneUntil(const client::JobInfo& job);
  const TaskFailure* FailureOf(uint64_t task) const;
  absl::Status Read(const client::JobInfo& job, const client::OutputInfo& output,
                    std::vector<nlohmann::ordered_json>* rows);
  absl::Status Print(const client::JobInfo& job, uint64_t end);

  client::Client* const client_;
  const Format format_;
  uint64_t next_ = 0;
  std::vector<TaskFailure> failures_;
};

}  // namespace tandem::cli

#endif  // TANDEM_CLIENT_CLI_FOLLOW_H_
