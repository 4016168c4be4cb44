// Jobs, failures and plans as texts and JSON.
//
// Thread-safety: pure functions.
#ifndef TANDEM_CLIENT_CLI_JOB_TEXT_H_
#define TANDEM_CLIENT_CLI_JOB_TEXT_H_

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "client/cli/table.h"
#include "client/lib/client.h"

namespace tandem::cli {

std::string TimeText(const std::optional<absl::Time>& time);
nlohmann::ordered_json TimeJson(const std::optional<absl::Time>& time);
nlohmann::ordered_json JobJson(const client::JobInfo& job);
Table JobTable(const std::vector<client::JobInfo>& jobs);
Record JobRecord(const client::JobInfo& job);
// What a wait reason means and what would end the wait: "no worker is attached; …".
std::string WaitText(std::string_view wait_reason);
// "job 7 SUCCEEDED: 1,000 tasks in 1.2s (833 tasks/s)" and the like, one line.
std::string EndLine(const client::JobInfo& job);
// "job 7 RUNNING: 250 of 1,000 tasks (25.0%), 2 failed, for 3.1s; waits: …", one line.
std::string ProgressLine(const client::JobInfo& job);
// `upload_bytes`: what would have to be uploaded.
Record PlanRecord(const client::JobPlan& plan, uint64_t upload_bytes);
Table FailureTable(const client::JobInfo& job, const std::vector<TaskFailure>& failures,
                   const std::vector<std::string>& item_names);

}  // namespace tandem::cli

#endif  // TANDEM_CLIENT_CLI_JOB_TEXT_H_
